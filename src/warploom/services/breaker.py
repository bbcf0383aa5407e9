"""The breaker: takes a card out of service on the evidence of its own faults, until an operator clears it."""

from datetime import datetime, timedelta
from typing import Final

from warploom.domain.breaker import BreakerRules, JobFailure, Verdict, card_failure, weigh
from warploom.domain.cards import KnownCard, Service
from warploom.domain.events import EventKind
from warploom.domain.identifiers import CardId, HostId, SessionId, lease_name, ticket_name
from warploom.domain.messages import WARPLOOM
from warploom.domain.tasks import TaskKind
from warploom.domain.texts import REASON_LIMIT, cut_line
from warploom.domain.xids import hardware_xids, say_xids
from warploom.services.changes import Change
from warploom.store import breaker as breaker_store
from warploom.store import cards as card_store
from warploom.store import sessions as session_store
from warploom.store.leases import Lease

XID_QUIET: Final = timedelta(hours=1)
"""How long an Xid that the event log has told of on a card is not told again."""


async def break_faulty(change: Change, host: HostId) -> None:
    """Quarantine what counts memory errors on this host. Leases go on, and whoever holds such a card is told.

    The caller has locked the host's cards.
    """
    broken = await breaker_store.break_faulty(change.conn, host)
    if not broken:
        return
    for card in await card_store.read_cards(change.conn, [host]):
        if card.card in broken:
            await _alert(change, card, broken[card.card])


async def weigh_xids(change: Change, host: HostId, xids: dict[CardId, list[int]], now: datetime) -> None:
    """Quarantine the cards of this host against which their Xids speak; note those of a program, or that came before.

    The caller has locked the host's cards.
    """
    for card in await card_store.read_cards(change.conn, [host]):
        told = xids.get(card.card, [])
        against = hardware_xids(told) if card.service is not Service.QUARANTINED else []
        if against:
            await keep_out(change, card, f"{say_xids(against)}, at {now:%H:%M} UTC")
        others = [xid for xid in told if xid not in against]
        fresh = await breaker_store.note_xids(change.conn, card.card, others, XID_QUIET) if others else []
        if fresh:
            facts = {"agent": WARPLOOM, "cards": card.name, "xids": say_xids([xid for xid in others if xid in fresh])}
            change.tell(EventKind.CARD_XID, facts, host=host, cards=[card.card])


async def weigh_failure(
    change: Change, held: Lease, failure: JobFailure, at: datetime, rules: BreakerRules
) -> list[str]:
    """Hold a job's failure against the cards of its lease where it came fast; return what became of them, in words.

    The caller has locked the cards of the lease's hosts.
    """
    if held.accepted_at is None or at - held.accepted_at > rules.fast or failure.blames_no_card:
        return []
    seen = card_failure(failure, held.lease, _job_of(held), at, held.cards)
    before = await breaker_store.read_failures(change.conn, held.cards)
    became: list[str] = []
    for card in await card_store.read_cards(change.conn, held.hosts):
        if card.card in before:
            failures = [*before[card.card], seen]
            await breaker_store.keep_failures(change.conn, card.card, failures)
            verdict = weigh(card.card, failures, rules)
            became += await _judge(change, card, verdict) if verdict else []
    return became


def _job_of(held: Lease) -> str:
    """Tell jobs apart: a task is itself, and requests for cards are one job when the same agent calls them the same."""
    return f"{held.agent_name} '{held.title}'" if held.kind is TaskKind.GPU else ticket_name(held.task)


async def _judge(change: Change, card: KnownCard, verdict: Verdict) -> list[str]:
    evidence = cut_line(verdict.evidence, REASON_LIMIT) or ""
    if verdict.is_broken:
        return [f"{card.name} is quarantined now: {evidence}."] if await keep_out(change, card, evidence) else []
    if not await breaker_store.suspect(change.conn, card.card, evidence):
        return []
    facts = {"agent": WARPLOOM, "cards": card.name, "reason": evidence}
    change.tell(EventKind.CARD_SUSPECTED, facts, host=card.host_id, cards=[card.card])
    return [f"{card.name} is suspect now: {evidence}."]


async def keep_out(change: Change, card: KnownCard, evidence: str) -> bool:
    """Quarantine a card on its evidence, and tell of it; False when it was so already. The caller has locked the host's cards."""
    told = cut_line(evidence, REASON_LIMIT) or ""
    is_new = await card_store.quarantine(change.conn, card.card, told)
    if is_new:
        await _alert(change, card, told)
    return is_new


async def _alert(change: Change, card: KnownCard, evidence: str) -> None:
    """Tell operators in the event log, and whoever holds the card."""
    facts = {"agent": WARPLOOM, "cards": card.name, "reason": evidence}
    change.tell(EventKind.CARD_QUARANTINED, facts, host=card.host_id, cards=[card.card])
    if card.holder is not None:
        text = (
            f"{card.name}, which you hold with {lease_name(card.holder.lease)} '{card.holder.title}', is quarantined: "
            f"{evidence}. Your lease goes on; what was computed there since may be wrong."
        )
        await session_store.send_notice(change.conn, SessionId(card.holder.session), WARPLOOM, text)
