"""Keeps calls away from what does not answer: after each failure for a pause that grows, then for one trial."""

import time
from collections.abc import Callable
from random import Random
from typing import Final

SHORTEST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
_spread = Random()  # noqa: S311  (spreads trials of many processes, no secret)


class Breaker:
    """A circuit breaker: closed while calls work, open for a pause after one failed, then closed again by a trial that works.

    The pause doubles with each failure in a row, from 0.05 s to 2 s, less up to half of it by chance.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0
        self._changed_at = clock()
        self.is_closed = False
        """Whether calls go through. It begins open: the first call is the trial."""

    def pause(self) -> float:
        """Return the seconds until the next trial; 0 while closed and once a trial is due."""
        return 0.0 if self.is_closed else max(0.0, self._open_until - self._clock())

    def seconds_since_change(self) -> float:
        """Return for how long it has been closed, or open."""
        return self._clock() - self._changed_at

    def worked(self) -> None:
        """Note that a call worked."""
        self._failures = 0
        self._set(is_closed=True)

    def failed(self) -> None:
        """Note that a call failed."""
        pause = min(LONGEST_PAUSE, SHORTEST_PAUSE * 2 ** min(self._failures, 16))
        self._failures += 1
        self._open_until = self._clock() + pause * _spread.uniform(0.5, 1.0)
        self._set(is_closed=False)

    def _set(self, *, is_closed: bool) -> None:
        if is_closed is not self.is_closed:
            self._changed_at = self._clock()
        self.is_closed = is_closed
