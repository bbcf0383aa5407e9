"""When something will happen, and how we know: an estimate always carries its word."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from warploom.domain.histories import Length, Past, declared, length_of

FARTHEST = timedelta(days=3650)
"""An end further away than this is not meant: a wrong total, or a job that only just began."""


class EtaWord(StrEnum):
    """Where an estimate comes from, strongest first; a chain is as good as its weakest link."""

    MEASURED = "measured"
    HISTORY = "history"
    DECLARED = "declared"
    UNKNOWN = "unknown"


_STRENGTH = {word: place for place, word in enumerate(EtaWord)}


def weakest(words: Iterable[EtaWord]) -> EtaWord:
    """Return the least certain of `words`; an empty chain is measured, since nothing in it was guessed."""
    return max(words, key=_STRENGTH.__getitem__, default=EtaWord.MEASURED)


@dataclass(frozen=True, slots=True)
class Span:
    """A range of moments and the word for how it is known; all moments are None when it is unknown.

    `p50` is the moment that half of all such estimates should keep, by default the middle; `latest` is the p90.
    """

    word: EtaWord
    soonest: datetime | None = None
    latest: datetime | None = None
    p50: datetime | None = None
    runs: int = 0
    """From how many earlier runs its history comes, of the link with the fewest; 0 where there is none in it."""

    def __post_init__(self) -> None:
        if self.p50 is None and self.soonest is not None and self.latest is not None:
            object.__setattr__(self, "p50", self.soonest + (self.latest - self.soonest) / 2)

    @property
    def is_known(self) -> bool:
        """Say whether there is an estimate at all."""
        return self.latest is not None

    @property
    def moments(self) -> tuple[datetime, datetime, datetime] | None:
        """The soonest moment, the p50 and the latest (p90), or None when it is unknown."""
        if self.soonest is None or self.p50 is None or self.latest is None:
            return None
        return self.soonest, self.p50, self.latest


UNKNOWN = Span(EtaWord.UNKNOWN)


def at(moment: datetime) -> Span:
    """Return the span of a moment that is certain, such as now."""
    return Span(EtaWord.MEASURED, moment, moment)


@dataclass(frozen=True, slots=True)
class Pace:
    """Progress that a holder reported: steps done, steps in all, and the measured rate with its spread."""

    step: int
    total: int | None
    rate: float | None
    """Steps a second, averaged; None before there are two reports."""
    spread: float
    """The average distance of single rates from `rate`, as a share of it (0.1 is ten percent)."""
    reported_at: datetime


def next_pace(before: Pace | None, step: int, total: int | None, now: datetime) -> Pace:
    """Fold a report into the pace: an exponential average with weight 0.3, the spread in the same way.

    A step that goes backwards means a restarted job: its old rate says nothing about the new one.
    """
    if before is None or step < before.step:
        return Pace(step, total, None, 0.0, now)
    seconds = (now - before.reported_at).total_seconds()
    if step == before.step or seconds <= 0:
        return Pace(before.step, total, before.rate, before.spread, before.reported_at)
    seen = (step - before.step) / seconds
    if before.rate is None:
        return Pace(step, total, seen, 0.1, now)
    rate = 0.7 * before.rate + 0.3 * seen
    spread = 0.7 * before.spread + 0.3 * abs(seen - before.rate) / before.rate
    return Pace(step, total, rate, min(spread, 1.0), now)


def is_first_measure(before: Pace | None, pace: Pace) -> bool:
    """Say whether the end of a run can be measured for the first time."""
    had_one = before is not None and before.rate is not None and before.total is not None
    return pace.rate is not None and pace.total is not None and not had_one


def measured_end(pace: Pace, now: datetime) -> Span:
    """Estimate when the last step will be done: remaining steps over the rate, wider by its spread.

    Unknown beyond `FARTHEST`.
    """
    if not pace.rate or pace.total is None:
        return UNKNOWN
    remaining = max(0, pace.total - pace.step) / pace.rate
    if remaining > FARTHEST.total_seconds():
        return UNKNOWN
    edge = min(0.9, max(0.05, pace.spread))
    soonest, p50, latest = (
        max(now, pace.reported_at + timedelta(seconds=remaining * share)) for share in (1 - edge, 1, 1 + edge)
    )
    return Span(EtaWord.MEASURED, soonest, latest, p50)


def history_end(past: Past, now: datetime) -> Span:
    """Estimate when a run ends that has lasted for a while already: by those earlier ones that took longer than that."""
    if past.started_at is None:
        return UNKNOWN
    length = length_of(past.lengths, max(now - past.started_at, timedelta()))
    return UNKNOWN if length is None else after(at(past.started_at), length)


def run_end(pace: Pace | None, expected_end: datetime | None, now: datetime, past: Past | None = None) -> Span:
    """Estimate when a running lease ends: by its reported steps, by earlier runs, by what was declared, else unknown.

    A declared end that has passed says nothing any more. One that its holder moved out comes before earlier runs.
    """
    measured = UNKNOWN if pace is None else measured_end(pace, now)
    if measured.is_known:
        return measured
    own = UNKNOWN
    if expected_end is not None and expected_end > now:
        own = Span(EtaWord.DECLARED, expected_end, expected_end)
    if past is None or (past.is_end_moved and own.is_known):
        return own
    history = history_end(past, now)
    return history if history.is_known else own


def first_ends(usual: Length | None, run: timedelta | None, now: datetime) -> list[Span]:
    """Estimate the end of a run that starts now, once by earlier runs and once by what was declared, where there are such."""
    lengths = (usual, None if run is None else declared(run))
    return [after(at(now), length) for length in lengths if length is not None]


def after(start: Span, length: Length | None) -> Span:
    """Estimate the end of a run that starts at `start`; None: nobody knows how long it will be.

    The p50s are added, and the p90s: as if a late start and a long run always came together, which errs on the late side.
    """
    moments = start.moments
    if length is None or moments is None:
        return UNKNOWN
    soonest, p50, latest = moments
    word = weakest([start.word, EtaWord.HISTORY if length.runs else EtaWord.DECLARED])
    runs = fewest([start.runs, length.runs])
    return Span(word, soonest + length.soonest, latest + length.p90, p50 + length.p50, runs)


def fewest(runs: Iterable[int]) -> int:
    """Return the smallest number of earlier runs that a link of a chain rests on, leaving out those without any."""
    return min((each for each in runs if each), default=0)


def minutes_until(span: Span, now: datetime) -> list[int] | None:
    """Return [soonest, latest] in whole minutes from `now`, or None when unknown."""
    if span.soonest is None or span.latest is None:
        return None
    ends = (span.soonest - now, span.latest - now)
    return [max(0, round(end.total_seconds() / 60)) for end in ends]


def spoken_eta(span: Span, now: datetime) -> str:
    """Say a span: 'now', '44–52 min', '~48 min', '~2 h', 'unknown'; the word is said beside it, not here."""
    minutes = minutes_until(span, now)
    if minutes is None:
        return "unknown"
    low, high = minutes
    if high == 0:
        return "now" if span.latest is not None and span.latest <= now else "under a minute"
    if high < 120 and low != high:
        return f"{low}–{high} min"
    if high < 120:
        return f"~{high} min"
    middle = round((low + high) / 120, 1)
    return f"~{middle:g} h"


@dataclass(frozen=True, slots=True)
class EtaView:
    """An estimate as every door shows it."""

    text: str
    word: EtaWord
    source: str
    minutes: list[int] | None = None
    soonest: datetime | None = None
    latest: datetime | None = None
    p50: datetime | None = None
    """Half of all such estimates should have come true by this moment."""
    p90: datetime | None = None
    """Nine in ten of them should have by this one."""


_SOURCES = {
    EtaWord.MEASURED: "from its step rate",
    EtaWord.HISTORY: "from earlier runs of the same purpose",
    EtaWord.DECLARED: "from its holder's own estimate",
    EtaWord.UNKNOWN: "nobody can say",
}


def show_eta(span: Span, now: datetime) -> EtaView:
    """Present a span with its text, its word and where the word comes from."""
    word = span.word if span.is_known else EtaWord.UNKNOWN
    return EtaView(
        text=spoken_eta(span, now),
        word=word,
        source=_source(word, span.runs),
        minutes=minutes_until(span, now),
        soonest=span.soonest,
        latest=span.latest,
        p50=span.p50,
        p90=span.latest,
    )


def _source(word: EtaWord, runs: int) -> str:
    if word is EtaWord.HISTORY and runs:
        return f"from {runs} earlier {'run' if runs == 1 else 'runs'} of the same purpose"
    return _SOURCES[word]
