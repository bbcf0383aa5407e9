"""What is true of the cards, whatever the product believes: when each was taken, out of service or out of sight."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class Spell:
    """A time for which a card could not have been granted, and why; Unix times, never longer than it truly was."""

    card: str
    cause: str
    since: float
    until: float = FOREVER
    lease: str | None = None
    """The lease whose own process it was: that lease alone may be granted meanwhile."""


class Truth:
    """The spells of all cards. A cause is opened once it is there, and closed before it is taken away."""

    def __init__(self) -> None:
        self._spells: dict[int, Spell] = {}
        self._lock = threading.Lock()

    def open(self, card: str, cause: str, lease: str | None = None) -> int:
        """Say that a card cannot be granted from now on; return the number that ends it."""
        with self._lock:
            number = len(self._spells)
            self._spells[number] = Spell(card, cause, time.time(), lease=lease)
        return number

    def close(self, numbers: Iterable[int]) -> None:
        """Say that these causes are about to go; doing it twice is fine."""
        now = time.time()
        with self._lock:
            for number in numbers:
                if self._spells[number].until == FOREVER:
                    self._spells[number] = replace(self._spells[number], until=now)

    def spells(self, card: str | None = None) -> list[Spell]:
        """Return the spells of a card, or of all, as they began."""
        with self._lock:
            return [spell for spell in self._spells.values() if card in (None, spell.card)]


def unbroken(spells: Iterable[Spell], moment: float) -> tuple[float, list[Spell]]:
    """Return since when a card had been taken without a break up to a moment, and by what; the moment itself if it was not."""
    left, reach, chain = list(spells), moment, list[Spell]()
    while True:
        linked = [spell for spell in left if spell.since < reach <= spell.until]
        if not linked:
            return reach, chain
        first = min(linked, key=lambda spell: spell.since)
        chain.append(first)
        reach = first.since
