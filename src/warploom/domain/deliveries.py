"""Deliveries: the one time that an offer first reached its session, and by which way."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class DeliveryWay(StrEnum):
    """How an offer reached its session. The first way is noted; later ones answer, but wake nobody."""

    ANSWER = "answer"
    WAIT = "wait"
    GPU_WAIT = "gpu_wait"
    MONITOR = "monitor"
    CHANNEL = "channel"
    JOB = "job"


WAY_SENTENCES: dict[DeliveryWay, str] = {
    DeliveryWay.ANSWER: "in the answer to a call",
    DeliveryWay.WAIT: "by `warploom wait`",
    DeliveryWay.GPU_WAIT: "by gpu_wait",
    DeliveryWay.MONITOR: "by `warploom monitor`",
    DeliveryWay.CHANNEL: "by a push into the session",
    DeliveryWay.JOB: "by its job, which was there first",
}

_GRACE: dict[DeliveryWay, timedelta] = {
    DeliveryWay.MONITOR: timedelta(seconds=4),
    DeliveryWay.CHANNEL: timedelta(seconds=8),
}
"""Longer than a waiter needs that hears no hint (3 s), and the monitor before the channel, which clients may drop unseen."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """When an offer first reached its session, and how."""

    at: datetime
    way: DeliveryWay

    @property
    def text(self) -> str:
        """Say it: 'at 12:03:04 UTC by `warploom wait`'."""
        return f"at {self.at:%H:%M:%S} UTC {WAY_SENTENCES[self.way]}"


def read_delivery(at: datetime | None, way: str | None) -> Delivery | None:
    """Build a delivery from what is stored of it; None where there was none yet."""
    return None if at is None or way is None else Delivery(at, DeliveryWay(way))


def grace_before(way: DeliveryWay) -> timedelta:
    """Return how long after its grant an offer may first go this way: at once where it was asked for, later where it is pushed."""
    return _GRACE.get(way, timedelta())
