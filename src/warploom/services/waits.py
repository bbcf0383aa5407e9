"""Waits: why a task is not going on, and why none of a project may be claimed."""

from dataclasses import dataclass, field

from warploom.domain.graphs import Blocker, Explanation
from warploom.domain.identifiers import ProjectId, TaskId, lease_name, task_name
from warploom.domain.leases import LeaseState
from warploom.domain.standings import TicketAnswer
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.waits import (
    say_capabilities,
    say_given_up,
    say_hold,
    say_obstacles,
    say_waiting,
    tree_of,
)
from warploom.services.task_views import next_step, reason_of
from warploom.store import graphs as graph_store
from warploom.store.clock import read_clock
from warploom.store.database import Connection
from warploom.store.tasks import Task

_MOST_WALKED = 500


@dataclass(frozen=True, slots=True)
class _Why:
    """The reasons of one task, the dominant one first."""

    reasons: list[str]
    next: str | None = None
    blockers: list[Blocker] = field(default_factory=list[Blocker])


async def why_nothing_ready(conn: Connection, project: ProjectId) -> str | None:
    """Say in one sentence what the tasks of a project wait for when none may be claimed; None without open tasks."""
    obstacles = await graph_store.read_obstacles(conn, project)
    return say_obstacles(obstacles, await read_clock(conn))


async def explain_task(conn: Connection, task: Task, ticket: TicketAnswer | None) -> Explanation:
    """Say why a task is not going on; `ticket` is its place in the queues of cards, where it has one."""
    why = await _why(conn, task, ticket)
    chain = list(dict.fromkeys([*why.reasons, *(blocker.text for blocker in why.blockers)]))
    return Explanation(
        task=task_name(task.task),
        title=task.title,
        state=task.state,
        reason=chain[0],
        next=why.next or next_step(task),
        chain=chain,
        blockers=why.blockers,
        ticket=ticket,
    )


async def _why(conn: Connection, task: Task, ticket: TicketAnswer | None) -> _Why:
    if ticket is not None and ticket.reason is not None:
        return _Why([ticket.reason, *ticket.chain], ticket.next)
    match task.state:
        case TaskState.PENDING:
            return await _why_pending(conn, task)
        case TaskState.READY:
            return await _why_ready(conn, task)
        case TaskState.BLOCKED:
            return await _why_blocked(conn, task)
        case TaskState.CLAIMED:
            return _why_claimed(task)
        case _:
            return _why_over(task)


async def _why_pending(conn: Connection, task: Task) -> _Why:
    standings = {each.task: each for each in await graph_store.in_the_way(conn, task.task, _MOST_WALKED)}
    if all(each.state is TaskState.PENDING for each in standings.values()):
        head = await graph_store.head_of(conn, task.task)
        standings |= {} if head is None else {head.task: head}
    edges = await graph_store.open_edges(conn, [task.task, *standings], list(standings))
    reason = say_waiting(task.kind, edges.get(task.task, []), standings, task.now)
    return _Why([reason], None, tree_of(task.task, standings, edges, task.now))


async def _why_ready(conn: Connection, task: Task) -> _Why:
    reasons = [say_hold(hold) for hold in await graph_store.holders_of(conn, task.resources)] if task.resources else []
    following = "It may be claimed as soon as that is free; `warploom wait --ready` returns then." if reasons else None
    if task.capabilities:
        hosts = await graph_store.hosts_able_to(conn, task.capabilities)
        reasons.append(say_capabilities(task.capabilities, hosts))
        if not hosts:
            following = "Start `warploom host` with that capability somewhere, or change what the task needs."
    if task.kind is TaskKind.QUESTION:
        return _Why(["waits for an answer"], f'Answer it with loom_answer("{task_name(task.task)}", "…").')
    cards = f"; whoever claims it waits for {_cards(task.need_count)}" if task.need_count else ""
    return _Why([*reasons, f"ready: nobody has claimed it yet{cards}"], following)


def _cards(count: int) -> str:
    return "a card" if count == 1 else f"{count} cards"


async def _why_blocked(conn: Connection, task: Task) -> _Why:
    if task.culprit is not None:
        return await _why_culprit(conn, task, task.culprit)
    question = await graph_store.open_question(conn, task.task) if task.is_escalated else None
    if question is None:
        return _Why([reason_of(task) or "parked"])
    return _Why([f"{question.agent} asked for help and waits for an answer to '{question.message}'"])


async def _why_culprit(conn: Connection, task: Task, culprit: TaskId) -> _Why:
    standings = {each.task: each for each in await graph_store.in_the_way(conn, task.task, _MOST_WALKED)}
    if culprit not in standings:
        standings |= await graph_store.read_standings(conn, [culprit])
    edges = await graph_store.open_edges(conn, [task.task, *standings], list(standings))
    reason = say_given_up(standings[culprit], task.now)
    return _Why([reason], None, tree_of(task.task, standings, edges, task.now))


def _why_claimed(task: Task) -> _Why:
    lease = lease_name(task.lease or 0)
    until = f"{task.expires_at:%H:%M:%S} UTC" if task.expires_at else "an unknown time"
    if task.lease_state is LeaseState.OFFERED:
        return _Why([f"its cards are offered to {task.agent_name} ({lease}) until {until}"])
    done = "" if task.percent is None else f", {task.percent} %"
    said = [f"{task.agent_name} says: {task.note}"] if task.note else []
    return _Why(
        [f"{task.agent_name} works on it with {lease}{done}; unless it is heard again, that ends {until}", *said]
    )


def _why_over(task: Task) -> _Why:
    why = f": {task.outcome}" if task.outcome else ""
    at = f" at {task.finished_at:%Y-%m-%d %H:%M} UTC" if task.finished_at else ""
    attempts = f" after attempt {task.attempts} of {task.max_attempts}"
    match task.state:
        case TaskState.IDEA:
            return _Why(["is an idea: nobody works on it before it is promoted"])
        case TaskState.DONE:
            who = f" by {task.agent_name}" if task.agent_name else ""
            return _Why([f"done{at}{who}"])
        case TaskState.FAILED if task.retry_at is not None:
            return _Why([f"failed{attempts}{why}; tried again at {task.retry_at:%H:%M:%S} UTC"])
        case TaskState.FAILED | TaskState.DEAD_LETTER:
            return _Why([f"given up{attempts}{why}"])
        case state:
            return _Why([f"{state.value}{at}{why}"])
