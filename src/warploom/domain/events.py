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
    TICKET_YIELDED = "ticket.yielded"
    LEASE_GRANTED = "lease.granted"
    LEASE_OFFERED = "lease.offered"
    LEASE_DELIVERED = "lease.delivered"
    LEASE_ACCEPTED = "lease.accepted"
    LEASE_EXTENDED = "lease.extended"
    LEASE_RELEASED = "lease.released"
    LEASE_EXPIRED = "lease.expired"
    LEASE_SHORTENED = "lease.shortened"
    LEASE_LAPSED = "lease.lapsed"
    LEASE_WITHDRAWN = "lease.withdrawn"
    LEASE_FORCED = "lease.forced"
    LEASE_KILL_ASKED = "lease.kill_asked"
    LEASE_KILLED = "lease.killed"
    TASK_CREATED = "task.created"
    TASK_PROMOTED = "task.promoted"
    TASK_UPDATED = "task.updated"
    TASK_COMMENTED = "task.commented"
    TASK_CLAIMED = "task.claimed"
    TASK_DONE = "task.done"
    TASK_FAILED = "task.failed"
    TASK_RETRIED = "task.retried"
    TASK_DEAD_LETTER = "task.dead_letter"
    TASK_ESCALATED = "task.escalated"
    TASK_ANSWERED = "task.answered"
    TASK_RESET = "task.reset"
    TASK_CANCELLED = "task.cancelled"
    TASK_SKIPPED = "task.skipped"
    TASK_RETURNED = "task.returned"
    TASK_UNBLOCKED = "task.unblocked"
    TASK_BLOCKED = "task.blocked"
    TASK_CLOSED = "task.closed"
    GRAPH_IMPORTED = "graph.imported"
    PROJECT_CREATED = "project.created"
    PROJECT_COMPLETED = "project.completed"
    PROJECT_ARCHIVED = "project.archived"
    PROJECT_RESTORED = "project.restored"
    MESSAGE_SENT = "message.sent"
    CARD_FOUND = "card.found"
    CARD_MOVED = "card.moved"
    CARD_CONDITION = "card.condition"
    CARD_RULES = "card.rules"
    CARD_DRAINED = "card.drained"
    CARD_UNDRAINED = "card.undrained"
    CARD_XID = "card.xid"
    CARD_SUSPECTED = "card.suspected"
    CARD_QUARANTINED = "card.quarantined"
    CARD_CLEARED = "card.cleared"
    CARD_PROBE_ASKED = "card.probe_asked"
    CARD_PROBED = "card.probed"
    RESERVATION_MADE = "reservation.made"
    RESERVATION_BEGUN = "reservation.begun"
    RESERVATION_OVER = "reservation.over"
    RESERVATION_GIVEN_UP = "reservation.given_up"
    PROPOSAL_MADE = "proposal.made"
    PROPOSAL_ACCEPTED = "proposal.accepted"
    PROPOSAL_DECLINED = "proposal.declined"
    PROPOSAL_WITHDRAWN = "proposal.withdrawn"
    PROPOSAL_LAPSED = "proposal.lapsed"
    PROPOSAL_DUE = "proposal.due"
    PROPOSAL_KEPT = "proposal.kept"
    PROPOSAL_BROKEN = "proposal.broken"
    ERRAND_LAPSED = "errand.lapsed"
    HOST_FOUND = "host.found"
    HOST_SILENT = "host.silent"
    HOST_BACK = "host.back"
    SESSION_STARTED = "session.started"
    SESSION_SILENT = "session.silent"


SENTENCES: dict[EventKind, str] = {
    EventKind.TICKET_QUEUED: "{agent} joined the queue of {cards} with '{title}'",
    EventKind.TICKET_LEFT: "{agent} left the queue of {cards}",
    EventKind.TICKET_PARKED: "'{title}' was parked after {missed} missed offers",
    EventKind.TICKET_RESUMED: "'{title}' is back in the queue of {cards} at its original age",
    EventKind.TICKET_YIELDED: "{agent} lets the first who waits for {cards} go, and waits on with '{title}' right behind",
    EventKind.LEASE_GRANTED: "{agent} holds {cards} for '{title}'",
    EventKind.LEASE_OFFERED: "{cards} offered to {agent} for '{title}'",
    EventKind.LEASE_DELIVERED: "the offer of {cards} reached {agent} {way}",
    EventKind.LEASE_ACCEPTED: "{agent} accepted {cards}",
    EventKind.LEASE_EXTENDED: "{agent} extended by {minutes} min: {reason}",
    EventKind.LEASE_RELEASED: "{agent} released {cards}",
    EventKind.LEASE_EXPIRED: "the lease of {agent} on {cards} expired in silence",
    EventKind.LEASE_SHORTENED: "the clock was set back by {by}: the lease of {agent} on {cards} has its usual time from now",
    EventKind.LEASE_LAPSED: "the offer of {cards} to {agent} lapsed",
    EventKind.LEASE_WITHDRAWN: "{agent} gave the offer of {cards} back",
    EventKind.LEASE_FORCED: "{by} ended {lease} of {agent} on {cards}: {reason}",
    EventKind.LEASE_KILL_ASKED: "{agent} has {host} end the processes of {lease} ({holder}) on {cards}: {reason}",
    EventKind.LEASE_KILLED: "{host} on the processes of {lease} ({holder}): {result}",
    EventKind.TASK_CREATED: "{agent} created '{title}'",
    EventKind.TASK_PROMOTED: "{agent} promoted the idea '{title}' to a task",
    EventKind.TASK_UPDATED: "{agent} changed {fields} of '{title}'",
    EventKind.TASK_COMMENTED: "{agent} commented on '{title}'",
    EventKind.TASK_CLAIMED: "{agent} claimed '{title}'",
    EventKind.TASK_DONE: "{agent} finished '{title}'",
    EventKind.TASK_FAILED: "'{title}' failed ({failure}), attempt {attempt}: {reason}",
    EventKind.TASK_RETRIED: "'{title}' may be tried again",
    EventKind.TASK_DEAD_LETTER: "'{title}' was given up after attempt {attempt} ({failure}): {reason}",
    EventKind.TASK_ESCALATED: "{agent} asks for help with '{title}'",
    EventKind.TASK_ANSWERED: "{agent} answered on '{title}'",
    EventKind.TASK_RESET: "{agent} put '{title}' back to be claimed again",
    EventKind.TASK_CANCELLED: "{agent} cancelled '{title}': {reason}",
    EventKind.TASK_SKIPPED: "{agent} lets the graph go on without '{title}': {reason}",
    EventKind.TASK_RETURNED: "'{title}' may be claimed by anybody again: {reason}",
    EventKind.TASK_UNBLOCKED: "{count} ready after {task}: {tasks}",
    EventKind.TASK_BLOCKED: "{count} blocked by {task}: {tasks}",
    EventKind.TASK_CLOSED: "{count} closed with {task}: {tasks}",
    EventKind.GRAPH_IMPORTED: "{agent} imported {count} tasks",
    EventKind.PROJECT_CREATED: "{agent} created the project '{title}'",
    EventKind.PROJECT_COMPLETED: "the project '{title}' has no open task left",
    EventKind.PROJECT_ARCHIVED: "{agent} archived the project '{title}'",
    EventKind.PROJECT_RESTORED: "{agent} brought the project '{title}' back",
    EventKind.MESSAGE_SENT: "{sender} wrote to {agent}",
    EventKind.CARD_FOUND: "{cards} found: {model}, {memory}",
    EventKind.CARD_MOVED: "what was {before} is {cards} now: the driver numbers its cards anew",
    EventKind.CARD_CONDITION: "{cards} is {condition}{detail}",
    EventKind.CARD_RULES: "{host} has other rules for {cards}: {before} → {after}",
    EventKind.CARD_DRAINED: "{agent} drains {cards}: {reason}",
    EventKind.CARD_UNDRAINED: "{agent} put {cards} back in service",
    EventKind.CARD_XID: "the driver told of {xids} on {cards}",
    EventKind.CARD_SUSPECTED: "{cards} is suspect: {reason}",
    EventKind.CARD_QUARANTINED: "{agent} quarantines {cards}: {reason}",
    EventKind.CARD_CLEARED: "{agent} cleared {cards} of its faults: it is back in service",
    EventKind.CARD_PROBE_ASKED: "{agent} has {host} probe {cards}",
    EventKind.CARD_PROBED: "the probe of {cards} that {agent} asked for: {result}",
    EventKind.RESERVATION_MADE: "{agent} reserved {cards} {window} ({reservation})",
    EventKind.RESERVATION_BEGUN: "{reservation} begins: {cards} is {agent}'s {window}",
    EventKind.RESERVATION_OVER: "{reservation} of {agent} on {cards} is over",
    EventKind.RESERVATION_GIVEN_UP: "{by} gave up {reservation} of {agent} on {cards}",
    EventKind.PROPOSAL_MADE: "{agent} proposes to {partner} ({proposal}): {terms}",
    EventKind.PROPOSAL_ACCEPTED: "{agent} agreed to {proposal} of {proposer}: {terms}",
    EventKind.PROPOSAL_DECLINED: "{agent} declined {proposal} of {proposer}: {reason}",
    EventKind.PROPOSAL_WITHDRAWN: "{agent} withdrew {proposal} of {proposer}",
    EventKind.PROPOSAL_LAPSED: "{proposal} of {proposer} to {partner} lapsed",
    EventKind.PROPOSAL_DUE: "{proposal} is due: {terms}",
    EventKind.PROPOSAL_KEPT: "{proposal} was kept: {terms}",
    EventKind.PROPOSAL_BROKEN: "{proposal} was not kept in time: {terms}",
    EventKind.ERRAND_LAPSED: "{host} did not answer in time: {errand}, which {agent} asked for, was not seen to",
    EventKind.HOST_FOUND: "host {host} reported for the first time",
    EventKind.HOST_SILENT: "host {host} has been silent for {silent}: nothing is granted there",
    EventKind.HOST_BACK: "host {host} is back",
    EventKind.SESSION_STARTED: "{agent} started a session",
    EventKind.SESSION_SILENT: "{agent} has been silent for {silent} and holds {leases}",
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
