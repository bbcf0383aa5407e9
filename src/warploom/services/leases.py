"""Leases: accept, extend, report, release; every write names its lease and changes nothing once that is lost."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from warploom.domain.breaker import BreakerRules, JobFailure
from warploom.domain.callers import Role
from warploom.domain.errors import LeaseLost, MalformedInput, NotFound, NotReady, NotYours
from warploom.domain.etas import is_first_measure, measured_end, next_pace, run_end, show_eta
from warploom.domain.events import EventKind
from warploom.domain.identifiers import LeaseId, TaskId, lease_name, ticket_name
from warploom.domain.leases import (
    LONGEST_RUN,
    LeaseAnswer,
    LeaseEnd,
    LeaseState,
    check_step,
    lease_lost,
    run_length,
)
from warploom.domain.messages import WARPLOOM
from warploom.domain.reservations import spoken_window
from warploom.domain.sessions import Actor
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.texts import REASON_LIMIT, one_line, spoken_duration, spoken_list
from warploom.services.agreements import behind_asker, word_of
from warploom.services.breaker import weigh_failure
from warploom.services.changes import Change, Changes, repeated
from warploom.services.endings import (
    after_release,
    expiry_ending,
    facts_of,
    foretell_end,
    name_lease,
    release_ending,
    say_again,
    tell_expiry,
    tell_failure,
    tell_lease,
)
from warploom.services.grants import GrantTimes, Round, grant_possible
from warploom.services.queues import requeue
from warploom.store import claims as claim_store
from warploom.store import leases as lease_store
from warploom.store import promises as promise_store
from warploom.store import queues as queue_store
from warploom.store import reservations as reservation_store
from warploom.store import sessions as session_store
from warploom.store import tasks as task_store
from warploom.store import tickets as ticket_store
from warploom.store.database import Connection
from warploom.store.leases import Ended, Ending, Lease

_MOST_AHEAD = timedelta(seconds=30)
"""How much more than its usual time a lease may have left: as much as every holder is given after an outage."""


@dataclass(frozen=True, slots=True)
class OfferRules:
    """How many missed offers park a ticket."""

    missed: int


class LeaseService:
    """What a holder can do with a lease, and how leases end."""

    def __init__(self, changes: Changes, times: GrantTimes, offers: OfferRules, breaker: BreakerRules) -> None:
        self._changes = changes
        self._times = times
        self._offers = offers
        self._breaker = breaker

    @repeated
    async def accept(self, actor: Actor, lease: LeaseId) -> LeaseAnswer:
        """Take an offered lease up; accepting an active one again is success."""
        async with self._changes.begin() as change:
            await self._hold(change, actor, lease)
            held = await _get(change.conn, lease)
        return _answer(held, f'Start the job now; call gpu_release("{lease_name(lease)}") when it ends.')

    @repeated
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
            facts = facts_of(held) | {"minutes": f"{minutes:g}", "reason": why}
            tell_lease(change, EventKind.LEASE_EXTENDED, held, facts)
            held = await _get(change.conn, lease)
            into = await _run_into(change.conn, held)
        return _answer(held, f"Those who wait see the new end.{into}")

    @repeated
    async def report(self, lease: LeaseId, step: int, total: int | None, actor: Actor | None = None) -> LeaseAnswer:
        """Note a holder's progress. A training process may report without a session: it can change nothing else."""
        check_step(step, total)
        async with self._changes.begin() as change:
            held = await self._hold(change, actor, lease)
            pace = next_pace(held.pace, step, total, held.now)
            await lease_store.save_pace(change.conn, lease, pace)
            if is_first_measure(held.pace, pace) and held.cards:
                end = measured_end(pace, held.now)
                await promise_store.promise_end(change.conn, held.task, lease, [end])
            change.topics.add("progress")
            held = await _get(change.conn, lease)
            word = await word_of(change, held)
        if word is None:
            return _answer(held, "Those who wait see your progress.")
        return replace(_answer(held, word.text), should_release=word.is_due)

    @repeated
    async def release(
        self, actor: Actor, lease: LeaseId, failed: JobFailure | None = None, *, keeps_place: bool = False
    ) -> LeaseAnswer:
        """Give the cards back. Releasing twice is success; releasing a lease that was lost says so.

        A job that `failed` speaks against its cards when it did so soon; any other counts as one that went well. Who keeps
        its place lets the first who waits for these cards go, and stands right behind. With nobody waiting there is no place
        to keep, and the request is over.
        """
        async with self._changes.begin() as change:
            await lease_store.lock_cards_of(change.conn, lease)
            held = await _get(change.conn, lease)
            _require_own(actor, held)
            _require_gpu(held)
            if held.state is LeaseState.ENDED:
                if held.end is not LeaseEnd.RELEASED:
                    raise await _lost(change.conn, lease)
                return _answer(held, "It was released already; nothing to do.")
            behind = await self._place_behind(change, held) if keeps_place else None
            ended = await self._end(change, held, release_ending(held, failed, waits_on=behind is not None))
            place = None if behind is None else await self._stand_behind(change, held, behind)
            if failed and place is None:
                tell_failure(change, held, failed)
        released = replace(held, state=LeaseState.ENDED)
        became = ended.verdicts if ended else []
        return _answer(released, " ".join([*became, after_release(held, place, keeps_place=keeps_place)]))

    @repeated
    async def expire(self, lease: LeaseId) -> bool:
        """End a lease whose holder was silent for a whole lease time; the card stays taken until observed clear.

        Anybody may claim its task again unless that was the last attempt; a request for cards has failed. The holder is
        told at its next contact.
        """
        silence = f"after {spoken_duration(self._times.lease)} of silence"
        async with self._changes.begin() as change:
            held = await _get(change.conn, lease)
            if held.kind is not TaskKind.GPU:
                await task_store.lock_graph(change.conn, held.project)
            await lease_store.lock_cards_of(change.conn, lease)
            held = await _get(change.conn, lease)
            ending = expiry_ending(held, f"its lease expired {silence}")
            if await self._end(change, held, ending) is None:
                return False
            tell_expiry(change, held, ending)
            text = f"your lease {name_lease(held)} ended {silence}; {say_again(held, ending)}"
            await session_store.send_notice(change.conn, held.session, WARPLOOM, text)
            return True

    @repeated
    async def shorten_ahead(self) -> int:
        """Shorten what a clock that was set back would keep alive for longer than its time; return how many.

        Each holder is told. Whoever is alive loses nothing: the next sign of life gives the whole time, as ever.
        """
        async with self._changes.begin() as change:
            shortened = await lease_store.shorten_ahead(change.conn, self._times.lease, self._times.offer, _MOST_AHEAD)
            for lease, by in shortened.items():
                held = await _get(change.conn, lease)
                tell_lease(change, EventKind.LEASE_SHORTENED, held, facts_of(held) | {"by": spoken_duration(by)})
                text = f"the clock was set back by {spoken_duration(by)}: {name_lease(held)} ends at {held.expires_at:%H:%M:%S} UTC"
                await session_store.send_notice(
                    change.conn, held.session, WARPLOOM, f"{text} unless you are heard before"
                )
            return len(shortened)

    @repeated
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
        if held.kind is TaskKind.GPU:
            ending = Ending(LeaseEnd.WITHDRAWN, TaskState.CANCELLED, "left the queue", was_used=False)
        else:
            ending = Ending(LeaseEnd.WITHDRAWN, TaskState.READY, was_used=False, frees_task=True)
        return await self._end(change, held, ending) is not None

    async def prove(
        self, change: Change, actor: Actor, task: TaskId, lease: LeaseId, *, ended_as: LeaseEnd | None = None
    ) -> bool:
        """Prove that a lease is live, of this task and the actor's (an operator may name anybody's), and lock it.

        False when it has ended as `ended_as`, so that saying something twice is success; LeaseLost when it ended otherwise.
        With `ended_as` the cards of its hosts are locked too, because it is about to be ended.
        """
        if ended_as is not None:
            await lease_store.lock_cards_of(change.conn, lease)
        held = await _get(change.conn, lease)
        if held.task != task:
            raise MalformedInput(
                f"{lease_name(lease)} is a lease on {ticket_name(held.task)}, not on {ticket_name(task)}.",
                "Name the lease that came with the claim; loom_me lists yours.",
            )
        if actor.role is not Role.OPERATOR:
            _require_own(actor, held)
        if held.state is LeaseState.ENDED:
            if held.end is ended_as:
                return False
            raise await _lost(change.conn, lease)
        own = actor if actor.agent == held.agent else None
        if held.state is LeaseState.OFFERED:
            await self._activate(change, held, own)
        else:
            await lease_store.renew_lease(change.conn, lease, own.session if own else None, self._times.lease)
        await _live(change.conn, lease)
        return True

    async def end(self, change: Change, lease: LeaseId, ending: Ending) -> Ended | None:
        """End a live lease within a change; None when it was not live. The caller has locked the cards of its hosts."""
        return await self._end(change, await _get(change.conn, lease), ending)

    async def lost(self, conn: Connection, lease: LeaseId) -> LeaseLost:
        """Say what became of a lease that is not live any more."""
        return await _lost(conn, lease)

    async def _back_in_queue(self, change: Change, held: Lease, missed: int) -> None:
        text = f"you missed the offer {name_lease(held)}"
        if missed >= self._offers.missed and held.kind is not TaskKind.GPU:
            await claim_store.return_task(change.conn, held.task)
            facts = facts_of(held) | {"reason": f"{held.agent_name} missed {missed} offers of its cards"}
            tell_lease(change, EventKind.TASK_RETURNED, held, facts)
            text += "; anybody may claim its task again"
        elif missed >= self._offers.missed:
            outcome = f"parked after {missed} missed offers"
            await ticket_store.park_ticket(change.conn, held.task, outcome)
            facts = facts_of(held) | {"missed": str(missed)}
            tell_lease(change, EventKind.TICKET_PARKED, held, facts)
            text += f"; it is parked: `warploom wait {ticket_name(held.task)}` puts it back at its original age"
        else:
            await requeue(change.conn, held.task)
            text += "; it is back in the queue at its original age"
        await session_store.send_notice(change.conn, held.session, WARPLOOM, text)

    async def _place_behind(self, change: Change, held: Lease) -> datetime | None:
        """Return the place right behind who was agreed on, else behind the first who waits; None when nobody does."""
        agreed = await behind_asker(change, held)
        return agreed or await queue_store.last_of_firsts(change.conn, held.cards)

    async def _stand_behind(self, change: Change, held: Lease, behind: datetime) -> int:
        """Let the ticket of a lease that was just released wait on behind the first in line, and return its place."""
        await ticket_store.stand_behind(change.conn, held.task, behind)
        await requeue(change.conn, held.task)
        tell_lease(change, EventKind.TICKET_YIELDED, held, facts_of(held))
        return min((await queue_store.places_of(change.conn, held.task)).values(), default=1)

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
        await foretell_end(change.conn, held)
        tell_lease(change, EventKind.LEASE_ACCEPTED, held, facts_of(held))

    async def _end(self, change: Change, held: Lease, ending: Ending) -> Ended | None:
        ended = await lease_store.end_lease(change.conn, held.lease, ending)
        if ended is not None:
            kind = _END_EVENTS.get(ending.end)
            if kind is not None:
                tell_lease(change, kind, held, facts_of(held))
            for host in {name.partition("/")[0] for name in held.card_names}:
                change.order_survey(host)
            if ending.job_failure is not None and held.cards:
                became = await weigh_failure(change, held, ending.job_failure, ended.at, self._breaker)
                return replace(ended, verdicts=became)
        return ended


_END_EVENTS = {
    LeaseEnd.RELEASED: EventKind.LEASE_RELEASED,
    LeaseEnd.EXPIRED: EventKind.LEASE_EXPIRED,
    LeaseEnd.LAPSED: EventKind.LEASE_LAPSED,
    LeaseEnd.WITHDRAWN: EventKind.LEASE_WITHDRAWN,
}
"""The endings that are told as events of the lease; the others are told as what happened to its task."""


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


async def _run_into(conn: Connection, held: Lease) -> str:
    """Say which reservations of others a lease's declared end lies within or behind; empty for none."""
    if held.expected_end is None:
        return ""
    into = [
        f"{each.booking.name} ({each.booking.agent_name}, {spoken_window(each.booking, held.now)})"
        for each in await reservation_store.reservations_of(conn, held.cards)
        if each.booking.agent != held.agent and each.booking.starts_at < held.expected_end
    ]
    if not into:
        return ""
    return f" It runs into {spoken_list(into)}: nothing is taken from you, but be done before if you can."


def _require_own(actor: Actor, held: Lease) -> None:
    if actor.agent != held.agent:
        raise NotYours(
            f"{lease_name(held.lease)} belongs to {held.agent_name}, not to {actor.agent_name}.",
            "Name a lease of your own; loom_me lists them.",
        )


def _require_gpu(held: Lease) -> None:
    if held.kind is not TaskKind.GPU:
        task, lease = ticket_name(held.task), lease_name(held.lease)
        raise NotReady(
            f"{lease} is the claim of the task {task}, not a request for cards.",
            f'End it with loom_done("{task}", lease="{lease}") or loom_fail: either gives its cards back.',
        )


def _answer(held: Lease, next_step: str) -> LeaseAnswer:
    eta = show_eta(run_end(held.pace, held.expected_end, held.now, held.past), held.now)
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
