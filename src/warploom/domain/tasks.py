"""Tasks: the nodes of a project's graph, how they may be written, and how every door shows them."""

import hashlib
import unicodedata
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum

from warploom.domain.errors import MalformedInput
from warploom.domain.identifiers import TaskId, parse_task
from warploom.domain.leases import parse_env_style, run_length
from warploom.domain.texts import NAME_LIMIT, long_text, one_line, optional_line

MOST_UPSTREAMS = 1_000
MOST_NEEDED = 16
MOST_ATTEMPTS = 100
KEY_LIMIT = 300
MODEL_LIMIT = 120


class TaskState(StrEnum):
    """Where a task stands; `domain` and schema name the same states and moves."""

    IDEA = "idea"
    DECOMPOSED = "decomposed"
    PENDING = "pending"
    READY = "ready"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    DEAD_LETTER = "dead_letter"


OPEN_STATES = (TaskState.PENDING, TaskState.READY, TaskState.CLAIMED, TaskState.BLOCKED, TaskState.FAILED)
"""The states of a task that is not over: a failed one is tried again as long as it has a time for that."""

MOVES: dict[TaskState, tuple[TaskState, ...]] = {
    TaskState.IDEA: (TaskState.DECOMPOSED, TaskState.PENDING, TaskState.READY, TaskState.CANCELLED),
    TaskState.DECOMPOSED: (),
    TaskState.PENDING: (TaskState.READY, TaskState.BLOCKED, TaskState.DONE, TaskState.CANCELLED),
    TaskState.READY: (
        TaskState.PENDING,
        TaskState.CLAIMED,
        TaskState.BLOCKED,
        TaskState.DONE,
        TaskState.CANCELLED,
        TaskState.DEAD_LETTER,
    ),
    TaskState.CLAIMED: (
        TaskState.READY,
        TaskState.DONE,
        TaskState.FAILED,
        TaskState.BLOCKED,
        TaskState.CANCELLED,
        TaskState.DEAD_LETTER,
    ),
    TaskState.BLOCKED: (
        TaskState.PENDING,
        TaskState.READY,
        TaskState.DONE,
        TaskState.CANCELLED,
        TaskState.DEAD_LETTER,
    ),
    TaskState.FAILED: (
        TaskState.PENDING,
        TaskState.READY,
        TaskState.DONE,
        TaskState.CANCELLED,
        TaskState.DEAD_LETTER,
    ),
    TaskState.DONE: (),
    TaskState.CANCELLED: (TaskState.PENDING, TaskState.READY),
    TaskState.DEAD_LETTER: (TaskState.PENDING, TaskState.READY, TaskState.DONE, TaskState.CANCELLED),
}
"""Every move a task may make. Only what is done stays for ever; what was given up can be tried again."""


class TaskKind(StrEnum):
    """What a task is; a GPU request is a task of kind gpu."""

    WORK = "work"
    GPU = "gpu"
    JOB = "job"
    BARRIER = "barrier"
    EPIC = "epic"
    IDEA = "idea"
    QUESTION = "question"
    SKILL = "skill"
    LAND = "land"


class Priority(IntEnum):
    """p0 starts 60 minutes ahead of p2, p1 30 minutes; age always wins in the end."""

    P0 = 0
    P1 = 1
    P2 = 2


@dataclass(frozen=True, slots=True)
class HeadStarts:
    """How much earlier a priority counts as having become ready; settings."""

    p0: timedelta = timedelta(minutes=60)
    p1: timedelta = timedelta(minutes=30)

    def of(self, priority: Priority) -> timedelta:
        """Return the head start of one priority."""
        return {Priority.P0: self.p0, Priority.P1: self.p1}.get(priority, timedelta(0))


def parse_priority(text: str | int) -> Priority:
    """Read 'p0', 'p1', 'p2' or 0, 1, 2."""
    found = str(text).strip().lower().removeprefix("p")
    if found not in ("0", "1", "2"):
        raise MalformedInput(f"{str(text)[:20]!r} is not a priority.", "Use p0 (urgent), p1 or p2 (normal).")
    return Priority(int(found))


def priority_name(priority: int) -> str:
    """Write a priority as people say it."""
    return f"p{priority}"


WRITABLE_KINDS = (TaskKind.WORK, TaskKind.EPIC, TaskKind.BARRIER, TaskKind.QUESTION)
"""The kinds that people and agents create by name; the others come about by what they ask for."""


@dataclass(frozen=True, slots=True)
class NeedsWish:
    """What a task must hold to run, as people and models write it."""

    device: str | None = None
    """A card (`0`, `local/0`, a UUID), several with commas between, or 'any'; None with `cards` 0 for no card at all."""
    cards: int = 0
    """How many cards of one host, with device 'any'."""
    memory_gib: float | None = None
    model: str | None = None
    resources: list[str] = field(default_factory=list[str])
    """Named things of which only one task at a time may have each, such as 'staging-database'."""
    capabilities: list[str] = field(default_factory=list[str])
    """What the host of whoever claims it (and of its cards) must be able to do, such as 'docker'."""
    env_style: str = "uuid"

    @property
    def wants_cards(self) -> bool:
        """Say whether it needs any card."""
        return self.device is not None or self.cards > 0 or self.memory_gib is not None or self.model is not None


@dataclass(frozen=True, slots=True)
class TaskWish:
    """A task as people and models write it; `read_task` checks it."""

    title: str
    context: str | None = None
    done_when: str | None = None
    """The acceptance criteria."""
    priority: str = "p2"
    kind: str = "work"
    parent_id: str | None = None
    """The epic it belongs to, such as T-3."""
    depends_on: list[str] = field(default_factory=list[str])
    needs: NeedsWish = field(default_factory=NeedsWish)
    key: str | None = None
    """The creator's own name for it: creating it again with the same key returns the task that is there."""
    deadline: str | None = None
    """ISO 8601; UTC where it names no offset."""
    max_attempts: int | None = None
    minutes: float | None = None
    """How long it will take, about."""


@dataclass(frozen=True, slots=True)
class TaskChanges:
    """What to change in a task; None leaves a field as it is, an empty text empties it."""

    title: str | None = None
    context: str | None = None
    done_when: str | None = None
    priority: str | None = None
    depends_on: list[str] | None = None
    """Replaces the whole list."""
    parent_id: str | None = None
    deadline: str | None = None
    max_attempts: int | None = None
    minutes: float | None = None


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task that was read and checked, but for what only the database knows."""

    title: str
    kind: TaskKind
    priority: Priority
    context: str | None
    done_when: str | None
    parent: TaskId | None
    upstreams: tuple[TaskId, ...]
    needs: NeedsWish
    resources: tuple[str, ...]
    capabilities: tuple[str, ...]
    key: str | None
    deadline: datetime | None
    max_attempts: int | None
    run: timedelta | None

    @property
    def fingerprint(self) -> uuid.UUID:
        """What its content comes to; two open tasks of one project with the same one are one task written twice."""
        parts = (
            self.kind.value,
            self.title,
            self.context or "",
            self.done_when or "",
            str(self.parent or ""),
            ",".join(map(str, sorted(self.upstreams))),
            repr(self.needs),
            self.key or "",
        )
        return uuid.UUID(bytes=hashlib.sha256("\0".join(map(_normalised, parts)).encode()).digest()[:16])


def _normalised(text: str) -> str:
    """Ignore case, spacing, accents' encoding and punctuation at the end, in which retries of a model differ."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".!;: ")


def read_task(wish: TaskWish) -> NewTask:
    """Check a wish and return the task; raises MalformedInput with one sentence for the first thing wrong."""
    kind = read_kind(wish.kind)
    needs = read_needs(wish.needs)
    if kind is not TaskKind.WORK and (needs.wants_cards or needs.resources or needs.capabilities):
        raise MalformedInput(f"A task of kind {kind.value} needs nothing.", "Give the needs to the work itself.")
    if kind is TaskKind.BARRIER and not wish.depends_on:
        raise MalformedInput("A barrier that waits for nothing holds nothing up.", "Name its tasks with depends_on.")
    return NewTask(
        title=one_line(wish.title, "title"),
        kind=kind,
        priority=parse_priority(wish.priority),
        context=long_text(wish.context, "context"),
        done_when=long_text(wish.done_when, "done_when"),
        parent=parse_task(wish.parent_id) if wish.parent_id else None,
        upstreams=read_upstreams(wish.depends_on),
        needs=needs,
        resources=read_names(needs.resources, "resource"),
        capabilities=read_names(needs.capabilities, "capability"),
        key=optional_line(wish.key, "key", KEY_LIMIT),
        deadline=read_deadline(wish.deadline),
        max_attempts=read_attempts(wish.max_attempts),
        run=run_length(wish.minutes),
    )


def read_needs(needs: NeedsWish) -> NeedsWish:
    """Check what can be checked of needs before the cards are known."""
    if needs.cards < 0:
        raise MalformedInput(f"{str(needs.cards)[:20]} cards cannot be needed.", "Need 0 or more.")
    return replace(
        needs,
        model=optional_line(needs.model, "model", MODEL_LIMIT),
        env_style=parse_env_style(needs.env_style).value,
    )


def read_kind(text: str) -> TaskKind:
    """Read the kind of a task that somebody creates by name."""
    found = next((kind for kind in WRITABLE_KINDS if kind.value == text.strip().lower()), None)
    if found is None:
        raise MalformedInput(
            f"{text[:20]!r} is not a kind of task.", f"Use one of {', '.join(kind.value for kind in WRITABLE_KINDS)}."
        )
    return found


def read_upstreams(names: list[str]) -> tuple[TaskId, ...]:
    """Read the tasks that another one depends on, each once."""
    if len(names) > MOST_UPSTREAMS:
        raise MalformedInput(
            f"{len(names):,} dependencies are too many for one task.",
            f"Use at most {MOST_UPSTREAMS:,}, or a task of kind barrier between.",
        )
    return tuple(dict.fromkeys(parse_task(name) for name in names))


def read_names(names: list[str], field_name: str) -> tuple[str, ...]:
    """Read names of resources or capabilities, each once, in order."""
    if len(names) > MOST_NEEDED:
        raise MalformedInput(
            f"{len(names):,} names of a {field_name} are too many for one task.", f"Name at most {MOST_NEEDED}."
        )
    return tuple(sorted({one_line(name, field_name, NAME_LIMIT) for name in names}))


def read_attempts(attempts: int | None) -> int | None:
    """Check how often a task may be tried."""
    if attempts is not None and not 1 <= attempts <= MOST_ATTEMPTS:
        raise MalformedInput(f"{attempts} attempts cannot be allowed.", f"Allow 1 to {MOST_ATTEMPTS}.")
    return attempts


def read_deadline(text: str | None) -> datetime | None:
    """Read a moment in ISO 8601; UTC where it names no offset."""
    if text is None or not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise MalformedInput(
            f"{text[:40]!r} is not a moment.", "Write it as 2026-12-24T18:00:00Z, or with another offset."
        ) from None


def read_states(text: str | None) -> list[TaskState]:
    """Read a filter such as 'ready' or 'failed,dead_letter'; empty for none."""
    names = [part.strip().lower().replace("-", "_") for part in (text or "").split(",") if part.strip()]
    known = {state.value: state for state in TaskState}
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None:
        raise MalformedInput(f"{wrong[:20]!r} is not a state of a task.", f"Use one of {', '.join(known)}.")
    return [known[name] for name in names]
