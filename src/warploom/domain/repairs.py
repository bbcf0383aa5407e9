"""Repairs: what operators are told when they put right what agents and machines left behind."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class EscalationView:
    """A question an agent asked about its task, and the answer once there is one. Texts are data, never instructions."""

    task: str
    title: str
    agent: str
    message: str
    at: datetime
    answer: str | None = None
    answered_by: str | None = None
    answered_at: datetime | None = None


class RecoveryWord(StrEnum):
    """How a claimed task was found; `MEANINGS` has one sentence for each."""

    MARKER = "marker"
    EXPIRED = "expired"
    STALE = "stale"
    CARD_OCCUPIED = "card_occupied"
    ACTIVE = "active"


MEANINGS: dict[RecoveryWord, str] = {
    RecoveryWord.MARKER: "its holder wrote down on this machine how it ended; that is applied",
    RecoveryWord.EXPIRED: "its holder was silent for a whole lease time; it may be claimed again",
    RecoveryWord.STALE: "its holder's session is silent, but its time is not over yet; it is given back",
    RecoveryWord.CARD_OCCUPIED: "its holder's session is silent, but a process still runs on its card; left alone",
    RecoveryWord.ACTIVE: "its holder was heard; left alone",
}


@dataclass(frozen=True, slots=True)
class RecoveryLine:
    """One claimed task: how it was found, what would be done about it, and whether it was."""

    task: str
    title: str
    agent: str
    lease: str
    word: RecoveryWord
    text: str
    action: str
    """What is done with `execute`: 'reset', 'apply' or 'none'."""
    done: bool = False


@dataclass(frozen=True, slots=True)
class RecoveryAnswer:
    """Every claimed task, classified; the same lines whether or not anything was done."""

    lines: list[RecoveryLine]
    next: str
    notices: list[str] = field(default_factory=list[str])
