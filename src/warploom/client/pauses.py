"""How long to wait before something is tried again."""

from random import Random

_SPREAD = Random()  # noqa: S311  (spreads load, no secret; its own, so that nobody else's numbers depend on it)


def pause_before(attempt: int) -> float:
    """Return the seconds to wait before an attempt (1 is the first repetition): doubling to 5 s, with jitter."""
    return min(5.0, 0.1 * 2 ** min(attempt, 10)) * _SPREAD.uniform(0.5, 1.0)
