"""Projects: whose graph a task belongs to. Graphs are never shared between projects; the queues of cards always are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ProjectView:
    """A project and how far along it is."""

    project: str
    description: str | None
    created_at: datetime
    counts: dict[str, int]
    """State to the number of its tasks; only states that occur. Requests for cards are no part of a project's graph."""
    open: int
    """Tasks that are not over: pending, ready, claimed, blocked, and failed ones that will be tried again."""
    done: int
    percent: int
    """Of the tasks that are open, done or given up, how many are done; 0 while there are none."""
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


def percent_of(counts: Mapping[str, int], waiting: int) -> int:
    """Return how far along a project is, from its tasks by state and how many of them are open; 100 only when all are done.

    Ideas and cancelled tasks are no part of it.
    """
    done = counts.get("done", 0)
    all_tasks = done + waiting + counts.get("dead_letter", 0)
    return done * 100 // all_tasks if all_tasks else 0
