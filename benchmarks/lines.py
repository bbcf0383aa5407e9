"""One measured line: a value beside its floor, their ratio, the target and whether it is met."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """What was measured. `limit` is a ratio to the floor where `by_ratio`, else a value in `unit`; less is better."""

    name: str
    value: float
    unit: str
    floor: float | None
    floor_name: str
    limit: float
    by_ratio: bool = False

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    @property
    def is_met(self) -> bool:
        measured = self.ratio if self.by_ratio else self.value
        return measured is not None and measured <= self.limit

    def render(self) -> str:
        floor = f"{self.floor:8.2f} {self.unit:<4} {self.floor_name}" if self.floor is not None else "       -"
        ratio = f"{self.ratio:5.2f}x" if self.ratio is not None else "     -"
        target = f"<= {self.limit:g}x" if self.by_ratio else f"<= {self.limit:g} {self.unit}"
        word = "ok" if self.is_met else "short"
        return f"{self.name:<42} {self.value:8.2f} {self.unit:<4} | floor {floor:<46} | {ratio} | {target:<11} | {word}"


def median_ms(run: Callable[[], float], rounds: int) -> float:
    """Run `rounds` times and return the median of what each returned, in milliseconds."""
    return statistics.median(run() for _ in range(rounds)) * 1e3


def median_of(values: Sequence[float]) -> float:
    return statistics.median(values)
