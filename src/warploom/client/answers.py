"""The few bodies of the HTTP API that are no values of the domain."""

from dataclasses import dataclass, field

from warploom.domain.events import EventView
from warploom.domain.tickets import TicketAnswer


@dataclass(frozen=True, slots=True)
class CardRequest:
    """A wish for cards as a door sends it; the server reads and checks it."""

    job: str
    device: str = "any"
    """'any', a card (`0`, `local/0`), or several with commas between."""
    cards: int = 1
    memory_gib: float | None = None
    model: str | None = None
    minutes: float | None = None
    priority: str = "p2"
    env_style: str = "uuid"
    purpose: str | None = None
    """Asking again for the same purpose returns the same ticket; by default the job's name."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a session is told when it shows a sign of life: unread notices, and offers it has not accepted."""

    notices: list[str] = field(default_factory=list[str])
    grants: list[TicketAnswer] = field(default_factory=list[TicketAnswer])


@dataclass(frozen=True, slots=True)
class EventPage:
    """A stretch of the log, and the cursor to go on reading from."""

    events: list[EventView]
    cursor: str


@dataclass(frozen=True, slots=True)
class Health:
    """A server's own word that it and its database answer."""

    status: str
    version: str
    schema: str | int | None = None
