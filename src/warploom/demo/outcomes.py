"""What came of a demo."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """One training that an agent did on the card; moments are on the clock of the happenings."""

    agent: str
    job: str
    ticket: str
    lease: str
    card: str
    asked_at: float
    held_at: float
    released_at: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it. `wake_seconds`: from the call of gpu_release to the waiter having its lease."""

    runs: tuple[Run, Run]
    wake_seconds: float


class DemoFailed(Exception):
    """A demo did not go as it should; the text says what happened instead, without a full stop."""
