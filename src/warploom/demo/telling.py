"""Tells a demo to people: a line for each happening, in the order of time, and at the end the timeline as bars."""

import textwrap
import time
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from warploom.demo.happenings import Happening, Kind
from warploom.demo.outcomes import Outcome, Run

OPENING: Final = (
    "Two scripted agents stand in for two Claude Code sessions; both want card 0. The cards are fake.",
    "The stack, the MCP sessions, the queue, the waiting, the training and all numbers are real.",
    "",
)
_STYLES: Final = {
    "stack": "bright_black",
    "log": "bright_black",
    "rack": "green",
    "cards": "red",
    "estimate": "yellow",
    "claude-1": "cyan",
    "claude-2": "magenta",
}
_LOUD: Final = frozenset({Kind.WOKEN, Kind.FAILED})
_SETTLED_SECONDS: Final = 0.25
_WHO_WIDTH: Final = 10
_INDENT: Final = 21
_LONGEST_BAR: Final = 60
_SHORTEST_BAR: Final = 20
_BESIDE_BAR: Final = 62
_WAITING, _TRAINING, _IDLE = "░", "█", "·"


class Teller:
    """Keeps what happens, and prints it a quarter of a second later, so that late news come in their place."""

    def __init__(self, *, is_quiet: bool) -> None:
        self.began = time.monotonic()
        self.told: list[Happening] = []
        self._fresh: list[Happening] = []
        self._is_quiet = is_quiet
        self._console = Console(highlight=False)

    def open(self) -> None:
        """Say what one is going to see."""
        for line in OPENING:
            self._print(Text(line))

    def hear(self, happening: Happening) -> None:
        """Take in a happening."""
        self._fresh.append(happening)

    def tell(self, *, everything: bool = False) -> None:
        """Print what has settled, or everything."""
        self._fresh.sort(key=lambda happening: happening.clock)
        limit = time.monotonic() - _SETTLED_SECONDS
        while self._fresh and (everything or self._fresh[0].clock < limit):
            happening = self._fresh.pop(0)
            self.told.append(happening)
            self._print(self._line(happening))

    def close(self, outcome: Outcome) -> None:
        """Print the timeline and what came of it."""
        width = self._console.width if self._console.is_terminal else _LONGEST_BAR + _BESIDE_BAR
        self._print(Text())
        for line in timeline(outcome, self.began, width):
            self._print(Text(line))

    def _line(self, happening: Happening) -> Text:
        style = _STYLES.get(happening.who, "")
        seconds = f"{max(0.0, happening.clock - self.began):6.2f} s  "
        line = Text().append(seconds, "bright_black").append(f"{happening.who:<{_WHO_WIDTH}} ", style)
        text = self._wrapped(" ".join(happening.text.split()))
        return line.append(text, "bold green" if happening.kind in _LOUD else style)

    def _wrapped(self, text: str) -> str:
        if not self._console.is_terminal:
            return text
        width = max(40, self._console.width - _INDENT)
        return f"\n{' ' * _INDENT}".join(textwrap.wrap(text, width, break_on_hyphens=False)) or text

    def _print(self, text: Text) -> None:
        if not self._is_quiet:
            self._console.print(text, soft_wrap=True)


def timeline(outcome: Outcome, began: float, width: int) -> list[str]:
    """Draw who waited and who trained when, and say the numbers."""
    first, second = outcome.runs
    columns = min(_LONGEST_BAR, max(_SHORTEST_BAR, width - _BESIDE_BAR))
    scale = _Scale(first.asked_at, second.released_at, columns)
    wake = f"{outcome.wake_seconds:.2f} s from {first.agent}'s gpu_release to {second.agent}'s lease"
    return [
        f"Timeline of {first.card} from {first.asked_at - began:.1f} s to {second.released_at - began:.1f} s   "
        f"{_WAITING} waits  {_TRAINING} holds",
        *(f"  {run.agent:<10}{scale.bar(run)}  {_sum(run)}" for run in outcome.runs),
        f"  {'wake':<10}{wake}",
    ]


def _sum(run: Run) -> str:
    waited = run.held_at - run.asked_at
    before = f"waited {waited:.1f} s, " if waited > _SETTLED_SECONDS else ""
    return f"{before}held {run.lease} for {run.released_at - run.held_at:.1f} s, {run.accuracy:.1%} right"


class _Scale:
    """A span of time as columns."""

    def __init__(self, start: float, end: float, columns: int) -> None:
        self._start = start
        self._columns = columns
        self._per_second = columns / max(end - start, 0.001)

    def bar(self, run: Run) -> str:
        moments: Sequence[float] = (run.asked_at, run.held_at, run.released_at)
        asked, held, released = (round((moment - self._start) * self._per_second) for moment in moments)
        bar = _IDLE * asked + _WAITING * (held - asked) + _TRAINING * (released - held)
        return f"{bar:{_IDLE}<{self._columns}}"
