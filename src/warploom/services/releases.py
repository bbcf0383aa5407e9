"""Forced releases: an operator ends the record of somebody's lease; nothing is killed, and its cards stay taken until seen clear."""

from collections.abc import Sequence

from warploom.domain.events import EventKind
from warploom.domain.identifiers import LeaseId, lease_name, ticket_name
from warploom.domain.leases import END_SENTENCES, ForcedAnswer, LeaseEnd, LeaseState
from warploom.domain.messages import WARPLOOM
from warploom.domain.sessions import Actor
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.texts import REASON_LIMIT, cut_line, one_line, spoken_list
from warploom.services.changes import Change, Changes, names, repeated
from warploom.services.endings import tell_lease
from warploom.services.kills import lease_named, processes_of, require_operator
from warploom.services.leases import LeaseService
from warploom.store import leases as lease_store
from warploom.store import queues as queue_store
from warploom.store import sessions as session_store
from warploom.store import tasks as task_store
from warploom.store.database import Connection
from warploom.store.leases import Ending, Lease


class ReleaseService:
    """What operators do with leases that their holders do not end."""

    def __init__(self, changes: Changes, leases: LeaseService) -> None:
        self._changes = changes
        self._leases = leases

    @repeated
    async def force(self, actor: Actor, lease: LeaseId, reason: str, *, preview: bool) -> ForcedAnswer:
        """End the record of a lease; with `preview` only say what that would mean. One that is over already is success.

        A request for cards ends as failed; a task of the graph may be claimed again by anybody, its attempts forgotten.
        """
        why = one_line(reason, "reason", REASON_LIMIT)
        async with self._changes.begin() as change:
            held = await _lock(change, lease)
            require_operator(actor, held, "end somebody's lease")
            if held.state is LeaseState.ENDED:
                return _answer(held, [_over(held)], done=not preview)
            consequences = await _consequences(change.conn, held)
            if not preview:
                await self._leases.end(change, lease, _ending(held, actor, why))
                _tell(change, held, actor, why)
                await session_store.send_notice(change.conn, held.session, WARPLOOM, _notice(held, actor, why))
            return _answer(held, consequences, done=not preview)


async def _lock(change: Change, lease: LeaseId) -> Lease:
    """Lock what an ending changes, in the one order, and return the lease as it is then."""
    held = await lease_named(change.conn, lease)
    if held.kind is not TaskKind.GPU:
        await task_store.lock_graph(change.conn, held.project)
    await lease_store.lock_cards_of(change.conn, lease)
    await lease_store.lock_leases(change.conn, [lease])
    return await lease_named(change.conn, lease)


def _ending(held: Lease, actor: Actor, why: str) -> Ending:
    if held.kind is TaskKind.GPU:
        outcome = cut_line(f"{actor.agent_name} ended its lease: {why}", REASON_LIMIT)
        return Ending(LeaseEnd.FORCED, TaskState.FAILED, outcome)
    return Ending(LeaseEnd.FORCED, TaskState.READY, frees_task=True, forgets_attempts=True)


def _over(held: Lease) -> str:
    assert held.end is not None
    return f"{lease_name(held.lease)} is over already: {END_SENTENCES[held.end]}. Nothing is left to do."


async def _consequences(conn: Connection, held: Lease) -> list[str]:
    lease, ticket = lease_name(held.lease), f"{ticket_name(held.task)} '{held.title}'"
    lines = [f"{lease} of {held.agent_name} ends at once; nothing is killed."]
    if held.kind is TaskKind.GPU:
        lines.append(f"Its request {ticket} ends as failed.")
    else:
        lines.append(f"{ticket} is ready again, for anybody to claim.")
    running = await processes_of(conn, held)
    lines += [f"Keeps running on {card.name}: {process.text}" for card, process in running]
    if held.cards:
        cards = spoken_list(held.card_names[:8])
        lines.append(f"{cards} {'stays' if len(held.cards) == 1 else 'stay'} taken until observed clear.")
        lines.append(await _who_is_next(conn, held))
    return [*lines, f"{held.agent_name} is told who did it and why."]


async def _who_is_next(conn: Connection, held: Lease) -> str:
    heads = await queue_store.read_heads(conn, held.hosts)
    waiting = [head for head in heads if set(held.cards) & set(head.waiting.candidates)]
    if not waiting:
        return "Nobody waits for it; the next request gets it then."
    first = waiting[0]
    return f"Next is {ticket_name(first.waiting.task)} '{first.title}' ({first.agent})."


def _notice(held: Lease, actor: Actor, why: str) -> str:
    on = f" on {names(held.card_names[:8])}" if held.card_names else ""
    text = (
        f"{actor.agent_name} ended your lease {lease_name(held.lease)}{on} for {ticket_name(held.task)} '{held.title}': {why}. "
        "Nothing was killed: what you started runs on"
    )
    if held.kind is TaskKind.GPU:
        return (
            f"{text} and keeps the card from others until it ends; ask again with gpu_request if you still need a card."
        )
    return f"{text}; stop working on it, anybody may claim it now. Write to {actor.agent_name} if that is wrong."


def _answer(held: Lease, consequences: Sequence[str], *, done: bool) -> ForcedAnswer:
    return ForcedAnswer(lease_name(held.lease), ticket_name(held.task), held.card_names, done, list(consequences))


def _tell(change: Change, held: Lease, actor: Actor, why: str) -> None:
    facts = {
        "by": actor.agent_name,
        "agent": held.agent_name,
        "title": held.title,
        "lease": lease_name(held.lease),
        "cards": names(held.card_names) or "no card",
        "reason": why,
    }
    kinds = [EventKind.LEASE_FORCED, *([EventKind.TASK_RETURNED] if held.kind is not TaskKind.GPU else [])]
    for kind in kinds:
        tell_lease(change, kind, held, facts)
