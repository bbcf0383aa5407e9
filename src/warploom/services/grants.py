"""Grants: decided inside the change that made them possible, by whoever made it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from warploom.domain.cards import Condition, KnownCard, Service
from warploom.domain.etas import first_ends
from warploom.domain.events import EventKind
from warploom.domain.identifiers import CardId, HostId, TaskId
from warploom.domain.queues import Slot, decide
from warploom.domain.reasons import free_span
from warploom.services.changes import Change, names
from warploom.store import cards as card_store
from warploom.store import promises as promise_store
from warploom.store import queues as queue_store
from warploom.store.queues import Granted, Head


@dataclass(frozen=True, slots=True)
class GrantTimes:
    """How long a lease lives without a sign of life, and how long an offer waits."""

    lease: timedelta
    offer: timedelta


@dataclass(frozen=True, slots=True)
class Round:
    """One look for grants on some hosts."""

    hosts: Sequence[HostId]
    present: TaskId | None = None
    """The ticket whose session is asking right now: its grant is active at once, everybody else's an offer."""
    passed_over: Iterable[TaskId] = field(default_factory=tuple[TaskId, ...])
    """Tickets that come last in this round, because they have just missed an offer."""


def slots_of(cards: Sequence[KnownCard], now: datetime) -> list[Slot]:
    """Present the cards in service to the queue's rules; nobody can tell when one that people took out comes back."""
    return [
        Slot(
            card.card,
            card.host_id,
            card.is_grantable,
            None if card.is_grantable else free_span(card, now),
            card.bookings,
            card.rules.weight,
        )
        for card in cards
        if card.service is Service.IN_SERVICE and card.condition is not Condition.GONE
    ]


async def grant_possible(change: Change, times: GrantTimes, look: Round, now: datetime) -> list[Granted]:
    """Make every grant that is possible on these hosts now. The caller has locked their cards; this reads, then decides.

    One winner in any race: the card rows are locked, tickets are taken with skip locked, and the schema allows one
    live lease per card and per task.
    """
    cards = await card_store.read_cards(change.conn, list(look.hosts))
    if not any(card.is_grantable for card in cards):
        return []
    heads = await queue_store.read_heads(change.conn, look.hosts)
    last = set(look.passed_over)
    leads = {look.present: timedelta()}
    tickets = [replace(each.waiting, lead=leads.get(each.waiting.task, times.offer)) for each in heads]
    waiting = sorted(tickets, key=lambda ticket: ticket.task in last)
    made: list[Granted] = []
    by_card = {card.card: card for card in cards}
    by_task = {head.waiting.task: head for head in heads}
    taken: set[str] = set()
    for decision in decide(slots_of(cards, now), waiting, now):
        resources = by_task[decision.task].resources
        if resources & taken:
            continue
        is_present = decision.task == look.present
        expires_in = times.lease if is_present else times.offer
        granted = await queue_store.grant(change.conn, decision, is_active=is_present, expires_in=expires_in)
        if granted is not None:
            made.append(granted)
            if granted.is_active:
                await _foretell(change, granted, by_task[decision.task], now)
            taken |= resources
            _tell(change, granted, by_card)
    return made


async def _foretell(change: Change, granted: Granted, head: Head, now: datetime) -> None:
    ends = first_ends(head.waiting.usual, head.declared, now)
    await promise_store.promise_end(change.conn, granted.task, granted.lease, ends)


def _tell(change: Change, granted: Granted, cards: dict[CardId, KnownCard]) -> None:
    kind = EventKind.LEASE_GRANTED if granted.is_active else EventKind.LEASE_OFFERED
    facts = {
        "agent": granted.agent_name,
        "title": granted.title,
        "cards": names(cards[card].name for card in granted.cards),
    }
    change.tell(
        kind,
        facts,
        project=granted.project,
        task=granted.task,
        lease=granted.lease,
        session=granted.session,
        host=cards[granted.cards[0]].host_id,
        cards=granted.cards,
    )
