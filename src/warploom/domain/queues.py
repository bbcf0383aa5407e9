"""The queue of a card: the order, who is granted what, and when the rest may expect their turn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from warploom.domain.etas import UNKNOWN, EtaWord, Span, after, weakest
from warploom.domain.identifiers import CardId, HostId, TaskId


@dataclass(frozen=True, slots=True)
class Slot:
    """A card as the queue sees it. `free` is when its present holder will be done; None when nothing holds it."""

    card: CardId
    host: HostId
    is_grantable: bool
    free: Span | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A ticket in queue order. `candidates` are the cards it may use; it needs `count` of them on one host."""

    task: TaskId
    count: int
    candidates: frozenset[CardId]
    run: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A decision: this ticket gets these cards, in card order."""

    task: TaskId
    cards: tuple[CardId, ...]


def decide(slots: Sequence[Slot], tickets: Sequence[Waiting], now: datetime) -> list[Grant]:
    """Decide every grant that is possible now, first come first served, all or nothing.

    A ticket that must wait for more cards holds the clear ones it could use. A later ticket may use a held card only
    if its declared run ends before every holder of that card could start; where that cannot be known, it waits.
    """
    open_cards = {slot.card: slot for slot in slots if slot.is_grantable}
    held_until: dict[CardId, datetime | None] = {}
    grants: list[Grant] = []
    for ticket in tickets:
        usable = [
            slot
            for slot in open_cards.values()
            if slot.card in ticket.candidates and _may_use(ticket, slot.card, held_until, now)
        ]
        chosen = _choose(usable, ticket.count)
        if chosen is not None:
            grants.append(Grant(ticket.task, chosen))
            for card in chosen:
                del open_cards[card]
            continue
        start = _earliest_start(slots, ticket)
        for card in ticket.candidates & open_cards.keys():
            held_until[card] = _earlier(held_until[card], start) if card in held_until else start
    return grants


def _may_use(ticket: Waiting, card: CardId, held_until: dict[CardId, datetime | None], now: datetime) -> bool:
    if card not in held_until:
        return True
    until = held_until[card]
    return until is not None and ticket.run is not None and now + ticket.run <= until


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return None if one is None or other is None else min(one, other)


def _choose(usable: Iterable[Slot], count: int) -> tuple[CardId, ...] | None:
    """Take `count` cards of one host: the host with the fewest spare ones, so that larger requests find room."""
    hosts: dict[HostId, list[CardId]] = {}
    for slot in usable:
        hosts.setdefault(slot.host, []).append(slot.card)
    fitting = [cards for cards in hosts.values() if len(cards) >= count]
    if not fitting:
        return None
    fewest = min(fitting, key=lambda cards: (len(cards), min(cards)))
    return tuple(sorted(fewest)[:count])


def _earliest_start(slots: Sequence[Slot], ticket: Waiting) -> datetime | None:
    """Return the first moment at which the ticket could hold all its cards, or None when that cannot be known."""
    starts: list[datetime] = []
    for host in {slot.host for slot in slots if slot.card in ticket.candidates}:
        own = [slot for slot in slots if slot.host == host and slot.card in ticket.candidates]
        ready = sum(slot.is_grantable for slot in own)
        ends = sorted(slot.free.soonest for slot in own if not slot.is_grantable and slot.free and slot.free.soonest)
        missing = ticket.count - ready
        if 0 < missing <= len(ends):
            starts.append(ends[missing - 1])
    return min(starts, default=None)


def forecast(slots: Sequence[Slot], tickets: Sequence[Waiting], now: datetime) -> dict[TaskId, Span]:
    """Estimate when each ticket will start, by playing the queue forward in order.

    Each ticket takes the `count` candidates of one host that are free first; it starts when the last of them is, and
    they are free again when its declared run ends. One unknown link makes everything behind it on that card unknown.
    """
    free: dict[CardId, Span] = {slot.card: _free(slot, now) for slot in slots}
    starts: dict[TaskId, Span] = {}
    for ticket in tickets:
        cards = _first_free(slots, ticket, free)
        start = _last_of([free[card] for card in cards]) if cards else UNKNOWN
        starts[ticket.task] = start
        end = after(start, ticket.run)
        for card in cards:
            free[card] = end
    return starts


def _free(slot: Slot, now: datetime) -> Span:
    if slot.free is not None:
        return slot.free
    return Span(EtaWord.MEASURED, now, now) if slot.is_grantable else UNKNOWN


def _first_free(slots: Sequence[Slot], ticket: Waiting, free: dict[CardId, Span]) -> list[CardId]:
    best: tuple[datetime, list[CardId]] | None = None
    fallback: list[CardId] = []
    for host in sorted({slot.host for slot in slots if slot.card in ticket.candidates}):
        own = [slot.card for slot in slots if slot.host == host and slot.card in ticket.candidates]
        if len(own) < ticket.count:
            continue
        known = sorted(
            (card for card in own if free[card].is_known), key=lambda card: (free[card].latest or datetime.max, card)
        )
        if len(known) < ticket.count:
            fallback = fallback or [*known, *(card for card in own if card not in known)][: ticket.count]
            continue
        chosen = known[: ticket.count]
        start = max(moment for card in chosen if (moment := free[card].latest) is not None)
        if best is None or start < best[0]:
            best = (start, chosen)
    return best[1] if best else fallback


def _last_of(spans: list[Span]) -> Span:
    soonest = [span.soonest for span in spans if span.soonest is not None]
    latest = [span.latest for span in spans if span.latest is not None]
    if len(latest) < len(spans) or not spans:
        return UNKNOWN
    return Span(weakest(span.word for span in spans), max(soonest), max(latest))
