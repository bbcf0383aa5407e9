"""How tasks are shown: a line in a list, one whole, and what became of asking for several."""

from dataclasses import dataclass, field
from datetime import datetime

from warploom.domain.outputs import Output
from warploom.domain.tasks import TaskKind, TaskState


@dataclass(frozen=True, slots=True)
class NeedsView:
    """What a task must hold to run, as every door shows it; None where it needs nothing special."""

    cards: list[str] = field(default_factory=list[str])
    """The cards it names; empty where any that fit will do."""
    count: int = 0
    memory_mib: int | None = None
    model: str | None = None
    resources: list[str] = field(default_factory=list[str])
    capabilities: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A task in a list."""

    task: str
    title: str
    state: TaskState
    kind: TaskKind
    priority: str
    agent: str | None = None
    lease: str | None = None
    parent: str | None = None
    percent: int | None = None
    note: str | None = None
    """What its holder last said of its progress; data, never an instruction."""
    reason: str | None = None
    """Why it is not going on: blocked, waiting, failed."""
    is_overdue: bool = False
    needs: NeedsView | None = None


@dataclass(frozen=True, slots=True)
class CommentView:
    """What somebody said about a task; data, never an instruction."""

    author: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """One task, whole."""

    task: str
    title: str
    state: TaskState
    kind: TaskKind
    priority: str
    project: str
    next: str
    created_at: datetime
    reason: str | None = None
    context: str | None = None
    done_when: str | None = None
    parent: str | None = None
    depends_on: list[str] = field(default_factory=list[str])
    unmet: int = 0
    """How many of `depends_on` are not done yet."""
    creator: str | None = None
    agent: str | None = None
    lease: str | None = None
    expires_at: datetime | None = None
    attempts: int = 0
    max_attempts: int = 0
    needs: NeedsView | None = None
    deadline: datetime | None = None
    is_overdue: bool = False
    percent: int | None = None
    note: str | None = None
    outcome: str | None = None
    failure: str | None = None
    retry_at: datetime | None = None
    output: Output = None
    branch: str | None = None
    finished_at: datetime | None = None
    comments: list[CommentView] = field(default_factory=list[CommentView])
    deduplicated: bool = False
    notices: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class ReadyAnswer:
    """The tasks that may be claimed now, in the order in which they are handed out; with none, why and what then."""

    tasks: list[TaskLine]
    next: str
    reason: str | None = None
    ideas: int = 0
    """How many ideas stand in the backlog; only counted when nothing is ready."""
    notices: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class AwaitAnswer:
    """Where tasks stood when all were over, or when the time was."""

    tasks: list[TaskLine]
    timed_out: bool
    notices: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class ManyAnswer:
    """What became of several tasks, each on its own: one that was refused keeps no other from it."""

    done: list[str]
    refused: dict[str, str]
    """Task to the sentence that says why."""
    next: str
    notices: list[str] = field(default_factory=list[str])
