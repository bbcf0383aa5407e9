"""Leases: accept, extend, report, release; every write names its lease and changes nothing once that is lost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from warploom.domain.cards import KnownCard
from warploom.domain.errors import LeaseLost, MalformedInput, NotFound, NotYours
from warploom.domain.etas import next_pace, run_end, show_eta
from warploom.domain.events import EventKind
from warploom.domain.identifiers import CardId, LeaseId, lease_name, ticket_name
from warploom.domain.leases import (
    LONGEST_RUN,
    LeaseAnswer,
    LeaseEnd,
    LeaseState,
    check_step,
    lease_lost,
    run_length,
)
from warploom.domain.sessions import Actor
from warploom.domain.tasks import TaskState
from warploom.domain.texts import REASON_LIMIT, one_line, spoken_duration
from warploom.domain.tickets import CardNeed, room_for
from warploom.services.changes import Change, Changes, names
from warploom.services.grants import GrantTimes, Round, grant_possible
from warploom.store import cards as card_store
from warploom.store import leases as lease_store
from warploom.store import sessions as session_store
from warploom.store import tickets as ticket_store
from warploom.store.database import Connection
from warploom.store.leases import Ended, Ending, Lease
from warploom.store.tickets import Ticket


@dataclass(frozen=True, slots=True)
class OfferRules:
    """How many missed offers park a ticket."""

    missed: int


class LeaseService:
    """What a holder can do with a lease, and how leases end."""

    def __init__(self, changes: Changes, times: GrantTimes, offers: OfferRules) -> None:
        self._changes = changes
        self._times = times
        self._offers = offers

    async def accept(self, actor: Actor, lease: LeaseId) -> LeaseAnswer:
        """Take an offered lease up; accepting an active one again is success."""
        async with self._changes.begin() as change:
            await self._hold(change, actor, lease)
            held = await _get(change.conn, lease)
        return _answer(held, f'Start the job now; call gpu_release("{lease_name(lease)}") when it ends.')

    async def extend(self, actor: Actor, lease: LeaseId, minutes: float, reason: str) -> LeaseAnswer:
        """Move the declared end out, for an honest queue; it ends nothing either way."""
        by, why = run_length(minutes), one_line(reason, "reason", REASON_LIMIT)
        assert by is not None
        async with self._changes.begin() as change:
            held = await self._hold(change, actor, lease)
            start = max(held.expected_end or held.now, held.now)
            if start + by > held.now + LONGEST_RUN:
                raise MalformedInput("That would end more than sixty days from now.", "Extend by less.")
            await lease_store.extend_lease(change.conn, lease, by)
            facts = _facts(held) | {"minutes": f"{minutes:g}", "reason": why}
            _tell(change, EventKind.LEASE_EXTENDED, held, facts)
            held = await _get(change.conn, lease)
        return _answer(held, "Those who wait see the new end.")

    async def report(self, lease: LeaseId, step: int, total: int | None, actor: Actor | None = None) -> LeaseAnswer:
        """Note a holder's progress. A training process may report without a session: it can change nothing else."""
        check_step(step, total)
        async with self._changes.begin() as change:
            held = await self._hold(change, actor, lease)
            pace = next_pace(held.pace, step, total, held.now)
            await lease_store.save_pace(change.conn, lease, pace)
            change.topics.add("progress")
            held = await _get(change.conn, lease)
        return _answer(held, "Those who wait see your progress.")

    async def release(self, actor: Actor, lease: LeaseId) -> LeaseAnswer:
        """Give the cards back. Releasing twice is success; releasing a lease that was lost says so."""
        async with self._changes.begin() as change:
            await lease_store.lock_cards_of(change.conn, lease)
            held = await _get(change.conn, lease)
            _require_own(actor, held)
            if held.state is LeaseState.ENDED:
                if held.end is not LeaseEnd.RELEASED:
                    raise await _lost(change.conn, lease)
                return _answer(held, "It was released already; nothing to do.")
            await self._end(change, held, Ending(LeaseEnd.RELEASED, TaskState.DONE))
        released = replace(held, state=LeaseState.ENDED)
        return _answer(
            released, "The card is free as soon as it is observed clear. Make sure your processes on it have ended."
        )

    async def expire(self, lease: LeaseId) -> bool:
        """End a lease whose holder was silent for a whole lease time; the card stays taken until observed clear.

        The holder is told at its next contact.
        """
        silence = f"after {spoken_duration(self._times.lease)} of silence"
        async with self._changes.begin() as change:
            await lease_store.lock_cards_of(change.conn, lease)
            held = await _get(change.conn, lease)
            ending = Ending(LeaseEnd.EXPIRED, TaskState.FAILED, f"its lease expired {silence}")
            if await self._end(change, held, ending) is None:
                return False
            text = f"your lease {_named(held)} ended {silence}; ask again with gpu_request if you still need a card"
            await session_store.send_notice(change.conn, held.session, "warploom", text)
            return True

    async def lapse(self, lease: LeaseId) -> bool:
        """Pass the cards of an offer that nobody took on, and put its ticket back at its original age.

        The ticket comes last in the round of grants that follows at once. Enough misses in a row park it.
        """
        async with self._changes.begin() as change:
            await lease_store.lock_cards_of(change.conn, lease)
            held = await _get(change.conn, lease)
            ended = await self._end(change, held, Ending(LeaseEnd.LAPSED, TaskState.READY, was_used=False))
            if ended is None:
                return False
            await self._back_in_queue(change, held, ended.missed)
            await grant_possible(change, self._times, Round(held.hosts, passed_over=[held.task]), held.now)
            return True

    async def withdraw(self, change: Change, held: Lease) -> bool:
        """End an offer because its owner leaves the queue; its cards go on in the caller's round of grants."""
        ending = Ending(LeaseEnd.WITHDRAWN, TaskState.CANCELLED, "left the queue", was_used=False)
        return await self._end(change, held, ending) is not None

    async def _back_in_queue(self, change: Change, held: Lease, missed: int) -> None:
        text = f"you missed the offer {_named(held)}"
        if missed >= self._offers.missed:
            outcome = f"parked after {missed} missed offers"
            await ticket_store.park_ticket(change.conn, held.task, outcome)
            facts = _facts(held) | {"missed": str(missed)}
            _tell(change, EventKind.TICKET_PARKED, held, facts)
            text += f"; it is parked: `warploom wait {ticket_name(held.task)}` puts it back at its original age"
        else:
            await requeue(change.conn, held)
            text += "; it is back in the queue at its original age"
        await session_store.send_notice(change.conn, held.session, "warploom", text)

    async def _hold(self, change: Change, actor: Actor | None, lease: LeaseId) -> Lease:
        """Prove that the lease is live and the actor's, and lock it; a call that names an offer accepts it.

        Without an actor it is the job itself that calls: it shows that the offer was taken, even when that was told late.
        Raise LeaseLost otherwise.
        """
        held = await _get(change.conn, lease)
        if actor is not None:
            _require_own(actor, held)
        if held.state is LeaseState.OFFERED:
            await self._activate(change, held, actor)
        else:
            session = actor.session if actor else None
            await lease_store.renew_lease(change.conn, lease, session, self._times.lease)
        return await _live(change.conn, lease)

    async def _activate(self, change: Change, held: Lease, actor: Actor | None) -> None:
        session, is_late_too = (actor.session, False) if actor else (None, True)
        if not await lease_store.accept_lease(
            change.conn, held.lease, session, self._times.lease, even_late=is_late_too
        ):
            now = await _get(change.conn, held.lease)
            if now.state is LeaseState.OFFERED:
                raise LeaseLost(
                    f"The offer {lease_name(held.lease)} ran out at {held.expires_at:%H:%M:%S} UTC.",
                    f"Run `warploom wait {ticket_name(held.task)}` again; your ticket keeps its age.",
                )
            return
        _tell(change, EventKind.LEASE_ACCEPTED, held, _facts(held))

    async def _end(self, change: Change, held: Lease, ending: Ending) -> Ended | None:
        ended = await lease_store.end_lease(change.conn, held.lease, ending)
        if ended is not None:
            _tell(change, EventKind(f"lease.{ending.end.value}"), held, _facts(held))
            for host in {name.partition("/")[0] for name in held.card_names}:
                change.order_survey(host)
        return ended


async def requeue(conn: Connection, held: Lease) -> None:
    """Put the ticket of an ended offer back into the queues of the cards it may use."""
    ticket = await ticket_store.get_ticket(conn, held.task)
    assert ticket is not None
    cards = await card_store.read_cards(conn)
    await ticket_store.enqueue(conn, held.task, candidates_of(ticket, cards))


def candidates_of(ticket: Ticket, cards: Sequence[KnownCard]) -> list[CardId]:
    """Return the cards a ticket may use: its named ones, or all that fit it now."""
    if ticket.need_cards:
        return ticket.need_cards
    need = CardNeed((), ticket.need_count, ticket.need_memory_mib, ticket.need_model)
    return [card.card for card in room_for(need, cards)]


async def _get(conn: Connection, lease: LeaseId) -> Lease:
    held = await lease_store.get_lease(conn, lease)
    if held is None:
        raise NotFound(f"There is no lease {lease_name(lease)}.", "loom_me lists the leases you hold.")
    return held


async def _live(conn: Connection, lease: LeaseId) -> Lease:
    held = await _get(conn, lease)
    if held.state is LeaseState.ENDED:
        raise await _lost(conn, lease)
    return held


async def _lost(conn: Connection, lease: LeaseId) -> LeaseLost:
    fate = await lease_store.fate_of(conn, lease)
    assert fate is not None
    return lease_lost(fate)


def _require_own(actor: Actor, held: Lease) -> None:
    if actor.agent != held.agent:
        raise NotYours(
            f"{lease_name(held.lease)} belongs to {held.agent_name}, not to {actor.agent_name}.",
            "Name a lease of your own; loom_me lists them.",
        )


def _named(held: Lease) -> str:
    more = f" and {len(held.card_names) - 8} more" if len(held.card_names) > 8 else ""
    return f"{lease_name(held.lease)} on {names(held.card_names[:8])}{more} for {ticket_name(held.task)} '{held.title}'"


def _facts(held: Lease) -> dict[str, str]:
    return {"agent": held.agent_name, "title": held.title, "cards": names(held.card_names)}


def _tell(change: Change, kind: EventKind, held: Lease, facts: dict[str, str]) -> None:
    change.tell(
        kind,
        facts,
        project=held.project,
        task=held.task,
        lease=held.lease,
        session=held.session,
        host=held.hosts[0] if held.hosts else None,
        cards=held.cards,
    )


def _answer(held: Lease, next_step: str) -> LeaseAnswer:
    eta = show_eta(run_end(held.pace, held.expected_end, held.now), held.now)
    is_live = held.state is not LeaseState.ENDED
    return LeaseAnswer(
        lease=lease_name(held.lease),
        ticket=ticket_name(held.task),
        state=held.state,
        cards=held.card_names,
        next=next_step,
        expires_at=held.expires_at if is_live else None,
        expected_end=held.expected_end,
        step=held.pace.step if held.pace else None,
        total=held.pace.total if held.pace else None,
        free_in=eta.text if is_live else None,
        eta_source=eta.word.value if is_live else None,
    )
