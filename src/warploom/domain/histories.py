"""How long finished runs of the same purpose took, and what that says of the next one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

LEAST_RUNS: Final = 3
"""Fewer earlier runs than these say nothing."""
MOST_RUNS: Final = 20
"""Only the latest ones count: jobs change."""


@dataclass(frozen=True, slots=True)
class Length:
    """How long a run takes: at the soonest (p10), half of the time at most `p50`, nine times in ten at most `p90`."""

    soonest: timedelta
    p50: timedelta
    p90: timedelta
    runs: int = 0
    """From how many earlier runs that is known; 0 where somebody declared it."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A finished run of the same purpose, and the model of the card it had."""

    length: timedelta
    model: str


@dataclass(frozen=True, slots=True)
class Past:
    """The earlier runs of a run that started at a moment (None: not yet)."""

    lengths: Sequence[timedelta]
    started_at: datetime | None = None
    is_end_moved: bool = False
    """Whether its holder moved the declared end out since."""


def declared(length: timedelta) -> Length:
    """Return the length of a run that somebody declared."""
    return Length(length, length, length)


def length_of(lengths: Iterable[timedelta], lasted: timedelta = timedelta()) -> Length | None:
    """Say how long a run takes in all that has `lasted` so far, by the earlier ones that took longer than that.

    None with fewer than `LEAST_RUNS` earlier ones, or when it has outlasted them all.
    """
    known = sorted(lengths)
    longer = [length for length in known if length > lasted]
    if len(known) < LEAST_RUNS or not longer:
        return None
    return Length(quantile(longer, 0.1), quantile(longer, 0.5), quantile(longer, 0.9), len(longer))


def quantile(lengths: Sequence[timedelta], share: float) -> timedelta:
    """Return the length that the next run keeps with probability `share`, of lengths in ascending order.

    The k-th of n is kept with probability k / (n + 1) (Weibull 1939; definition 6 of Hyndman and Fan 1996). Where n is too
    small for that, the average gap is taken to go on beyond the longest; nothing is shorter than the shortest.
    """
    place = share * (len(lengths) + 1) - 1
    last = len(lengths) - 1
    if place <= 0:
        return lengths[0]
    if place >= last:
        gap = (lengths[-1] - lengths[0]) / last if last else timedelta()
        return lengths[-1] + (place - last) * gap
    below = int(place)
    return lengths[below] + (place - below) * (lengths[below + 1] - lengths[below])


def alike(runs: Sequence[PastRun], models: Iterable[str]) -> list[timedelta]:
    """Return the lengths of the runs on such cards where there are enough of them, else of all."""
    wanted = set(models)
    same = [run.length for run in runs if run.model in wanted]
    return same if len(same) >= LEAST_RUNS else [run.length for run in runs]
