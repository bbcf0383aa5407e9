"""Errands: what a host is asked to do once, kept until it has said what came of it or their time is over."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from warploom.domain.errors import MalformedInput
from warploom.domain.processes import ProcessIdentity
from warploom.domain.texts import spoken_duration, spoken_list

LAPSE_TIME: Final = timedelta(minutes=2)
"""How long a host may leave an errand undone."""
USUAL_GRACE_SECONDS: Final = 10.0
MOST_GRACE_SECONDS: Final = 120.0
MOST_FATES: Final = 500


class ErrandKind(StrEnum):
    """What a host can be asked to do."""

    KILL = "kill"
    PROBE = "probe"


class ErrandState(StrEnum):
    """How far an errand is: asked, taken by its host, answered, or lapsed undone."""

    ASKED = "asked"
    TAKEN = "taken"
    ANSWERED = "answered"
    LAPSED = "lapsed"

    @property
    def is_over(self) -> bool:
        """Say whether nothing more comes of it, unless its host answers late."""
        return self in (ErrandState.ANSWERED, ErrandState.LAPSED)


class Fate(StrEnum):
    """What became of a process that was to end; `FATES` says each in words."""

    ENDED = "ended"
    KILLED = "killed"
    GONE = "gone"
    REPLACED = "replaced"
    SPARED = "spared"
    FORBIDDEN = "forbidden"
    STAYED = "stayed"


FATES: Final[dict[Fate, str]] = {
    Fate.ENDED: "ended when it was told to (TERM)",
    Fate.KILLED: "did not end when it was told to, and was killed (KILL)",
    Fate.GONE: "had ended already",
    Fate.REPLACED: "not the recorded process; left alone",
    Fate.SPARED: "left alone: it is a session's own program, or Warploom's",
    Fate.FORBIDDEN: "left alone: the host agent lacks the permission to end it",
    Fate.STAYED: "told to end and killed, and is still there: it hangs in the kernel or the driver",
}
_COUNTED: Final[dict[Fate, str]] = {
    Fate.ENDED: "ended",
    Fate.KILLED: "killed",
    Fate.GONE: "gone already",
    Fate.REPLACED: "replaced by another process and left alone",
    Fate.SPARED: "left alone",
    Fate.FORBIDDEN: "left alone for lack of permission",
    Fate.STAYED: "still there",
}
_LEFT: Final = frozenset({Fate.SPARED, Fate.FORBIDDEN, Fate.STAYED})


@dataclass(frozen=True, slots=True)
class KillOrder:
    """End every process of a lease: TERM first, KILL for what is left after the grace.

    `processes` are those that the last survey saw on its cards; the host finds the others, by the lease in their
    environment and by descent. `spared` are never touched.
    """

    lease: str
    processes: list[ProcessIdentity]
    spared: list[ProcessIdentity]
    grace_seconds: float = USUAL_GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """Use a card a little, to see whether it works."""

    uuid: str


@dataclass(frozen=True, slots=True)
class Errand:
    """An errand as its host is told of it; doing it twice must do no harm."""

    errand: str
    kill: KillOrder | None = None
    probe: ProbeOrder | None = None


@dataclass(frozen=True, slots=True)
class ProcessFate:
    """What became of one process."""

    pid: int
    started: int
    fate: Fate
    command: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a host says came of an errand: of each process, or whether the card passed, or why nothing could be done."""

    processes: list[ProcessFate] = field(default_factory=list[ProcessFate])
    passed: bool | None = None
    text: str | None = None
    problem: str | None = None
    followed: str | None = None
    """What became of the card because of it; not the host's to say."""

    @property
    def is_success(self) -> bool:
        """Say whether what was asked for is so now."""
        if self.problem is not None or self.passed is False:
            return False
        return not any(process.fate in _LEFT for process in self.processes)


@dataclass(frozen=True, slots=True)
class KillWish:
    """Why the processes of a lease are to end, and how long they get to end by themselves."""

    reason: str
    grace_seconds: float = USUAL_GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class ErrandAnswer:
    """What an errand does, or would do when `done` is false: then nobody was asked, and there is no `errand`."""

    errand: str | None
    kind: ErrandKind
    host: str
    about: str
    done: bool
    consequences: list[str]
    next: str


@dataclass(frozen=True, slots=True)
class ErrandView:
    """An errand as every door shows it; `lines` has one for each process, `is_success` is None until it is answered."""

    errand: str
    kind: ErrandKind
    host: str
    about: str
    state: ErrandState
    asked_by: str
    asked_at: datetime
    reason: str | None
    text: str
    lines: list[str]
    is_success: bool | None


def read_grace(seconds: float) -> float:
    """Return how long processes get to end by themselves; raise MalformedInput for what is no such time."""
    if not 0 <= seconds <= MOST_GRACE_SECONDS:
        raise MalformedInput(
            f"A grace of {seconds:g} s is out of range.", f"Give 0 to {MOST_GRACE_SECONDS:g} seconds; 10 is usual."
        )
    return seconds


def tell_fate(process: ProcessFate) -> str:
    """Say what became of a process: 'train.py (pid 123, user ada): ended when it was told to (TERM)'."""
    user = f", user {process.user}" if process.user else ""
    return f"{process.command or 'a process'} (pid {process.pid}{user}): {FATES[process.fate]}"


def tell_outcome(outcome: Outcome) -> str:
    """Say in one sentence part what came of an errand."""
    if outcome.problem is not None:
        return f"it could not be done: {outcome.problem}"
    if outcome.passed is not None:
        return f"{'passed' if outcome.passed else 'failed'}: {outcome.text or 'nothing more was said'}"
    counts = Counter(process.fate for process in outcome.processes)
    told = [
        f"{count} {_COUNTED[fate]}"
        for fate, count in sorted(counts.items(), key=lambda each: list(Fate).index(each[0]))
    ]
    return spoken_list(told) or "no process of it was found"


def tell_errand(state: ErrandState, host: str, outcome: Outcome | None) -> str:
    """Say how far an errand is."""
    match state:
        case ErrandState.ASKED:
            return f"{host} has been asked and has not taken it up yet"
        case ErrandState.TAKEN:
            return f"{host} is at it"
        case ErrandState.LAPSED:
            return f"{host} did not answer within {spoken_duration(LAPSE_TIME)}; it is asked no more"
        case ErrandState.ANSWERED:
            assert outcome is not None
            return tell_outcome(outcome)
