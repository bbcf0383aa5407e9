"""The ledger: what became of tickets, leases and cards, as a witness in the database saw it."""

from dataclasses import dataclass
from datetime import datetime

from support.invariants import ask

_LINES = """
select at, kind, task_id, lease_id, cards[1] as card from witness
where kind = any($1) and task_id is not null order by id
"""
_TICKETS = """
select task.id, agent.name, order_key, order_key is not distinct from ready_at - head_start as has_its_age
from task join agent on agent.id = task.agent_id where task.kind = 'gpu'
"""
QUEUED = "ticket.queued"
GRANTS = ("lease.granted", "lease.offered")
ENDS = ("lease.released", "lease.expired", "lease.lapsed", "lease.withdrawn")
LAPSED = "lease.lapsed"


@dataclass(frozen=True, slots=True)
class Line:
    """One event of a ticket on a card, in the order in which the card saw them; a Unix time."""

    at: float
    kind: str
    ticket: int
    lease: int
    card: str


@dataclass(frozen=True, slots=True)
class Ticket:
    """Whose a ticket is, and the age by which it stands in its queue, which must be that of its request."""

    agent: str
    age: datetime
    has_its_age: bool = True


@dataclass(frozen=True, slots=True)
class Ledger:
    """All lines, and all tickets by number."""

    lines: list[Line]
    tickets: dict[int, Ticket]


def read_ledger(url: str) -> Ledger:
    """Read it from a database in which a witness is installed."""
    rows = ask(url, _LINES, [QUEUED, *GRANTS, *ENDS])
    lines = [
        Line(row["at"].timestamp(), row["kind"], row["task_id"], row["lease_id"] or 0, row["card"]) for row in rows
    ]
    tickets = {row["id"]: Ticket(row["name"], row["order_key"], row["has_its_age"]) for row in ask(url, _TICKETS)}
    return Ledger(lines, tickets)
