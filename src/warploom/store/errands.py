"""Errands: asked for, handed to their host, and closed by its answer or by time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString

from warploom.domain.errands import ErrandKind, ErrandState, Fate, Outcome, ProcessFate
from warploom.domain.identifiers import CardId, ErrandId, HostId, LeaseId
from warploom.domain.processes import ProcessIdentity
from warploom.store.database import Connection, Record

_ASK: Final[LiteralString] = """
insert into errand (host_id, kind, lease_id, card_id, asked_by, reason, facts, expires_at)
values ($1, $2::text::errand_kind, $3, $4, $5, $6, $7, clock_now() + $8::interval)
on conflict do nothing
returning id
"""

_SAME: Final[LiteralString] = """
select id from errand where host_id = $1 and is_open and (lease_id = $2 or card_id = $3)
"""

_OPEN: Final[LiteralString] = """
select errand.id
from errand
join host on host.id = errand.host_id
where host.name = $1 and errand.is_open and errand.expires_at > clock_now() and errand.id <> all($2::bigint[])
order by errand.id
limit 20
"""

_TAKE: Final[LiteralString] = """
update errand set taken_at = coalesce(taken_at, clock_now())
where id = any($1::bigint[]) and is_open and expires_at > clock_now()
returning id, kind::text, lease_id, facts, (select card.uuid from card where card.id = errand.card_id) as uuid
"""

_READ: Final[LiteralString] = """
select errand.id, errand.host_id, host.name as host, errand.kind::text, errand.lease_id, errand.card_id, card.index,
  errand.asked_by, errand.reason, errand.asked_at, errand.taken_at, errand.answered_at, errand.outcome,
  errand.answered_at is null and (errand.lapsed_at is not null or errand.expires_at <= clock_now()) as is_lapsed
from errand
join host on host.id = errand.host_id
left join card on card.id = errand.card_id
where errand.id = $1
"""

_ANSWER: Final[LiteralString] = """
update errand set answered_at = clock_now(), outcome = $2, lapsed_at = null where id = $1 and answered_at is null returning id
"""

_LAPSE: Final[LiteralString] = """
update errand set lapsed_at = clock_now() where is_open and expires_at <= clock_now() returning id
"""

_SPARED: Final[LiteralString] = """
select session.pid, session.process_started
from session
left join heartbeat on heartbeat.session_id = session.id
where session.host_name = $1 and session.pid is not null
order by heartbeat.seen_at desc nulls last, session.id desc
limit $2
"""

_PRUNE: Final[LiteralString] = """
delete from errand where id in (
  select id from errand where not is_open and asked_at < clock_now() - $1::interval order by id limit $2
)
"""


@dataclass(frozen=True, slots=True)
class NewErrand:
    """An errand to ask for; `facts` are what its host has to know beside what it is about."""

    host: HostId
    kind: ErrandKind
    asked_by: str
    reason: str | None
    lease: LeaseId | None = None
    card: CardId | None = None
    facts: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TakenErrand:
    """An errand that was just handed to its host."""

    errand: ErrandId
    kind: ErrandKind
    lease: LeaseId | None
    uuid: str | None
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class KnownErrand:
    """An errand as the database has it."""

    errand: ErrandId
    host: HostId
    host_name: str
    kind: ErrandKind
    lease: LeaseId | None
    card: CardId | None
    card_name: str | None
    asked_by: str
    reason: str | None
    asked_at: datetime
    state: ErrandState
    outcome: Outcome | None


async def ask(conn: Connection, new: NewErrand, lapse_time: timedelta) -> ErrandId | None:
    """Insert an errand; None when the same is asked of that host already and not done yet: `find_same` has it."""
    return await conn.fetchval(
        _ASK,
        new.host,
        new.kind.value,
        new.lease,
        new.card,
        new.asked_by,
        new.reason,
        new.facts or {},
        lapse_time,
    )


async def find_same(conn: Connection, new: NewErrand) -> ErrandId | None:
    """Return the open errand that keeps this one from being asked for."""
    return await conn.fetchval(_SAME, new.host, new.lease, new.card)


async def open_errands(conn: Connection, host: str, having: Sequence[ErrandId]) -> list[ErrandId]:
    """List the errands that a host is to do and does not have in hand, oldest first; a few at a time."""
    return [ErrandId(row["id"]) for row in await conn.fetch(_OPEN, host, list(having))]


async def take(conn: Connection, errands: Sequence[ErrandId]) -> list[TakenErrand]:
    """Note that their host has been told of these errands, and return what it has to know; those closed meanwhile are left out."""
    return [
        TakenErrand(
            ErrandId(row["id"]),
            ErrandKind(row["kind"]),
            None if row["lease_id"] is None else LeaseId(row["lease_id"]),
            row["uuid"],
            row["facts"],
        )
        for row in await conn.fetch(_TAKE, list(errands))
    ]


async def read(conn: Connection, errand: ErrandId) -> KnownErrand | None:
    """Read an errand, or None when there never was one of that number."""
    row = await conn.fetchrow(_READ, errand)
    return None if row is None else _known(row)


async def answer(conn: Connection, errand: ErrandId, outcome: Outcome) -> bool:
    """Close an errand with what came of it, even when it had lapsed; False when it was answered already."""
    return await conn.fetchval(_ANSWER, errand, _facts_of(outcome)) is not None


async def lapse_due(conn: Connection) -> list[ErrandId]:
    """Close the errands whose time is over; return them."""
    return [ErrandId(row["id"]) for row in await conn.fetch(_LAPSE)]


async def session_processes(conn: Connection, host: str, limit: int) -> list[ProcessIdentity]:
    """List the processes whose life is a session's on this host, those heard last first."""
    rows = await conn.fetch(_SPARED, host, limit)
    return [ProcessIdentity(row["pid"], row["process_started"]) for row in rows]


async def prune_errands(conn: Connection, age: timedelta, limit: int) -> int:
    """Forget closed errands older than `age`; return how many went."""
    return int((await conn.execute(_PRUNE, age, limit)).rpartition(" ")[2])


def _known(row: Record) -> KnownErrand:
    return KnownErrand(
        errand=ErrandId(row["id"]),
        host=HostId(row["host_id"]),
        host_name=row["host"],
        kind=ErrandKind(row["kind"]),
        lease=None if row["lease_id"] is None else LeaseId(row["lease_id"]),
        card=None if row["card_id"] is None else CardId(row["card_id"]),
        card_name=None if row["card_id"] is None else f"{row['host']}/{row['index']}",
        asked_by=row["asked_by"],
        reason=row["reason"],
        asked_at=row["asked_at"],
        state=_state(row),
        outcome=None if row["outcome"] is None else _outcome(row["outcome"]),
    )


def _state(row: Record) -> ErrandState:
    if row["answered_at"] is not None:
        return ErrandState.ANSWERED
    if row["is_lapsed"]:
        return ErrandState.LAPSED
    return ErrandState.ASKED if row["taken_at"] is None else ErrandState.TAKEN


def _facts_of(outcome: Outcome) -> dict[str, Any]:
    return {
        "processes": [
            {
                "pid": each.pid,
                "started": each.started,
                "fate": each.fate.value,
                "command": each.command,
                "user": each.user,
            }
            for each in outcome.processes
        ],
        "passed": outcome.passed,
        "text": outcome.text,
        "problem": outcome.problem,
        "followed": outcome.followed,
    }


def _outcome(facts: dict[str, Any]) -> Outcome:
    return Outcome(
        processes=[
            ProcessFate(each["pid"], each["started"], Fate(each["fate"]), each["command"], each["user"])
            for each in facts["processes"]
        ],
        passed=facts["passed"],
        text=facts["text"],
        problem=facts["problem"],
        followed=facts["followed"],
    )
