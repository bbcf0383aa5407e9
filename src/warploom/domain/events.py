"""Events: lines of the append-only log, written with the change they tell of."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class EventKind(StrEnum):
    """Every kind of event; `SENTENCES` has one sentence for each."""

    TICKET_QUEUED = "ticket.queued"
    TICKET_LEFT = "ticket.left"
    TICKET_PARKED = "ticket.parked"
    TICKET_RESUMED = "ticket.resumed"
    LEASE_GRANTED = "lease.granted"
    LEASE_OFFERED = "lease.offered"
    LEASE_ACCEPTED = "lease.accepted"
    LEASE_EXTENDED = "lease.extended"
    LEASE_RELEASED = "lease.released"
    LEASE_EXPIRED = "lease.expired"
    LEASE_LAPSED = "lease.lapsed"
    LEASE_WITHDRAWN = "lease.withdrawn"
    CARD_FOUND = "card.found"
    CARD_CONDITION = "card.condition"
    CARD_DRAINED = "card.drained"
    CARD_UNDRAINED = "card.undrained"
    HOST_FOUND = "host.found"
    HOST_SILENT = "host.silent"
    HOST_BACK = "host.back"
    SESSION_STARTED = "session.started"


SENTENCES: dict[EventKind, str] = {
    EventKind.TICKET_QUEUED: "{agent} joined the queue of {cards} with '{title}'",
    EventKind.TICKET_LEFT: "{agent} left the queue of {cards}",
    EventKind.TICKET_PARKED: "'{title}' was parked after {missed} missed offers",
    EventKind.TICKET_RESUMED: "'{title}' is back in the queue of {cards} at its original age",
    EventKind.LEASE_GRANTED: "{agent} holds {cards} for '{title}'",
    EventKind.LEASE_OFFERED: "{cards} offered to {agent} for '{title}'",
    EventKind.LEASE_ACCEPTED: "{agent} accepted {cards}",
    EventKind.LEASE_EXTENDED: "{agent} extended by {minutes} min: {reason}",
    EventKind.LEASE_RELEASED: "{agent} released {cards}",
    EventKind.LEASE_EXPIRED: "the lease of {agent} on {cards} expired in silence",
    EventKind.LEASE_LAPSED: "the offer of {cards} to {agent} lapsed",
    EventKind.LEASE_WITHDRAWN: "{agent} gave the offer of {cards} back",
    EventKind.CARD_FOUND: "{cards} found: {model}, {memory}",
    EventKind.CARD_CONDITION: "{cards} is {condition}{detail}",
    EventKind.CARD_DRAINED: "{agent} drains {cards}: {reason}",
    EventKind.CARD_UNDRAINED: "{agent} put {cards} back in service",
    EventKind.HOST_FOUND: "host {host} reported for the first time",
    EventKind.HOST_SILENT: "host {host} has been silent for {silent}: nothing is granted there",
    EventKind.HOST_BACK: "host {host} is back",
    EventKind.SESSION_STARTED: "{agent} started a session",
}


class _Blank(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"


def tell(kind: EventKind, facts: dict[str, str]) -> str:
    """Say an event in one sentence; a fact that is missing shows as '?', so that old lines stay readable."""
    return SENTENCES[kind].format_map(_Blank(facts))


@dataclass(frozen=True, slots=True)
class EventView:
    """One line of the log. `cursor` resumes reading right after it; `text` is the sentence every door shows."""

    cursor: str
    at: datetime
    kind: EventKind
    text: str
    ticket: str | None = None
    lease: str | None = None
    session: str | None = None
    cards: list[str] | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class EventPage:
    """A stretch of the log, oldest first, and the cursor to go on reading from."""

    events: list[EventView]
    cursor: str
