"""The tasks of a plan: read one by one, with every fault they have."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar, cast

from warploom.domain.cards import KnownCard
from warploom.domain.errors import PlanRefused, WarploomError
from warploom.domain.identifiers import CardId, TaskId
from warploom.domain.leases import parse_env_style
from warploom.domain.tasks import (
    KEY_LIMIT,
    MOST_UPSTREAMS,
    WRITABLE_KINDS,
    NeedsWish,
    NewTask,
    TaskKind,
    TaskState,
    TaskWish,
    read_task,
)
from warploom.domain.texts import cut_line, one_line
from warploom.domain.tickets import CardNeed, parse_need, resolve_cards

MOST_TASKS: Final = 20_000
MOST_FAULTS: Final = 100
_NUMBER: Final = re.compile(r"T-([1-9][0-9]{0,17})", re.ASCII)
_KINDS: Final = tuple(kind.value for kind in WRITABLE_KINDS)

_NO_NEEDS: Final = NeedsWish()

T = TypeVar("T")

Reference: TypeAlias = str | TaskId
"""A task of the plan by its key, or one that is there already by its number."""


class Faults:
    """The faults of one plan, all of which are named at once."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def add(self, fault: str) -> None:
        """Note a fault, said in one sentence."""
        self._found.append(fault.rstrip("."))

    def without(self, where: str, read: Callable[[], T]) -> T | None:
        """Read something; None when it is refused, which is a fault."""
        try:
            return read()
        except WarploomError as error:
            self.add(f"{where}: {error.cause}")
            return None

    def refuse(self) -> None:
        """Raise PlanRefused if there are any."""
        count = len(self._found)
        if not count:
            return
        shown = [f"- {fault}" for fault in self._found[:MOST_FAULTS]]
        more = [f"- and {count - MOST_FAULTS:,} more"] if count > MOST_FAULTS else []
        raise PlanRefused(
            "\n".join([f"The plan has {count:,} fault{'' if count == 1 else 's'}:", *shown, *more]),
            "Nothing was written; mend them all, then import it again.",
        )


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A task that is there already, as far as a plan needs to know it."""

    task: TaskId
    kind: TaskKind
    state: TaskState
    is_here: bool = True
    """Whether it is of the project that the plan is for."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a plan meets: the tasks that it names and the cards that there are; `by_number` has those of `by_key` too."""

    by_number: Mapping[TaskId, Neighbour] = field(default_factory=dict[TaskId, Neighbour])
    by_key: Mapping[str, Neighbour] = field(default_factory=dict[str, Neighbour])
    """Those of the project, but for cancelled ones."""
    cards: Sequence[KnownCard] | None = None
    """None where nobody asks whether needs could be met."""
    home: str | None = None

    def find(self, name: str) -> Neighbour | None:
        """Find the task of a key, or of a number such as T-17."""
        number = number_of(name)
        return self.by_key.get(name) or (None if number is None else self.by_number.get(number))

    def known(self, reference: Reference) -> Neighbour | None:
        """Find what a reference of a plan means, if it is there already."""
        return self.by_key.get(reference) if isinstance(reference, str) else self.by_number.get(reference)


@dataclass(frozen=True, slots=True)
class PlanTask:
    """A task of a plan that was read and checked."""

    key: str
    new: NewTask
    parent: Reference | None
    upstreams: tuple[Reference, ...]
    need: CardNeed | None = None
    cards: tuple[CardId, ...] = ()
    known: TaskId | None = None
    """The task that an earlier import made of it, which stays as it is."""


_TASK_FIELDS: Final[dict[str, tuple[type, ...]]] = {
    "key": (str,),
    "title": (str,),
    "context": (str,),
    "done_when": (str,),
    "priority": (str, int),
    "kind": (str,),
    "parent": (str,),
    "depends_on": (list,),
    "needs": (dict,),
    "deadline": (str,),
    "max_attempts": (int,),
    "minutes": (int, float),
}
_OWN_FIELDS: Final = ("title", "context", "done_when", "priority", "kind", "deadline", "max_attempts", "minutes")
_NEED_FIELDS: Final[dict[str, tuple[type, ...]]] = {
    "device": (str,),
    "cards": (int,),
    "memory_gib": (int, float),
    "model": (str,),
    "resources": (list,),
    "capabilities": (list,),
    "env_style": (str,),
}
_TYPE_WORDS: Final[dict[type, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    list: "a list of texts",
    dict: "an object",
}


class TaskReader:
    """Reads the tasks of a plan one by one; what they refer to is still names."""

    def __init__(self, around: Surroundings, faults: Faults) -> None:
        self._around = around
        self._faults = faults
        self._resolved: dict[CardNeed, tuple[CardId, ...] | None] = {}

    def tasks(self, plan: Mapping[str, Any]) -> dict[str, PlanTask]:
        """Read every task, by key."""
        entries = listed(plan.get("tasks"))
        self._refuse_others("the plan", plan, ("tasks",))
        if not entries:
            self._faults.add("the plan has no list of tasks")
        if len(entries) > MOST_TASKS:
            self._faults.add(f"{len(entries):,} tasks are more than a plan may have, {MOST_TASKS:,}")
        tasks: dict[str, PlanTask] = {}
        for place, entry in enumerate(entries[:MOST_TASKS]):
            if not isinstance(entry, dict):
                self._faults.add(f"tasks[{place}] is no object")
                continue
            task = self._task(f"tasks[{place}]", cast("dict[str, Any]", entry))
            if task.key in tasks:
                self._faults.add(f"tasks[{place}]: the key '{task.key}' is used twice")
            tasks.setdefault(task.key, task)
        return tasks

    def _task(self, place: str, entry: Mapping[str, Any]) -> PlanTask:
        name = entry.get("key")
        key = cut_line(name, KEY_LIMIT) if isinstance(name, str) else None
        where = f"{place} '{key}'" if key else place
        given = self._fields(where, entry, _TASK_FIELDS)
        for missing in [name for name in ("key", "title") if entry.get(name) is None]:
            self._faults.add(f"{where} has no {missing}")
        if name != key and "key" in given:
            self._faults.without(where, lambda: one_line(given["key"], "key", KEY_LIMIT))
        needs = _NO_NEEDS
        if "needs" in given:
            needs = NeedsWish(**self._fields(f"{where}: needs", given["needs"], _NEED_FIELDS))
        need = None if needs is _NO_NEEDS else self._need(where, needs)
        known = self._around.by_key.get(key or "")
        return PlanTask(
            key=key or place,
            new=self._own(where, {name: given[name] for name in _OWN_FIELDS if name in given}, needs, key),
            parent=given.get("parent"),
            upstreams=self._upstreams(where, given.get("depends_on", [])),
            need=need,
            cards=self._cards(where, need),
            known=known.task if known else None,
        )

    def _fields(self, where: str, entry: Mapping[str, Any], types: Mapping[str, tuple[type, ...]]) -> dict[str, Any]:
        """Return the fields of the right types; a missing one is as good as null."""
        self._refuse_others(where, entry, types)
        given: dict[str, Any] = {}
        for name, value in entry.items():
            kinds = types.get(name)
            if value is None or kinds is None:
                continue
            if _is_one_of(value, kinds):
                given[name] = value
            else:
                words = " or ".join(_TYPE_WORDS[kind] for kind in kinds)
                self._faults.add(f"{where}: {name} is not {words}")
        return given

    def _refuse_others(self, where: str, entry: Mapping[str, Any], names: Iterable[str]) -> None:
        if set(entry) <= set(names):
            return
        strange = [repr(cut_line(str(name), 40) or "") for name in entry if name not in names]
        if strange:
            self._faults.add(f"{where} has no field {', '.join(strange[:8])}; known: {', '.join(names)}")

    def _own(self, where: str, given: dict[str, Any], needs: NeedsWish, key: str | None) -> NewTask:
        """Read what concerns a task alone. Where that is refused, each field is read on its own: all faults are found."""
        plain: dict[str, Any] = {"title": "untitled"}
        try:
            return _read_alone(TaskWish(**(plain | given), needs=needs, key=key))
        except WarploomError:
            for name, value in given.items():
                self._faults.without(where, lambda one={name: value}: _read_alone(TaskWish(**(plain | one))))
        kind = given["kind"] if given.get("kind") in _KINDS else TaskKind.WORK.value
        self._faults.without(where, lambda: _read_alone(TaskWish("untitled", kind=kind, needs=needs)))
        return read_task(TaskWish("untitled"))

    def _need(self, where: str, needs: NeedsWish) -> CardNeed | None:
        self._faults.without(where, lambda: parse_env_style(needs.env_style))
        if not needs.wants_cards:
            return None
        return self._faults.without(
            where, lambda: parse_need(needs.device or "any", max(needs.cards, 1), needs.memory_gib, needs.model)
        )

    def _cards(self, where: str, need: CardNeed | None) -> tuple[CardId, ...]:
        """Return the cards that a task names; cards that nobody could ever have are a fault."""
        cards = self._around.cards
        if need is None or cards is None:
            return ()
        if need not in self._resolved or self._resolved[need] is None:
            allowed = self._faults.without(where, lambda: resolve_cards(need, cards, self._around.home))
            self._resolved[need] = tuple(sorted(allowed)) if allowed is not None and need.named else ()
        return self._resolved[need] or ()

    def _upstreams(self, where: str, names: list[str]) -> tuple[str, ...]:
        if len(names) > MOST_UPSTREAMS:
            self._faults.add(
                f"{where}: {len(names):,} dependencies are too many for one task, which may have {MOST_UPSTREAMS:,}; "
                "put a task of kind barrier between"
            )
        return tuple(dict.fromkeys(names[:MOST_UPSTREAMS]))


def _read_alone(wish: TaskWish) -> NewTask:
    """Read a task apart from what it waits for, which in a plan may be nothing even for a barrier."""
    if wish.kind.strip().lower() != TaskKind.BARRIER:
        return read_task(wish)
    return replace(read_task(replace(wish, depends_on=["T-1"])), upstreams=())


def _is_one_of(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, list):
        return list in kinds and all(isinstance(item, str) for item in cast("list[Any]", value))
    return isinstance(value, kinds) and not isinstance(value, bool)


def listed(value: Any) -> list[Any]:
    """Return a list as it is, and anything else as an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def number_of(name: str) -> TaskId | None:
    """Read a task's number where a name is one, written just so: T-17."""
    found = _NUMBER.fullmatch(name)
    return TaskId(int(found[1])) if found else None
