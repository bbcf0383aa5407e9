"""Calibration: how well each source of estimates has done, by what it first promised and what came."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from warploom.domain.etas import EtaWord
from warploom.domain.texts import spoken_duration

WINDOW: Final = timedelta(days=30)
MOST_PROMISES: Final = 1000
"""Of what came true within the window only the latest count."""


class Foretold(StrEnum):
    """What an estimate is of: when a waiting ticket starts, or when a run ends."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """How one source did: a calibrated one has half come true by its p50 and nine in ten by its p90."""

    foretold: Foretold
    word: EtaWord
    count: int
    late_minutes: float
    """The median of what came less the p50; below zero it came earlier."""
    by_p50: float
    """The share that came true by the p50."""
    by_p90: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The record of every source that has one, starts first, the best source first."""

    records: list[SourceRecord]
    days: int = WINDOW.days
    most: int = MOST_PROMISES


def in_order(records: Iterable[SourceRecord]) -> list[SourceRecord]:
    """Put starts before ends, and the best source first."""
    words, kinds = list(EtaWord), list(Foretold)
    return sorted(records, key=lambda each: (kinds.index(each.foretold), words.index(each.word)))


def say_trust(record: SourceRecord) -> str:
    """Say in a few words whether a source keeps its promises: 'history starts: 84 % on time'."""
    return f"{record.word.value} {record.foretold.value}s: {_percent(record.by_p90)} on time"


def say_record(record: SourceRecord) -> str:
    """Say all of a source's record in one line."""
    error = _say_error(record.late_minutes)
    return f"{say_trust(record)} (p90), {_percent(record.by_p50)} by the p50, {error}, of {record.count}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _say_error(minutes: float) -> str:
    if abs(minutes) < 0.5:
        return "median error under a minute"
    return f"median {spoken_duration(timedelta(minutes=abs(minutes)))} {'late' if minutes > 0 else 'early'}"
