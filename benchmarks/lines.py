"""One measured line: a value beside its floor or peer, their ratio, the target and whether it is met."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """What was measured. `limit` is a ratio to the floor where `by_ratio`, else a value in `unit`.

    Less is better, unless `is_rate`. A floor that is None where a ratio was wanted is a peer that is not installed.
    """

    name: str
    value: float
    unit: str
    floor: float | None
    floor_name: str
    limit: float
    by_ratio: bool = False
    is_rate: bool = False

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    @property
    def word(self) -> str:
        """Whether the target is met: ok, short, or that there was no peer to measure against."""
        measured = self.ratio if self.by_ratio else self.value
        if measured is None:
            return "peer missing"
        return "ok" if (measured >= self.limit if self.is_rate else measured <= self.limit) else "short"

    def render(self) -> str:
        floor = f"{self.floor:10,.2f} {self.unit:<4}" if self.floor is not None else f"{'-':>10} {'':<4}"
        ratio = f"{self.ratio:7.2f}x" if self.ratio is not None else "       -"
        sign = ">=" if self.is_rate else "<="
        target = f"{sign} {self.limit:g}x" if self.by_ratio else f"{sign} {self.limit:g} {self.unit}"
        return (
            f"{self.name:<58} {self.value:10,.2f} {self.unit:<4} | {floor} {self.floor_name:<38} |{ratio} | "
            f"{target:<10} | {self.word}"
        )


def rate(name: str, value: float, floor: float | None, floor_name: str, least: float) -> Line:
    """Make a line of so many a second, at least `least` times the floor's."""
    return Line(name, value, "/s", floor, floor_name, least, by_ratio=True, is_rate=True)


def median_ms(run: Callable[[], float], rounds: int) -> float:
    """Run `rounds` times and return the median of what each returned, in milliseconds."""
    return statistics.median(run() for _ in range(rounds)) * 1e3


def median_of(values: Sequence[float]) -> float:
    return statistics.median(values)
