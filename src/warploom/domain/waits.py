"""What tasks wait for: who is in the way of whom and how they stand, each said once for every door."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from warploom.domain.graphs import Blocker, spoken_tasks
from warploom.domain.identifiers import TaskId, lease_name, task_name
from warploom.domain.leases import LeaseState
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.texts import spoken_duration, spoken_list

DEEPEST_BLOCKER: Final = 4
MOST_BLOCKERS: Final = 25
_MOST_NAMED: Final = 3
_MOST_OBSTACLES: Final = 4


@dataclass(frozen=True, slots=True)
class Standing:
    """How a task stands, as far as others wait for it."""

    task: TaskId
    title: str
    state: TaskState
    kind: TaskKind = TaskKind.WORK
    agent: str | None = None
    culprit: TaskId | None = None
    is_escalated: bool = False
    is_parked: bool = False
    is_wanted: bool = False
    """It is somebody's already, who waits for what it needs."""
    lease: int | None = None
    lease_state: LeaseState | None = None
    percent: int | None = None
    expected_end: datetime | None = None
    retry_at: datetime | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Who holds a named resource."""

    resource: str
    lease: int
    task: TaskId
    agent: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that keeps tasks of a project from being claimed, and how many."""

    word: str
    """What it is: upstream, card, resource, capability, culprit, answer, parked or retry."""
    tasks: int
    name: str | None
    """The card, resource or capability."""
    standing: Standing | None
    """The task that is waited for, or that has what is waited for."""


def say_standing(standing: Standing, now: datetime) -> str:
    """Say how a task stands in a few words: 'claimed by claude-2, 60 %', 'ready, not claimed yet'."""
    match standing.state:
        case TaskState.CLAIMED if standing.lease_state is LeaseState.OFFERED:
            return f"offered to {standing.agent}"
        case TaskState.CLAIMED:
            done = "" if standing.percent is None else f", {standing.percent} %"
            return f"claimed by {standing.agent}{done}"
        case TaskState.READY:
            return f"waiting for a card with {standing.agent}" if standing.is_wanted else "ready, not claimed yet"
        case TaskState.BLOCKED if standing.culprit is not None:
            return f"blocked by {task_name(standing.culprit)}"
        case TaskState.BLOCKED:
            return "waiting for an answer" if standing.is_escalated else "parked"
        case TaskState.FAILED if standing.retry_at is not None:
            return f"failed, tried again in {spoken_duration(standing.retry_at - now)}"
        case TaskState.DEAD_LETTER | TaskState.FAILED:
            return "given up"
        case TaskState.PENDING:
            return "waiting itself"
        case TaskState.IDEA:
            return "only an idea"
        case state:
            return state.value


def name_standing(standing: Standing, now: datetime) -> str:
    """Name a task with how it stands: 'T-40 (claimed by claude-2, 60 %)'."""
    return f"{task_name(standing.task)} ({say_standing(standing, now)})"


def tree_of(
    task: TaskId, standings: Mapping[TaskId, Standing], edges: Mapping[TaskId, Sequence[TaskId]], now: datetime
) -> list[Blocker]:
    """List what a task waits for as a tree is read, each task once, down to a depth and a number."""
    blockers: list[Blocker] = []
    seen = {task}
    stack = [(upstream, task, 1) for upstream in reversed(_by_weight(edges.get(task, ()), standings))]
    while stack and len(blockers) < MOST_BLOCKERS:
        at, behind, depth = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        below = _by_weight(edges.get(at, ()), standings)
        blockers.append(_blocker(standings[at], behind, depth, below, now))
        if depth < DEEPEST_BLOCKER:
            stack += [(upstream, at, depth + 1) for upstream in reversed(below)]
    return blockers


def _blocker(standing: Standing, behind: TaskId, depth: int, below: Sequence[TaskId], now: datetime) -> Blocker:
    name = task_name(standing.task)
    stands = say_standing(standing, now)
    if standing.state is TaskState.PENDING and below:
        stands = f"waiting for {spoken_tasks([task_name(upstream) for upstream in below])}"
    lease = f" with {lease_name(standing.lease)}" if standing.lease is not None else ""
    return Blocker(
        task=name,
        title=standing.title,
        state=standing.state,
        behind=task_name(behind),
        depth=depth,
        text=f"{name} '{standing.title}' is {stands}{lease}",
        agent=standing.agent,
        lease=lease_name(standing.lease) if standing.lease is not None else None,
        percent=standing.percent,
        until=standing.retry_at or standing.expected_end,
    )


_WEIGHTS: Final = {
    TaskState.DEAD_LETTER: 0,
    TaskState.CANCELLED: 0,
    TaskState.BLOCKED: 1,
    TaskState.FAILED: 2,
    TaskState.CLAIMED: 3,
    TaskState.READY: 4,
}


def _by_weight(tasks: Iterable[TaskId], standings: Mapping[TaskId, Standing]) -> list[TaskId]:
    """Order tasks by how much somebody has to do about them, those first that wait for a decision."""
    known = [task for task in tasks if task in standings]
    return sorted(known, key=lambda task: (_WEIGHTS.get(standings[task].state, 9), task))


def say_waiting(
    kind: TaskKind, upstreams: Sequence[TaskId], standings: Mapping[TaskId, Standing], now: datetime
) -> str:
    """Say what a pending task waits for: `upstreams` directly, `standings` all that is in its way.

    Named are those that do not wait themselves: who could do something about it is at the head of the chain.
    """
    direct = [standings[task] for task in _by_weight(upstreams, standings)]
    heads = [standings[task] for task in _by_weight(standings, standings) if not _is_waiting(standings[task])]
    verb = "has open tasks" if kind is TaskKind.EPIC else "waits for"
    if not direct:
        return "has no task yet" if kind is TaskKind.EPIC else "waits for nothing that is open"
    if not any(_is_waiting(each) for each in direct):
        return f"{verb}{':' if kind is TaskKind.EPIC else ''} {_named(direct, now)}"
    names = spoken_tasks([task_name(each.task) for each in direct])
    behind = f"; first there {'is' if len(heads) == 1 else 'are'} {_named(heads, now)}" if heads else ""
    return f"{verb}{':' if kind is TaskKind.EPIC else ''} {names}{behind}"


def _is_waiting(standing: Standing) -> bool:
    return standing.state is TaskState.PENDING


def _named(standings: Sequence[Standing], now: datetime) -> str:
    return spoken_tasks([name_standing(each, now) for each in standings], _MOST_NAMED)


def say_given_up(culprit: Standing, now: datetime) -> str:
    """Say which upstream task blocks another, and why it will not be done."""
    why = f": {culprit.outcome}" if culprit.outcome else ""
    name = f"{task_name(culprit.task)} '{culprit.title}'"
    if culprit.state is TaskState.CANCELLED:
        return f"waits for {name}, which was cancelled{why}"
    return f"waits for {name}, which is {say_standing(culprit, now)}{why}"


def say_hold(hold: Hold) -> str:
    """Say who holds a named resource."""
    holder = f"{task_name(hold.task)} ({hold.agent}, {lease_name(hold.lease)})"
    return f"needs {hold.resource}, which {holder} holds; its lease lasts until {hold.expires_at:%H:%M:%S} UTC"


def say_capabilities(wanted: Sequence[str], hosts: Sequence[str]) -> str:
    """Say which hosts can do what a task needs."""
    needs = spoken_list(list(wanted))
    if not hosts:
        return f"needs a host with {needs}, and no host has that"
    return f"needs a host with {needs}: {spoken_list(list(hosts))}"


def say_obstacles(obstacles: Sequence[Obstacle], now: datetime) -> str | None:
    """Say why nothing may be claimed: '3 tasks wait for T-40 (claimed by claude-2, 60 %), 1 waits for card local/0'.

    None when nothing is in the way: there is no open task.
    """
    parts = [_obstacle(each, now) for each in obstacles if each.tasks][:_MOST_OBSTACLES]
    if parts:
        count, _, rest = parts[0].partition(" ")
        parts[0] = f"{count} task{'' if count == '1' else 's'} {rest}"
        return ", ".join(parts)
    working = [each.standing for each in obstacles if each.standing is not None]
    if not working:
        return None
    verb = "is" if len(working) == 1 else "are"
    return f"{_named(working, now)} {verb} being worked on, and nothing waits behind that"


def _obstacle(obstacle: Obstacle, now: datetime) -> str:
    """Say one obstacle; begins with how many tasks it concerns."""
    one = obstacle.tasks == 1
    waits, needs = ("waits", "needs") if one else ("wait", "need")
    standing = obstacle.standing
    match obstacle.word:
        case "upstream" if standing is not None:
            said = f"{waits} for {name_standing(standing, now)}"
        case "resource" if standing is not None:
            said = f"{waits} for {obstacle.name}, which {task_name(standing.task)} ({standing.agent}) holds"
        case "culprit" if standing is not None:
            said = f"{'is' if one else 'are'} blocked by {name_standing(standing, now)}"
        case "retry" if standing is not None and standing.retry_at is not None:
            said = f"failed and is tried again in {spoken_duration(standing.retry_at - now)}"
        case "card":
            said = f"{waits} for {'any card' if obstacle.name == 'any card' else f'card {obstacle.name}'}"
        case "capability":
            said = f"{needs} a host with {obstacle.name}"
        case "answer":
            said = f"{waits} for an answer"
        case _:
            said = f"{'is' if one else 'are'} parked"
    return f"{obstacle.tasks} {said}"
