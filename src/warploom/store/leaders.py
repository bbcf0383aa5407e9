"""Who does the orchestrator's duties: one row that expires, never a session lock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString

from warploom.store.database import Connection

_TAKE: Final[LiteralString] = """
insert into leader (name, holder, taken_at, expires_at)
values ($1, $2, clock_now(), clock_now() + $3::interval)
on conflict (name) do update
set holder = excluded.holder, expires_at = excluded.expires_at,
  taken_at = case when leader.holder = excluded.holder then leader.taken_at else excluded.taken_at end
where leader.holder = excluded.holder or leader.expires_at <= clock_now()
  or leader.expires_at > clock_now() + 2 * $3::interval
returning holder
"""

_UNLED: Final[LiteralString] = """
select greatest(clock_now() - expires_at, interval '0') from leader where name = $1
"""


@dataclass(frozen=True, slots=True)
class Leader:
    """The present leader and whether its time has run out."""

    holder: str
    taken_at: datetime
    is_current: bool


async def take_lead(conn: Connection, name: str, holder: str, span: timedelta) -> bool:
    """Become or stay the leader for `span`; False while somebody else is.

    A lead that has more than twice that left was taken before the clock was set back, and its leader may be long gone.
    """
    return await conn.fetchval(_TAKE, name, holder, span) is not None


async def unled_for(conn: Connection, name: str) -> timedelta:
    """Return for how long nobody has led; zero while somebody does, and when nobody ever did."""
    return await conn.fetchval(_UNLED, name) or timedelta(0)


async def give_lead_up(conn: Connection, name: str, holder: str) -> None:
    """Step down at once, so that another replica need not wait."""
    await conn.execute("update leader set expires_at = clock_now() where name = $1 and holder = $2", name, holder)


async def read_leader(conn: Connection, name: str) -> Leader | None:
    """Read who leads, or None when nobody ever did."""
    row = await conn.fetchrow(
        "select holder, taken_at, expires_at > clock_now() as is_current from leader where name = $1", name
    )
    return Leader(row["holder"], row["taken_at"], row["is_current"]) if row else None
