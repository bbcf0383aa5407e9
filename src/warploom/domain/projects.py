"""Projects: whose graph a task belongs to. Graphs are never shared between projects; the queues of cards always are."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ProjectView:
    """A project and how far along it is."""

    project: str
    description: str | None
    created_at: datetime
    counts: dict[str, int]
    """State to the number of its tasks; only states that occur."""
    open: int
    """Tasks that are not over: pending, ready, claimed, blocked, and failed ones that will be tried again."""
    done: int
    percent: int
    """Of all tasks but ideas and cancelled ones, how many are done."""
    is_current: bool = False
    overdue: int = 0
    escalations: int = 0
    """Questions that nobody has answered yet."""
    completed_at: datetime | None = None
    archived_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ProjectsAnswer:
    """Every project that is not archived (or every one), the current one marked."""

    projects: list[ProjectView]
    next: str
    notices: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class ProjectAnswer:
    """What became of one project."""

    project: ProjectView
    next: str
    notices: list[str] = field(default_factory=list[str])
