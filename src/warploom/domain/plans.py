"""Plans: whole graphs of tasks as people and models write them, read and checked at once."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, cast

from warploom.domain.errors import PlanRefused
from warploom.domain.graphs import walk_graph
from warploom.domain.identifiers import TaskId, task_name
from warploom.domain.leases import EnvStyle
from warploom.domain.plan_tasks import (
    MOST_FAULTS,
    MOST_TASKS,
    Faults,
    PlanTask,
    Reference,
    Surroundings,
    TaskReader,
    listed,
    number_of,
)
from warploom.domain.tasks import KEY_LIMIT, Priority, TaskKind, TaskState, priority_name
from warploom.domain.texts import cut_line

MOST_EDGES: Final = 100_000
_LONGEST_PATH: Final = 20
_TASK_NAME: Final = re.compile(r"T-[0-9]+", re.ASCII)
Edge: TypeAlias = tuple[Reference, Reference]

_OVER: Final = (TaskState.DONE, TaskState.CANCELLED, TaskState.DEAD_LETTER)


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan without faults."""

    tasks: tuple[PlanTask, ...]
    met: frozenset[str]
    """The keys of barriers and epics that wait for nothing that is open: they are done at once."""
    unmet: Mapping[str, int]
    """Key to how many of its upstream tasks are not done."""
    edges: Sequence[Edge]
    """Who is to wait for whom: new tasks for others, and epics for new tasks of theirs; nothing else that is there."""

    @property
    def new(self) -> list[PlanTask]:
        """Return the tasks that are not there yet, in order."""
        return [task for task in self.tasks if task.known is None]


@dataclass(frozen=True, slots=True)
class ImportAnswer:
    """What became of a plan: all of it was written, or none of it."""

    created: int
    deduplicated: int
    """How many tasks were there already from an earlier import of the same keys; those stay as they are."""
    edges: int
    next: str
    keys: dict[str, str] = field(default_factory=dict[str, str])
    """Key to task, in the plan's order; of a large plan only the first ones."""
    is_cut: bool = False
    checked_only: bool = False
    notices: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class KeptTask:
    """A task that is there, as far as a plan tells of it."""

    task: TaskId
    key: str | None
    kind: TaskKind
    title: str
    context: str | None
    done_when: str | None
    priority: int
    parent: TaskId | None
    max_attempts: int
    need_count: int
    memory_mib: int | None
    model: str | None
    resources: list[str]
    capabilities: list[str]
    env_style: str
    run: timedelta | None
    deadline: datetime | None
    cards: list[str]
    upstreams: list[TaskId]
    """What it waits for, but for an epic's own tasks."""


def _edges_of(task: PlanTask) -> list[Edge]:
    """Return who waits for whom because of one task: it for its upstream tasks, and last its epic for it."""
    edges: list[Edge] = [(task.key, upstream) for upstream in task.upstreams]
    return edges if task.parent is None else [*edges, (task.parent, task.key)]


def _new_edges(tasks: Mapping[str, PlanTask]) -> list[Edge]:
    made = {key for key, task in tasks.items() if task.known is None}
    kept = [task for key, task in tasks.items() if key not in made and task.parent in made]
    edges = [edge for key in tasks if key in made for edge in _edges_of(tasks[key])]
    return [*edges, *(_edges_of(task)[-1] for task in kept)]


def named_tasks(plan: Mapping[str, Any]) -> tuple[list[TaskId], list[str]]:
    """Return the numbers and the keys that a plan names, well-formed or not: what its surroundings are read for."""
    given: list[Any] = []
    for entry in listed(plan.get("tasks"))[:MOST_TASKS]:
        if isinstance(entry, dict):
            task = cast("dict[str, Any]", entry)
            given += [task.get("key"), task.get("parent"), *listed(task.get("depends_on"))]
    texts = dict.fromkeys(name for name in given if isinstance(name, str))
    names = dict.fromkeys(cut_line(name, KEY_LIMIT) or "" for name in texts)
    numbers = [number for name in names if (number := number_of(name)) is not None]
    return numbers, [name for name in names if name]


def read_plan(plan: Mapping[str, Any], surroundings: Surroundings | None = None) -> Plan:
    """Read a plan such as {"tasks": [{"key", "title", "depends_on": [keys], …}]}.

    `depends_on` and `parent` name tasks of the plan by key, of the project by key, or any by number (T-17). Raises
    PlanRefused with every fault it has, cycles with their paths.
    """
    around = surroundings or Surroundings()
    faults = Faults()
    tasks = TaskReader(around, faults).tasks(plan)
    settling = _Settling(tasks, around, faults)
    settled = {key: settling.settle(task) for key, task in tasks.items()}
    edges = [edge for task in settled.values() for edge in _edges_of(task)]
    if len(edges) > MOST_EDGES:
        faults.add(f"{len(edges):,} dependencies are more than a plan may have, {MOST_EDGES:,}")
    walk = walk_graph(settled, edges, MOST_FAULTS)
    for cycle in walk.cycles:
        faults.add(f"cycle: {_spoken_path(cycle)}")
    faults.refuse()
    met, unmet = _count(settled, edges, walk.order, around)
    has_known = any(task.known is not None for task in settled.values())
    return Plan(tuple(settled.values()), met, unmet, _new_edges(settled) if has_known else edges)


def known_numbers(plan: Plan) -> dict[str, TaskId]:
    """Return the tasks that are there already, by key."""
    return {task.key: task.known for task in plan.tasks if task.known is not None}


def touched_tasks(plan: Plan) -> list[TaskId]:
    """Return the tasks that are there already and that new ones are to depend on or belong to, in order."""
    known = known_numbers(plan)
    ends = (end for edge in plan.edges for end in edge)
    return sorted(
        {known[end] if isinstance(end, str) else end for end in ends if not isinstance(end, str) or end in known}
    )


def refuse_cycle(cause: str, numbers: Mapping[str, TaskId]) -> PlanRefused:
    """Tell of a cycle that leads through tasks that were there; those that were to be made are named by their keys."""
    made = {task_name(number): f"'{key}'" for key, number in numbers.items()}
    said = _TASK_NAME.sub(lambda found: made.get(found[0], found[0]), cause)
    return PlanRefused(
        f"The plan does not fit what is there already. {said}",
        "Nothing was written; leave one of these dependencies out.",
    )


def _spoken_path(cycle: Sequence[str]) -> str:
    if len(cycle) <= _LONGEST_PATH:
        return " -> ".join(cycle)
    return " -> ".join([*cycle[: _LONGEST_PATH - 1], f"… ({len(cycle) - 1:,} tasks)", cycle[-1]])


class _Settling:
    """Replaces the names that tasks of a plan refer to by what they mean."""

    def __init__(self, tasks: Mapping[str, PlanTask], around: Surroundings, faults: Faults) -> None:
        self._tasks = tasks
        self._around = around
        self._faults = faults

    def settle(self, task: PlanTask) -> PlanTask:
        found = [self._refer(task, "depends on", str(name)) for name in task.upstreams]
        upstreams = tuple(dict.fromkeys(upstream for upstream in found if upstream is not None))
        for idea in [known for known in map(self._around.known, upstreams) if known and known.kind is TaskKind.IDEA]:
            self._faults.add(f"'{task.key}' depends on {task_name(idea.task)}, which is only an idea; promote it first")
        parent = None if task.parent is None else self._refer(task, "belongs to", str(task.parent))
        if parent is not None:
            self._check_parent(task, parent)
        return replace(task, upstreams=upstreams, parent=parent)

    def _refer(self, task: PlanTask, verb: str, name: str) -> Reference | None:
        """Return what a name refers to: a key of the plan first, then one of the project, then a number."""
        key = name if name in self._tasks else cut_line(name, KEY_LIMIT) or ""
        if key in self._tasks:
            return key
        found = self._around.find(key)
        if found is not None and found.is_here:
            return found.task
        why = (
            "which is no key of the plan or the project, and no task" if found is None else "a task of another project"
        )
        self._faults.add(f"'{task.key}' {verb} '{key}', {why}")
        return None

    def _check_parent(self, task: PlanTask, parent: Reference) -> None:
        found = self._around.known(parent)
        name = parent if isinstance(parent, str) else task_name(parent)
        kind = found.kind if found else self._tasks[str(parent)].new.kind
        if kind is not TaskKind.EPIC:
            self._faults.add(f"the parent '{name}' of '{task.key}' is no epic")
        elif found is not None and found.state in _OVER and task.known is None:
            self._faults.add(f"the epic '{name}' is {found.state.value}: '{task.key}' cannot belong to it any more")


def _count(
    tasks: Mapping[str, PlanTask], edges: Iterable[Edge], order: Iterable[str], around: Surroundings
) -> tuple[frozenset[str], dict[str, int]]:
    """Find the barriers and epics that are done at once, and count what the others wait for, going down the graph."""
    upstreams: dict[Reference, set[Reference]] = {}
    for owner, upstream in edges:
        upstreams.setdefault(owner, set()).add(upstream)
    met: set[str] = set()
    unmet: dict[str, int] = {}

    def is_done(reference: Reference) -> bool:
        found = around.known(reference)
        return reference in met if found is None else found.state is TaskState.DONE

    for key in order:
        above, kind = upstreams.get(key, set[Reference]()), tasks[key].new.kind
        unmet[key] = sum(not is_done(each) for each in above)
        if not unmet[key] and (kind is TaskKind.BARRIER or (kind is TaskKind.EPIC and above)):
            met.add(key)
    return frozenset(met), unmet


def plan_of(tasks: Sequence[KeptTask], max_attempts: int) -> dict[str, Any]:
    """Write tasks as a plan that reads back as the same tasks; `max_attempts` is what those have that do not say.

    A plan tells of the work, not of how far along it is. What has no key gets one from its number, such as t17.
    """
    keys = _keys_of(tasks)
    return {"tasks": [_values_of(task, keys, max_attempts) for task in tasks]}


def _keys_of(tasks: Sequence[KeptTask]) -> dict[TaskId, str]:
    taken = {task.key for task in tasks}
    keys: dict[TaskId, str] = {}
    for task in tasks:
        made = f"t{task.task}"
        while task.key is None and made in taken:
            made += "-"
        keys[task.task] = task.key or made
        taken.add(keys[task.task])
    return keys


def _values_of(task: KeptTask, keys: Mapping[TaskId, str], max_attempts: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        "key": keys[task.task],
        "title": task.title,
        "context": task.context,
        "done_when": task.done_when,
        "priority": None if task.priority == Priority.P2 else priority_name(task.priority),
        "kind": None if task.kind is TaskKind.WORK else task.kind.value,
        "parent": None if task.parent is None else keys.get(task.parent),
        "depends_on": [keys[upstream] for upstream in task.upstreams if upstream in keys],
        "needs": _needs_of(task),
        "deadline": task.deadline.astimezone(UTC).isoformat() if task.deadline else None,
        "max_attempts": None if task.max_attempts == max_attempts else task.max_attempts,
        "minutes": None if task.run is None else _whole(task.run / timedelta(minutes=1)),
    }
    return {name: value for name, value in values.items() if value not in (None, [], {})}


def _needs_of(task: KeptTask) -> dict[str, Any]:
    needs: dict[str, Any] = {
        "device": ",".join(task.cards) or None,
        "cards": task.need_count if task.need_count and not task.cards else None,
        "memory_gib": None if task.memory_mib is None else _whole(task.memory_mib / 1024),
        "model": task.model,
        "resources": task.resources,
        "capabilities": task.capabilities,
        "env_style": None if task.env_style == EnvStyle.UUID else task.env_style,
    }
    return {name: value for name, value in needs.items() if value not in (None, [])}


def _whole(number: float) -> int | float:
    return int(number) if number == int(number) else number
