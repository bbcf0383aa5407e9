"""Standings: the wish that asks for a card, and what its owner is told of the ticket that came of it."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from warploom.domain.etas import EtaView


@dataclass(frozen=True, slots=True)
class Wish:
    """A wish for cards as people and models write it; `read_wish` checks it."""

    job: str
    device: str = "any"
    """'any', a card (`0`, `local/0`, a UUID), or several with commas between."""
    cards: int = 1
    memory_gib: float | None = None
    model: str | None = None
    minutes: float | None = None
    priority: str = "p2"
    env_style: str = "uuid"
    purpose: str | None = None
    """Asking again for the same purpose returns the same ticket; by default the job on that device."""


class Standing(StrEnum):
    """Where a ticket stands, as its owner sees it."""

    QUEUED = "queued"
    OFFERED = "offered"
    ACTIVE = "active"
    PARKED = "parked"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class TicketAnswer:
    """A ticket's standing: a lease with its exports, or a place in the queue with one reason and an ETA."""

    ticket: str
    title: str
    state: Standing
    next: str
    agent: str = ""
    cards: list[str] = field(default_factory=list[str])
    lease: str | None = None
    export: dict[str, str] | None = None
    export_note: str | None = None
    """Why the exports are not in the style that was asked for."""
    expires_at: datetime | None = None
    place: int | None = None
    reason: str | None = None
    starts: EtaView | None = None
    chain: list[str] = field(default_factory=list[str])
    """Everything that stands between the ticket and its card, the dominant reason first."""
    also_free: list[str] = field(default_factory=list[str])
    deduplicated: bool = False
    is_task: bool = False
    """Whether it is a task of the graph, which ends with loom_done, and no mere request, which ends with gpu_release."""
    delivered: str | None = None
    """When and how the offer first reached its session; None where it has not, and where nothing was offered."""
    notices: list[str] = field(default_factory=list[str])

    @property
    def ending(self) -> str:
        """The call that ends its lease and gives the cards back."""
        if self.is_task:
            return f'loom_done("{self.ticket}", lease="{self.lease}")'
        return f'gpu_release("{self.lease}")'
