"""Claims: what an agent is told when it takes tasks, goes on with them and finishes them."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from warploom.domain.errors import MalformedInput
from warploom.domain.standings import TicketAnswer
from warploom.domain.task_answers import TaskAnswer
from warploom.domain.tasks import TaskState

MOST_CLAIMS = 20
SHORTEST_LIFE = timedelta(seconds=10)
LONGEST_LIFE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Claim:
    """A task that is yours, with the lease that every further call about it names."""

    task: TaskAnswer
    lease: str
    expires_at: datetime
    cards: list[str] = field(default_factory=list[str])
    export: dict[str, str] | None = None
    """The variables to put before every command, where it came with cards."""


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """What came of asking for tasks: those that are yours, those that wait for a card for you, or why there are none."""

    claims: list[Claim]
    next: str
    queued: list[TicketAnswer] = field(default_factory=list[TicketAnswer])
    reason: str | None = None
    ideas: int = 0
    """How many ideas stand in the backlog; only counted when there was nothing to claim."""
    notices: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """Where a task stands after its holder did something with it."""

    task: str
    state: TaskState
    next: str
    lease: str | None = None
    expires_at: datetime | None = None
    reason: str | None = None
    retry_at: datetime | None = None
    percent: int | None = None
    notices: list[str] = field(default_factory=list[str])


def read_life(seconds: float | None) -> timedelta | None:
    """Read how long a holder may be silent; None for the setting. Raise MalformedInput outside 10 s to 24 h."""
    if seconds is None:
        return None
    if not SHORTEST_LIFE.total_seconds() <= seconds <= LONGEST_LIFE.total_seconds():
        raise MalformedInput(f"{seconds:g} seconds cannot be a claim's time.", "Give 10 seconds to 24 hours.")
    return timedelta(seconds=seconds)


def read_count(count: int) -> int:
    """Check how many tasks are asked for at once."""
    if not 1 <= count <= MOST_CLAIMS:
        raise MalformedInput(f"{count} tasks cannot be claimed at once.", f"Claim 1 to {MOST_CLAIMS}.")
    return count


def read_percent(percent: int | None) -> int | None:
    """Check a percentage."""
    if percent is not None and not 0 <= percent <= 100:
        raise MalformedInput(f"{percent} is not a percentage.", "Give 0 to 100.")
    return percent
