"""What every source of cards can tell: its name and driver, and what one look at its cards found."""

from dataclasses import dataclass
from typing import Protocol

from warploom.domain.hosts import CardFact


@dataclass(frozen=True, slots=True)
class Provider:
    """Who tells of the cards; `driver` is None when it does not say."""

    name: str
    driver: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look found. With a `problem` the provider as a whole did not answer, so no card may count as gone."""

    cards: list[CardFact]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a card works when it is used a little, and how that showed. None: it could not be tried."""

    passed: bool | None
    text: str


class GpuProbe(Protocol):
    """A source of cards. Both calls are bounded in time and may come from any thread, one at a time."""

    def describe(self) -> Provider:
        """Name the provider and its driver; raise ProviderMissing when this machine has none."""
        ...

    def read(self) -> Reading:
        """Look at every card; one that cannot be read comes with its fault. Raises ProviderMissing."""
        ...

    def prove(self, uuid: str) -> Proof:
        """Use a card a little and say how that went. Bounded in time; other calls go on meanwhile."""
        ...
