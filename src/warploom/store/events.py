"""The append-only log: written with each change, read in an order that never skips a late commit."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, LiteralString

from warploom.domain.events import EventKind, EventView, tell
from warploom.domain.identifiers import SessionId, lease_name, session_name, ticket_name
from warploom.store.database import Connection, Record

_INSERT: Final[LiteralString] = """
insert into event (kind, project_id, task_id, lease_id, session_id, host_id, card_ids, facts)
select kind, project_id, task_id, lease_id, session_id, host_id, coalesce(card_ids, '{}'), coalesce(facts, '{}')
from jsonb_to_recordset($1) as line (
  kind text, project_id bigint, task_id bigint, lease_id bigint, session_id bigint, host_id bigint,
  card_ids bigint[], facts jsonb
)
"""

_COLUMNS: Final[LiteralString] = """
  event.xid::text || '-' || event.id as cursor, event.at, event.kind, event.task_id, event.lease_id, event.session_id, event.facts
"""

# $3 names an agent: what it did, what became of what is its own, and what it wrote.
_OF_AGENT: Final[LiteralString] = """
($3::text is null or event.facts->>'agent' = $3 or event.facts->>'sender' = $3 or event.session_id in (
  select session.id from session join agent on agent.id = session.agent_id where agent.name = $3
))
"""

_AFTER: Final[LiteralString] = f"""
select {_COLUMNS}
from event
where (event.xid, event.id) > ($1::text::xid8, $2)
  and event.xid < pg_snapshot_xmin(pg_current_snapshot())
  and ($4::bigint is null or event.session_id = $4)
  and {_OF_AGENT}
order by event.xid, event.id
limit $5
"""

_LATEST: Final[LiteralString] = f"""
select * from (
  select {_COLUMNS}, event.xid as place, event.id as number
  from event
  where event.xid < pg_snapshot_xmin(pg_current_snapshot())
    and ($2::bigint is null or event.session_id = $2)
    and {_OF_AGENT}
  order by event.xid desc, event.id desc
  limit $1
) as latest
order by place, number
"""

_END: Final[LiteralString] = (
    "select (pg_snapshot_xmin(pg_current_snapshot())::text::numeric - 1)::text || '-9223372036854775807'"
)

_LAST: Final[LiteralString] = """
select xid::text || '-' || id from event
where xid < pg_snapshot_xmin(pg_current_snapshot())
order by xid desc, id desc
limit 1
"""

_CURSOR: Final = re.compile(r"([0-9]{1,19})-(-?[0-9]{1,19})", re.ASCII)

_PRUNE: Final[LiteralString] = """
delete from event
where (xid, id) in (select xid, id from event where at < clock_now() - $1::interval order by at limit $2)
"""


@dataclass(frozen=True, slots=True)
class About:
    """Which lines a reader wants: those of one session, or of one agent by name; by default all."""

    session: SessionId | None = None
    agent: str | None = None


EVERYTHING: Final = About()


async def insert_events(conn: Connection, lines: list[dict[str, Any]]) -> None:
    """Append lines to the log, in the transaction of the change they tell of."""
    await conn.execute(_INSERT, lines)


def _view(row: Record) -> EventView:
    kind, facts = EventKind(row["kind"]), row["facts"]
    return EventView(
        cursor=row["cursor"],
        at=row["at"],
        kind=kind,
        text=tell(kind, facts),
        ticket=ticket_name(row["task_id"]) if row["task_id"] else None,
        lease=lease_name(row["lease_id"]) if row["lease_id"] else None,
        session=session_name(row["session_id"]) if row["session_id"] else None,
        cards=facts["cards"].split(", ") if facts.get("cards") else None,
        host=facts.get("host"),
    )


def parse_cursor(text: str) -> tuple[str, int] | None:
    """Read a cursor such as '812-3301', or None when it is not one."""
    found = _CURSOR.fullmatch(text)
    if found is None or not -(2**63) <= int(found[2]) < 2**63:
        return None
    return found[1], int(found[2])


async def events_after(
    conn: Connection, cursor: tuple[str, int], limit: int, about: About = EVERYTHING
) -> list[EventView]:
    """Read the lines right after `cursor`, oldest first, stopping before the oldest transaction that still runs."""
    return [_view(row) for row in await conn.fetch(_AFTER, cursor[0], cursor[1], about.agent, about.session, limit)]


async def latest_events(conn: Connection, limit: int, about: About = EVERYTHING) -> list[EventView]:
    """Read the newest lines, oldest of them first."""
    return [_view(row) for row in await conn.fetch(_LATEST, limit, about.session, about.agent)]


async def end_of_log(conn: Connection) -> str:
    """Return the cursor behind which only later commits come."""
    return str(await conn.fetchval(_END))


async def last_cursor(conn: Connection) -> str | None:
    """Return the cursor of the last line that readers may see; None in an empty log."""
    return await conn.fetchval(_LAST)


async def prune_events(conn: Connection, age: timedelta, limit: int) -> int:
    """Delete up to `limit` lines older than `age`; return how many went."""
    return int((await conn.execute(_PRUNE, age, limit)).rpartition(" ")[2])
