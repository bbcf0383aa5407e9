"""Claims: an agent takes tasks, goes on with them and ends them; every write compares the holder."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from warploom.domain.breaker import job_failure
from warploom.domain.callers import Role
from warploom.domain.claims import Claim, ClaimAnswer, StepAnswer
from warploom.domain.errors import NotReady, Taken
from warploom.domain.etas import next_pace
from warploom.domain.events import EventKind
from warploom.domain.failures import FailureClass, delay_before, is_worth_trying
from warploom.domain.identifiers import LeaseId, TaskId, lease_name, task_name
from warploom.domain.leases import LeaseEnd, LeaseState
from warploom.domain.outputs import read_output
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer
from warploom.domain.task_answers import ManyAnswer
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.texts import REASON_LIMIT, one_line, optional_line
from warploom.services.changes import EVERYTHING, Change, Changes, graph_topic, repeated, ticket_topic
from warploom.services.convoys import Convoy
from warploom.services.leases import LeaseService
from warploom.services.projects import project_of
from warploom.services.task_views import next_step, reason_of, show_task
from warploom.services.tasks import each, get, nothing_to_do, required_text
from warploom.services.tickets import TicketService
from warploom.services.turns import Turns, Wish
from warploom.services.waits import why_nothing_ready
from warploom.store import claims as claim_store
from warploom.store import convoys as convoy_store
from warploom.store import leases as lease_store
from warploom.store import repairs as repair_store
from warploom.store import tasks as task_store
from warploom.store.claims import ClaimRules, Finished
from warploom.store.convoys import Taker, Word
from warploom.store.leases import Ended, Ending
from warploom.store.tasks import Task

BRANCH_LIMIT = 300
_MOST_TRIED = 20


@dataclass(frozen=True, slots=True)
class AttemptRules:
    """How long a claim lives without a sign of life, and how long another attempt waits."""

    lease: timedelta
    base: timedelta
    most: timedelta


class ClaimService:
    """What an agent can do with tasks. Those without cards are claimed and finished in one statement each, together with
    what other callers claim and finish at the same moment."""

    def __init__(self, changes: Changes, leases: LeaseService, tickets: TicketService, rules: AttemptRules) -> None:
        self._changes = changes
        self._leases = leases
        self._tickets = tickets
        self._rules = rules
        self._random = Random()  # noqa: S311  (spreads load, no secret)
        self._turns = Turns(changes.database)
        self._finishing = Convoy(self._finish)

    async def claim(
        self,
        actor: Actor,
        task: TaskId | None = None,
        count: int = 1,
        life: timedelta | None = None,
        project: str | None = None,
    ) -> ClaimAnswer:
        """Claim one task by number, or the next `count` fitting ones.

        A task that needs cards becomes a ticket in their queues; it is claimed together with them. `life` is how long the
        holder may be silent. Raises Taken with the winner's name, and NotReady with what the task waits for.
        """
        rules = ClaimRules(self._rules.lease, life)
        if task is not None:
            return await self._claim_one(actor, task, rules)
        if project is not None:
            async with self._changes.database.connection() as conn:
                actor = replace(actor, project=await project_of(conn, actor, project))
        return await self._claim_next(actor, count, rules)

    async def claim_several(self, actor: Actor, tasks: Sequence[TaskId], life: timedelta | None = None) -> ManyAnswer:
        """Claim each of several tasks; those that somebody else has keep no other from it."""
        rules = ClaimRules(self._rules.lease, life)
        return await each(
            tasks, lambda task: self._claim_one(actor, task, rules), "They are yours; loom_me lists their leases."
        )

    @repeated
    async def heartbeat(
        self, actor: Actor, task: TaskId, lease: LeaseId | None, progress: str | None = None, percent: int | None = None
    ) -> StepAnswer:
        """Show a sign of life for a claim, and say how far it is; a percentage makes its end measured."""
        note = optional_line(progress, "progress", REASON_LIMIT)
        async with self._changes.begin() as change:
            held, _ = await self._hold(change, actor, task, lease)
            assert held.lease is not None
            if percent is not None:
                before = await lease_store.get_lease(change.conn, held.lease)
                pace = next_pace(before.pace if before else None, percent, 100, held.now)
                await lease_store.save_pace(change.conn, held.lease, pace)
            if note is not None:
                await claim_store.save_note(change.conn, held.lease, note)
            change.topics.update(("progress", ticket_topic(task)))
            held = await get(change.conn, task)
        return _step(held, "Go on; call again when there is something to say, at the latest before it expires.")

    async def done(
        self, actor: Actor, task: TaskId, lease: LeaseId | None, output: Any = None, branch: str | None = None
    ) -> StepAnswer:
        """Finish a claimed task with what it left; what waited only for it is ready in the same transaction.

        Again with the same lease is success. Raises LeaseLost, changing nothing, when the lease is not live any more.
        """
        kept = read_output(output)
        where = optional_line(branch, "branch name", BRANCH_LIMIT)
        agent, session = _who(actor, lease)
        finished = await self._finishing.call(Word(task, lease, agent, session, kept, where))
        if finished is not None:
            self._changes.bus.publish([EVERYTHING, graph_topic(finished.project), ticket_topic(task)])
            return StepAnswer(
                task_name(task), TaskState.DONE, "loom_claim() takes the next one.", lease_name(finished.lease)
            )
        return await self._done_slowly(actor, task, lease, kept, where)

    @repeated
    async def fail(
        self,
        actor: Actor,
        task: TaskId,
        lease: LeaseId | None,
        reason: str,
        failure: FailureClass = FailureClass.UNKNOWN,
    ) -> StepAnswer:
        """End an attempt that failed: tried again later, or a dead letter when that is no use or was enough."""
        why = one_line(reason, "reason", REASON_LIMIT)
        failed = job_failure(why, failure)
        async with self._changes.begin() as change:
            await task_store.lock_graph(change.conn, (await get(change.conn, task)).project)
            held, is_live = await self._hold(change, actor, task, lease, ended_as=LeaseEnd.FAILED)
            if not is_live:
                return _step(held, "It was said already; nothing to do.")
            is_tried = is_worth_trying(failed.told_class, held.attempts, held.max_attempts)
            state = TaskState.FAILED if is_tried else TaskState.DEAD_LETTER
            wait = delay_before(held.attempts + 1, self._rules.base, self._rules.most, self._random)
            retry_in = wait if is_tried else None
            ending = Ending(
                LeaseEnd.FAILED, state, why, failure=failed.told_class, retry_in=retry_in, job_failure=failed
            )
            became = (await self._end(change, held, ending)).verdicts
            kind = EventKind.TASK_FAILED if is_tried else EventKind.TASK_DEAD_LETTER
            facts = {"failure": failed.told_class.value, "attempt": str(held.attempts), "reason": why}
            tell_task(change, kind, held, actor.agent_name, **facts)
            held = await get(change.conn, task)
        following = (
            "It is tried again by itself; take another task with loom_claim()."
            if is_tried
            else "It is a dead letter: what depends on it is blocked until somebody decides."
        )
        return _step(held, " ".join([*became, following]))

    @repeated
    async def escalate(self, actor: Actor, task: TaskId, lease: LeaseId | None, message: str) -> StepAnswer:
        """Ask people for help: the task waits for an answer, and the claim ends without counting as an attempt."""
        text = required_text(message, "message")
        async with self._changes.begin() as change:
            held, is_live = await self._hold(change, actor, task, lease, ended_as=LeaseEnd.ESCALATED)
            if not is_live:
                return _step(held, "It was said already; nothing to do.")
            ending = Ending(LeaseEnd.ESCALATED, TaskState.BLOCKED, cut_reason(text), frees_task=True)
            await self._end(change, held, ending)
            await repair_store.take_attempt_back(change.conn, task)
            await repair_store.add_escalation(change.conn, task, actor.agent_name, text)
            tell_task(change, EventKind.TASK_ESCALATED, held, actor.agent_name)
            held = await get(change.conn, task)
        return _step(held, "It waits for an answer; take another task with loom_claim().")

    @repeated
    async def _finish(self, words: Sequence[Word]) -> list[Finished | None]:
        """Finish what several callers say is done in one statement."""
        async with self._changes.database.connection() as conn:
            return await convoy_store.finish_together(conn, words)

    async def _claim_one(self, actor: Actor, task: TaskId, rules: ClaimRules) -> ClaimAnswer:
        claimed = await self._claim_these(actor, rules, [task])
        if claimed:
            return self._won(claimed)
        async with self._changes.database.connection() as conn:
            found = await get(conn, task)
            await project_of(conn, replace(actor, project=found.project), None, for_writing=True)
        if found.state is TaskState.CLAIMED and found.lease_session == actor.session and found.need_count == 0:
            return self._won([found])
        if found.need_count > 0 and found.kind is TaskKind.WORK and _is_mine_to_wait_with(found, actor):
            return await self._claim_with_cards(actor, found)
        if found.state is TaskState.READY and found.kind is TaskKind.WORK and not found.is_plain:
            return await self._claim_with_resources(replace(actor, project=found.project), found, rules)
        raise _refusal(found)

    @repeated
    async def _claim_these(self, actor: Actor, rules: ClaimRules, tasks: Sequence[TaskId]) -> list[Task]:
        async with self._changes.database.connection() as conn:
            return await claim_store.claim_these(conn, actor, rules, tasks)

    async def _claim_next(self, actor: Actor, count: int, rules: ClaimRules) -> ClaimAnswer:
        """Claim what needs nothing but its turn, then what needs something special, then what stands behind that."""
        takers = [Taker(actor, rules)] * count
        catch = await self._turns.take(actor.project, Wish(takers))
        if not catch.tasks and not catch.past_special:
            async with self._changes.database.connection() as conn:
                await project_of(conn, actor, None, for_writing=True)
            special = await self._claim_special(actor, rules)
            if special is not None:
                return special
            self._turns.pass_special(actor.project)
            catch = await self._turns.take(actor.project, Wish(takers, past_special=True))
        if catch.tasks:
            return self._won(catch.tasks)
        self._turns.forget(actor.project)
        return await self._wait_for_cards(actor) or await self._none(actor)

    @repeated
    async def _claim_special(self, actor: Actor, rules: ClaimRules) -> ClaimAnswer | None:
        """Claim the first task whose resources are free or whose cards may be had at once; None when there is none."""
        async with self._changes.database.connection() as conn:
            capabilities = await claim_store.capabilities_of(conn, actor.session)
            claimed = await claim_store.claim_with_resources(conn, actor, rules, None, capabilities)
            if claimed:
                return self._won(claimed)
            special = await claim_store.special_tasks(conn, actor.project, _MOST_TRIED)
        for task in special:
            ticket = await self._tickets.take_at_once(actor, task)
            if ticket is not None:
                return await self._with_ticket(task, ticket)
        return None

    async def _wait_for_cards(self, actor: Actor) -> ClaimAnswer | None:
        """Queue with the first task that only waits for a busy card; None when there is none."""
        async with self._changes.database.connection() as conn:
            special = await claim_store.special_tasks(conn, actor.project, _MOST_TRIED)
        for task in special:
            with suppress(NotReady, Taken):
                return await self._with_ticket(task, await self._tickets.enter(actor, task))
        return None

    async def _claim_with_cards(self, actor: Actor, found: Task) -> ClaimAnswer:
        return await self._with_ticket(found.task, await self._tickets.enter(actor, found.task))

    async def _with_ticket(self, task: TaskId, ticket: TicketAnswer) -> ClaimAnswer:
        if ticket.lease is None or ticket.state not in (Standing.ACTIVE, Standing.OFFERED):
            return ClaimAnswer([], ticket.next, [ticket], ticket.reason)
        async with self._changes.database.connection() as conn:
            shown = show_task(await get(conn, task))
        assert ticket.expires_at is not None
        claim = Claim(shown, ticket.lease, ticket.expires_at, ticket.cards, ticket.export)
        return ClaimAnswer([claim], ticket.next)

    @repeated
    async def _claim_with_resources(self, actor: Actor, found: Task, rules: ClaimRules) -> ClaimAnswer:
        async with self._changes.database.connection() as conn:
            capabilities = await claim_store.capabilities_of(conn, actor.session)
            missing = sorted(set(found.capabilities) - set(capabilities))
            if missing:
                raise NotReady(
                    f"{task_name(found.task)} needs a host that can {', '.join(missing)}; yours does not say so.",
                    "Claim it from another host, or set WARPLOOM_CAPABILITIES there.",
                )
            claimed = await claim_store.claim_with_resources(conn, actor, rules, found.task, capabilities)
            if claimed:
                return self._won(claimed)
            holder = await claim_store.resource_holder(conn, found.resources)
        if holder is not None:
            raise Taken(f"{task_name(found.task)} waits for {holder}.", "Take another task with loom_claim().")
        async with self._changes.database.connection() as conn:
            raise _refusal(await get(conn, found.task))

    def _won(self, tasks: Sequence[Task]) -> ClaimAnswer:
        self._changes.bus.publish([EVERYTHING, *(ticket_topic(task.task) for task in tasks)])
        claims = [
            Claim(show_task(task), lease_name(task.lease), task.expires_at)
            for task in tasks
            if task.lease is not None and task.expires_at is not None
        ]
        first = claims[0]
        return ClaimAnswer(claims, f"Work on it now. {_ending_of(first.task.task, first.lease)}")

    async def _none(self, actor: Actor) -> ClaimAnswer:
        async with self._changes.database.connection() as conn:
            reason = await why_nothing_ready(conn, actor.project)
            ideas = await task_store.count_ideas(conn, actor.project)
        return ClaimAnswer([], nothing_to_do(ideas), reason=reason, ideas=ideas)

    @repeated
    async def _done_slowly(
        self, actor: Actor, task: TaskId, lease: LeaseId | None, output: Any, branch: str | None
    ) -> StepAnswer:
        async with self._changes.begin() as change:
            held, is_live = await self._hold(change, actor, task, lease, ended_as=LeaseEnd.DONE)
            if not is_live or held.lease is None:
                return _step(held, "It was said already; nothing to do.")
            await self._end(change, held, Ending(LeaseEnd.DONE, TaskState.DONE, went_well=True))
            if output is not None or branch is not None:
                await claim_store.keep_result(change.conn, task, held.lease, output, branch)
            tell_task(change, EventKind.TASK_DONE, held, actor.agent_name)
        return StepAnswer(task_name(task), TaskState.DONE, "loom_claim() takes the next one.", lease_name(held.lease))

    async def _end(self, change: Change, held: Task, ending: Ending) -> Ended:
        assert held.lease is not None
        ended = await self._leases.end(change, held.lease, ending)
        if ended is None:
            raise await self._leases.lost(change.conn, held.lease)
        return ended

    async def _hold(
        self,
        change: Change,
        actor: Actor,
        task: TaskId,
        lease: LeaseId | None,
        *,
        ended_as: LeaseEnd | None = None,
    ) -> tuple[Task, bool]:
        """Prove that the task's live lease is the caller's, and lock it; a call that names an offer accepts it.

        Raise LeaseLost otherwise. With `ended_as`, a lease that has ended so already is no error: False comes with the task.
        """
        found = await get(change.conn, task)
        named = lease
        if named is None:
            named = found.lease if found.lease_session == actor.session else None
            named = named or await claim_store.last_lease(change.conn, task, actor.session)
        if named is None:
            raise _refusal(found) if found.lease else _unclaimed(found)
        is_live = await self._leases.prove(change, actor, task, named, ended_as=ended_as)
        return await get(change.conn, task), is_live


def tell_task(change: Change, kind: EventKind, task: Task, agent: str, **facts: str) -> None:
    """Write an event of a task."""
    told = {"agent": agent, "title": task.title} | facts
    change.tell(kind, told, project=task.project, task=task.task, lease=task.lease, session=task.lease_session)


def cut_reason(text: str) -> str:
    """Shorten a text to what fits into one line."""
    line = " ".join(text.split())
    return line if len(line) <= REASON_LIMIT else f"{line[: REASON_LIMIT - 1]}…"


def _who(actor: Actor, lease: LeaseId | None) -> tuple[Any, Any]:
    """Return the agent and the session that a lease must belong to: an operator may name anybody's."""
    if lease is None:
        return actor.agent, actor.session
    return (None if actor.role is Role.OPERATOR else actor.agent), None


def _is_mine_to_wait_with(found: Task, actor: Actor) -> bool:
    if found.state is TaskState.READY:
        return found.session is None or found.agent == actor.agent
    return found.state is TaskState.CLAIMED and found.agent == actor.agent


def _ending_of(task: str, lease: str) -> str:
    return (
        f'End it with loom_done("{task}", lease="{lease}") or loom_fail; on long work call loom_heartbeat now and then.'
    )


def _refusal(found: Task) -> Taken | NotReady:
    name = task_name(found.task)
    another = "Take another task with loom_claim()."
    if found.state is TaskState.CLAIMED:
        return Taken(f"{name} is claimed by {found.agent_name} ({lease_name(found.lease or 0)}).", another)
    if found.state is TaskState.READY and found.session is not None:
        return Taken(f"{found.agent_name} waits for a card with {name}.", another)
    if found.kind is TaskKind.EPIC:
        return NotReady(f"{name} is an epic: it is done when its tasks are.", "Claim one of its tasks.")
    if found.kind is not TaskKind.WORK:
        return NotReady(f"{name} is a {found.kind.value} and cannot be claimed.", another)
    reason = reason_of(found)
    return NotReady(f"{name} is {found.state.value}{f': {reason}' if reason else ''}.", another)


def _unclaimed(found: Task) -> NotReady:
    return NotReady(f"{task_name(found.task)} is {found.state.value}; you hold no lease on it.", next_step(found))


def _step(task: Task, following: str) -> StepAnswer:
    is_live = task.lease is not None and task.lease_state is not LeaseState.ENDED
    return StepAnswer(
        task=task_name(task.task),
        state=task.state,
        next=following,
        lease=lease_name(task.lease) if task.lease and is_live else None,
        expires_at=task.expires_at if is_live else None,
        reason=reason_of(task),
        retry_at=task.retry_at,
        percent=task.percent,
    )
