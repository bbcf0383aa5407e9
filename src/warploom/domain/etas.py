"""When something will happen, and how we know: an estimate always carries its word."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

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
    """A range of moments and the word for how it is known; both ends are None when it is unknown."""

    word: EtaWord
    soonest: datetime | None = None
    latest: datetime | None = None

    @property
    def is_known(self) -> bool:
        """Say whether there is an estimate at all."""
        return self.latest is not None


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
    soonest = max(now, pace.reported_at + timedelta(seconds=remaining * (1 - edge)))
    latest = max(now, pace.reported_at + timedelta(seconds=remaining * (1 + edge)))
    return Span(EtaWord.MEASURED, soonest, latest)


def run_end(pace: Pace | None, expected_end: datetime | None, now: datetime) -> Span:
    """Estimate when a running lease ends: by its reported steps, else by what was declared, else unknown.

    A declared end that has passed says nothing any more.
    """
    if pace is not None:
        span = measured_end(pace, now)
        if span.is_known:
            return span
    if expected_end is not None and expected_end > now:
        return Span(EtaWord.DECLARED, expected_end, expected_end)
    return UNKNOWN


def after(start: Span, minutes: timedelta | None) -> Span:
    """Estimate the end of a run that starts at `start` and declared its length (None: it did not)."""
    if minutes is None or start.soonest is None or start.latest is None:
        return UNKNOWN
    return Span(weakest([start.word, EtaWord.DECLARED]), start.soonest + minutes, start.latest + minutes)


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


_SOURCES = {
    EtaWord.MEASURED: "from its step rate",
    EtaWord.HISTORY: "from earlier runs of the same purpose",
    EtaWord.DECLARED: "from its holder's own estimate",
    EtaWord.UNKNOWN: "nobody can say",
}


def show_eta(span: Span, now: datetime) -> EtaView:
    """Present a span with its text, its word and where the word comes from."""
    word = span.word if span.is_known else EtaWord.UNKNOWN
    return EtaView(spoken_eta(span, now), word, _SOURCES[word], minutes_until(span, now), span.soonest, span.latest)
