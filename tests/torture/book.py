"""The book that a torture run keeps beside the product's own: what reached whom, and what was wrong around it."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class Waiter:
    """Who waits: an agent, the way in which it waits, and the number of the replica that it speaks to."""

    agent: str
    way: str
    replica: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A waiter's end, or a tool's answer, that brought a lease, and when the wait for it began; Unix times."""

    lease: int
    ticket: int
    waiter: Waiter
    since: float
    at: float


@dataclass(frozen=True, slots=True)
class Reach:
    """Whom a trouble can delay, beyond what each waiter must bear at any time, and how long it is felt after its end."""

    lag: float = 0.0
    replicas: frozenset[int] = frozenset()
    agents: frozenset[str] = frozenset()

    def covers(self, waiter: Waiter) -> bool:
        """Say whether this waiter is delayed by it."""
        return waiter.replica in self.replicas or waiter.agent in self.agents


NOBODY = Reach()


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that was wrong for a while; Unix times."""

    name: str
    since: float
    until: float
    reach: Reach


@dataclass(slots=True)
class Book:
    """What happened, written by many threads."""

    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    troubles: list[Trouble] = field(default_factory=list[Trouble])
    faults: list[str] = field(default_factory=list[str])
    """What agents met that must never happen."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def deliver(self, lease: int, ticket: int, waiter: Waiter, since: float) -> None:
        """Note that a waiter has its lease, now."""
        with self._lock:
            self.deliveries.append(Delivery(lease, ticket, waiter, since, time.time()))

    def fault(self, sentence: str) -> None:
        """Note what must never happen."""
        with self._lock:
            self.faults.append(sentence)

    @contextmanager
    def trouble(self, name: str, reach: Reach = NOBODY) -> Generator[None]:
        """Note a trouble that lasts for a block."""
        with self._lock:
            place = len(self.troubles)
            self.troubles.append(Trouble(name, time.time(), FOREVER, reach))
        try:
            yield
        finally:
            with self._lock:
                self.troubles[place] = replace(self.troubles[place], until=time.time())
