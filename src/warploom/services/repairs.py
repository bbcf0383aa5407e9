"""Repairs: what operators decide about tasks that did not go well, and what is put right by itself."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from warploom.domain.callers import Role
from warploom.domain.claims import StepAnswer
from warploom.domain.errors import Collision, NotReady
from warploom.domain.events import EventKind
from warploom.domain.identifiers import LeaseId, SessionId, TaskId, lease_name, task_name
from warploom.domain.leases import LeaseEnd
from warploom.domain.messages import WARPLOOM
from warploom.domain.outputs import read_output
from warploom.domain.repairs import MEANINGS, EscalationView, RecoveryAnswer, RecoveryLine, RecoveryWord
from warploom.domain.sessions import Actor
from warploom.domain.task_answers import ManyAnswer, TaskLine
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.texts import REASON_LIMIT, optional_line, spoken_duration
from warploom.services.changes import Change, Changes, repeated
from warploom.services.leases import LeaseService
from warploom.services.projects import project_of
from warploom.services.sessions import require
from warploom.services.task_views import next_step, reason_of, show_lines
from warploom.services.tasks import each, get, required_text
from warploom.store import cards as card_store
from warploom.store import claims as claim_store
from warploom.store import leases as lease_store
from warploom.store import repairs as repair_store
from warploom.store import sessions as session_store
from warploom.store import task_lists
from warploom.store import tasks as task_store
from warploom.store import tickets as ticket_store
from warploom.store.leases import Ending
from warploom.store.repairs import ClaimedTask, Victim
from warploom.store.tasks import Task

_MOST = 1_000
_AT_ONCE = 500


class RepairService:
    """What operators do with tasks. Where keys are set, only they may."""

    def __init__(self, changes: Changes, leases: LeaseService, lease_time: timedelta) -> None:
        self._changes = changes
        self._leases = leases
        self._lease_time = lease_time

    @repeated
    async def reset(self, actor: Actor, task: TaskId, *, clear_output: bool = False) -> StepAnswer:
        """Let a task be claimed again, its attempts forgotten; a claim on it ends, and its holder is told.

        For a task that is blocked by a culprit, the culprit is reset and everything behind it waits again. What is done
        stays done.
        """
        require(actor, Role.OPERATOR)
        async with self._changes.begin() as change:
            found = await _hold(change, await _decidable(change, task))
            if found.state is TaskState.DONE:
                raise NotReady(f"{task_name(found.task)} is done.", "Create a new task for what is left to do.")
            if found.state is TaskState.IDEA:
                raise NotReady(f"{task_name(found.task)} is only an idea.", next_step(found))
            if found.state is TaskState.CLAIMED:
                text = f"{actor.agent_name} put {task_name(found.task)} back to be claimed again"
                ending = Ending(LeaseEnd.RESET, TaskState.READY, frees_task=True, forgets_attempts=True)
                await self._end(change, found.lease, found.lease_session, ending, text)
            else:
                await ticket_store.dequeue(change.conn, found.task)
                await repair_store.reset_task(change.conn, found.task)
                await task_store.link(change.conn, await repair_store.take_up_again(change.conn, found.task))
            if clear_output:
                await repair_store.forget_result(change.conn, found.task)
            await task_store.reopen_project(change.conn, found.project)
            _tell(change, EventKind.TASK_RESET, found, actor)
            return await _step(change, found.task, "Anybody may claim it as soon as it is ready.")

    @repeated
    async def cancel(
        self, actor: Actor, task: TaskId, reason: str | None = None, *, cascade: bool = False
    ) -> ManyAnswer:
        """Give a task up, with an epic all its tasks; with `cascade` all that depends on them too, else that is blocked."""
        require(actor, Role.OPERATOR)
        why = optional_line(reason, "reason", REASON_LIMIT) or f"cancelled by {actor.agent_name}"
        async with self._changes.begin() as change:
            victims = await _hold_victims(change, await get(change.conn, task), cascade=cascade)
            found = await _open(change, task)
            done = await self._cancel(change, actor, found, victims, why)
        rest = (
            "What depends on them is cancelled too."
            if cascade
            else "What depends on them is blocked; skip, reset or cancel that."
        )
        return ManyAnswer([task_name(each) for each in done], {}, rest)

    @repeated
    async def skip(self, actor: Actor, task: TaskId, reason: str | None = None) -> StepAnswer:
        """Let the graph go on without a task: it is cancelled, and what depends on it no longer waits for it.

        For a task that is blocked by a culprit, the culprit is skipped.
        """
        require(actor, Role.OPERATOR)
        why = optional_line(reason, "reason", REASON_LIMIT - 20) or f"by {actor.agent_name}"
        async with self._changes.begin() as change:
            found = await _decidable(change, task)
            victims = await _hold_victims(change, found, cascade=False)
            found = await get(change.conn, found.task)
            if found.state is TaskState.DONE or found.kind is TaskKind.IDEA:
                raise NotReady(f"{task_name(found.task)} holds nothing up.", "There is nothing to skip.")
            await self._cancel(change, actor, found, victims, f"skipped: {why}")
            await repair_store.set_outcome(change.conn, found.task, f"skipped: {why}")
            await repair_store.go_on_without(change.conn, found.task)
            _tell(change, EventKind.TASK_SKIPPED, found, actor, reason=why)
            return await _step(change, found.task, "What waited for nothing else is ready.")

    @repeated
    async def answer(self, actor: Actor, task: TaskId, answer: str) -> StepAnswer:
        """Answer a question: an escalated task may be claimed again, and whoever does reads the answer with it."""
        require(actor, Role.OPERATOR)
        text = required_text(answer, "answer")
        async with self._changes.begin() as change:
            found = await _hold(change, await get(change.conn, task))
            is_question = found.kind is TaskKind.QUESTION and found.state in (TaskState.READY, TaskState.PENDING)
            if not found.is_escalated and not is_question:
                raise NotReady(f"{task_name(task)} asks nothing.", "`warploom escalations` lists what was asked.")
            await task_store.add_comment(change.conn, task, actor.agent_name, text)
            await repair_store.answer_escalation(change.conn, task, text, actor.agent_name)
            if is_question:
                await repair_store.force_task(change.conn, task, TaskState.DONE, None)
                await claim_store.keep_result(change.conn, task, None, {"answer": text}, None)
            else:
                await repair_store.reset_task(change.conn, task, forget_attempts=False)
            _tell(change, EventKind.TASK_ANSWERED, found, actor)
            return await _step(change, task, "Whoever claims it reads the answer with it.")

    async def batch_done(
        self,
        actor: Actor,
        tasks: Sequence[TaskId],
        output: Any = None,
        reason: str | None = None,
        *,
        dead_letter: bool = False,
    ) -> ManyAnswer:
        """Declare several tasks done (or dead letters) by decision, whoever holds them; each on its own."""
        require(actor, Role.OPERATOR)
        why = optional_line(reason, "reason", REASON_LIMIT)
        state, kept = TaskState.DEAD_LETTER if dead_letter else TaskState.DONE, read_output(output)
        return await each(
            tasks,
            lambda task: self._force(actor, task, state, why, kept),
            "loom_status shows where the project stands.",
        )

    async def dead_letters(self, actor: Actor, limit: int = 20, project: str | None = None) -> list[TaskLine]:
        """List the tasks that were given up after their last attempt, newest first."""
        async with self._changes.database.connection() as conn:
            chosen = await project_of(conn, actor, project)
            rows = await task_lists.rows_in_states(conn, chosen, [TaskState.DEAD_LETTER], max(1, min(limit, _MOST)))
        return show_lines(rows)

    async def escalations(self, actor: Actor, limit: int = 50, project: str | None = None) -> list[EscalationView]:
        """List the questions nobody has answered yet, oldest first."""
        async with self._changes.database.connection() as conn:
            chosen = await project_of(conn, actor, project)
            return await repair_store.open_escalations(conn, chosen, max(1, min(limit, _MOST)))

    async def recover(self, actor: Actor, *, execute: bool) -> RecoveryAnswer:
        """Classify every claimed task of the project by its holder's signs of life; with `execute` free the abandoned ones."""
        if execute:
            require(actor, Role.OPERATOR)
        async with self._changes.database.connection() as conn:
            claimed = await repair_store.claimed_tasks(conn, actor.project, _MOST)
        lines = [self._classify(each) for each in claimed]
        if execute:
            lines = [await self._recover(actor, line) for line in lines]
        due = sum(line.action != "none" and not line.done for line in lines)
        if due:
            return RecoveryAnswer(lines, f"{due} would be freed: run it again with --execute.")
        return RecoveryAnswer(
            lines, "loom_ready lists what may be claimed now." if execute else "Nothing has to be done."
        )

    @repeated
    async def retry_due(self) -> int:
        """Let the tasks be claimed again whose time for another attempt has come; return how many."""
        async with self._changes.begin() as change:
            due = await repair_store.retry_due(change.conn, _AT_ONCE)
            for task in due:
                change.tell(EventKind.TASK_RETRIED, {"title": task.title}, project=task.project, task=task.task)
        return len(due)

    async def close_epics(self) -> int:
        """Close epics all of whose tasks are over and which nobody closed; return how many."""
        async with self._changes.begin() as change:
            return await repair_store.close_epics(change.conn)

    async def block_strays(self) -> int:
        """Block what waits for what will not be done and was not blocked; return behind how many."""
        async with self._changes.begin() as change:
            return await repair_store.block_strays(change.conn)

    async def complete_projects(self) -> int:
        """Tell of each project that has no open task left; return how many."""
        async with self._changes.begin() as change:
            completed = await repair_store.complete_projects(change.conn)
            for project, name in completed:
                change.tell(EventKind.PROJECT_COMPLETED, {"title": name}, project=project)
        return len(completed)

    async def note_silent(self) -> int:
        """Tell, once, of each session that holds something and has been silent for half a lease time; return how many."""
        async with self._changes.begin() as change:
            silent = await repair_store.note_silent_sessions(change.conn, self._lease_time / 2)
            for each in silent:
                facts = {"agent": each.agent, "silent": spoken_duration(each.silent), "leases": each.leases}
                change.tell(EventKind.SESSION_SILENT, facts, session=each.session)
        return len(silent)

    async def _cancel(
        self, change: Change, actor: Actor, found: Task, victims: Sequence[Victim], why: str
    ) -> list[TaskId]:
        """Cancel tasks that are locked; what nobody holds first, so that no epic closes with its last task."""
        free = [victim.task for victim in victims if victim.lease is None]
        done = set(await repair_store.cancel_tasks(change.conn, free, why))
        held = [victim for victim in victims if victim.lease is not None]
        for victim in held:
            ending = Ending(LeaseEnd.CANCELLED, TaskState.CANCELLED, why)
            text = f"{actor.agent_name} cancelled {task_name(victim.task)}: {why}"
            await self._end(change, victim.lease, victim.session, ending, text)
        done |= {victim.task for victim in held}
        for victim in victims:
            if victim.task in done:
                _tell_cancelled(change, found, victim, actor, why)
        return sorted(done)

    @repeated
    async def _force(self, actor: Actor, task: TaskId, state: TaskState, why: str | None, output: Any) -> None:
        async with self._changes.begin() as change:
            await _hold(change, await get(change.conn, task))
            found = await _open(change, task)
            if found.state is TaskState.CLAIMED and found.lease is not None:
                end = LeaseEnd.DONE if state is TaskState.DONE else LeaseEnd.FAILED
                told = f"{actor.agent_name} declared {task_name(task)} {state.value.replace('_', ' ')}"
                await self._end(change, found.lease, found.lease_session, Ending(end, state, why), told)
            elif not await repair_store.force_task(change.conn, task, state, why):
                raise NotReady(f"{task_name(task)} is {found.state.value}.", "Only open tasks can be decided about.")
            if output is not None:
                await claim_store.keep_result(change.conn, task, found.lease, output, None)
            await task_store.reopen_project(change.conn, found.project)
            if state is TaskState.DONE:
                _tell(change, EventKind.TASK_DONE, found, actor)
            else:
                facts = {"failure": "decided", "attempt": str(found.attempts), "reason": why or "no reason given"}
                _tell(change, EventKind.TASK_DEAD_LETTER, found, actor, **facts)

    async def _end(
        self, change: Change, lease: int | None, session: SessionId | None, ending: Ending, text: str
    ) -> None:
        assert lease is not None
        ended = await self._leases.end(change, LeaseId(lease), ending)
        if ended is None:
            raise NotReady("Its holder has just ended it.", "Look again, and decide then.")
        if session is not None:
            await session_store.send_notice(
                change.conn, session, WARPLOOM, f"your lease {lease_name(lease)} ended: {text}"
            )

    def _classify(self, claimed: ClaimedTask) -> RecoveryLine:
        word, silent = RecoveryWord.ACTIVE, spoken_duration(claimed.silent)
        text = f"heard {silent} ago, {spoken_duration(claimed.left)} left"
        if claimed.is_expired:
            word, text = RecoveryWord.EXPIRED, f"silent for {silent}, its time is over"
        elif claimed.silent > self._lease_time / 2:
            word = RecoveryWord.CARD_OCCUPIED if claimed.is_on_card else RecoveryWord.STALE
            text = f"silent for {silent}" + (", but a process runs on its card" if claimed.is_on_card else "")
        action = "reset" if word in (RecoveryWord.EXPIRED, RecoveryWord.STALE) else "none"
        name = task_name(claimed.task)
        return RecoveryLine(name, claimed.title, claimed.agent, lease_name(claimed.lease), word, text, action)

    @repeated
    async def _recover(self, actor: Actor, line: RecoveryLine) -> RecoveryLine:
        """Free one abandoned task, unless its holder was heard since it was classified."""
        if line.action == "none":
            return line
        lease, task = LeaseId(int(line.lease[2:])), TaskId(int(line.task[2:]))
        if line.word is RecoveryWord.EXPIRED:
            return replace(line, done=await self._leases.expire(lease))
        async with self._changes.begin() as change:
            found = await _hold(change, await get(change.conn, task))
            if found.lease != lease:
                return line
            ending = Ending(LeaseEnd.RESET, TaskState.READY, frees_task=True)
            text = f"{line.task}: {MEANINGS[RecoveryWord.STALE]}"
            await self._end(change, lease, found.lease_session, ending, text)
            _tell(change, EventKind.TASK_RESET, found, actor)
        return replace(line, done=True)


async def _hold(change: Change, found: Task) -> Task:
    """Lock a task with all that goes with it: its graph, the cards of its holder, the lease; return it as it is now.

    Raises Collision when it was claimed or came to its end meanwhile: something else would have to be locked then.
    """
    await task_store.lock_graph(change.conn, found.project)
    before = await get(change.conn, found.task)
    if before.lease is not None:
        await lease_store.lock_cards_of(change.conn, before.lease)
        await lease_store.lock_leases(change.conn, [before.lease])
    await task_store.lock_tasks(change.conn, [found.task])
    now = await get(change.conn, found.task)
    if now.lease != before.lease:
        raise _collision()
    return now


async def _hold_victims(change: Change, found: Task, *, cascade: bool) -> list[Victim]:
    """Lock everything that is cancelled with a task, as `_hold` does one, and return it as it is now."""
    await task_store.lock_graph(change.conn, found.project)
    before = await repair_store.victims_of(change.conn, found.task, cascade=cascade)
    await card_store.lock_cards(change.conn, sorted({host for victim in before for host in victim.hosts}))
    await lease_store.lock_leases(change.conn, [victim.lease for victim in before if victim.lease is not None])
    await task_store.lock_tasks(change.conn, [found.task, *(victim.task for victim in before)])
    now = await repair_store.victims_of(change.conn, found.task, cascade=cascade)
    if {victim.task: victim.lease for victim in now}.items() - {victim.task: victim.lease for victim in before}.items():
        raise _collision()
    return now


def _collision() -> Collision:
    return Collision("It was claimed or came to its end at this moment.", "Nothing was changed; try again.")


async def _decidable(change: Change, task: TaskId) -> Task:
    """Read the task that a decision is about: for one that is blocked by a culprit, the culprit."""
    found = await get(change.conn, task)
    if found.culprit is not None:
        found = await get(change.conn, found.culprit)
    if found.kind is TaskKind.GPU:
        raise NotReady(
            f"{task_name(found.task)} is a request for cards, not a task of the graph.",
            "Ask for the cards again with gpu_request.",
        )
    return found


async def _open(change: Change, task: TaskId) -> Task:
    found = await get(change.conn, task)
    name = task_name(task)
    if found.kind is TaskKind.GPU:
        raise NotReady(f"{name} is a request for cards.", f"`warploom leave {name}` takes it out of the queue.")
    if found.state in (TaskState.DONE, TaskState.CANCELLED):
        raise NotReady(f"{name} is {found.state.value} already.", "Nothing is left to decide.")
    return found


async def _step(change: Change, task: TaskId, next_step: str) -> StepAnswer:
    found = await get(change.conn, task)
    return StepAnswer(task_name(task), found.state, next_step, reason=reason_of(found))


def _tell(change: Change, kind: EventKind, task: Task, actor: Actor, **facts: str) -> None:
    told = {"agent": actor.agent_name, "title": task.title} | facts
    change.tell(kind, told, project=task.project, task=task.task, lease=task.lease, session=actor.session)


def _tell_cancelled(change: Change, top: Task, victim: Victim, actor: Actor, why: str) -> None:
    facts = {"agent": actor.agent_name, "title": victim.title, "reason": why}
    change.tell(
        EventKind.TASK_CANCELLED,
        facts,
        project=top.project,
        task=victim.task,
        lease=victim.lease,
        session=victim.session,
    )
