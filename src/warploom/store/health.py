"""What `doctor` asks Postgres about itself."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, LiteralString

from warploom.store.database import Connection

_FACTS: Final[LiteralString] = """
select split_part(current_setting('server_version'), ' ', 1) as version,
  oldest.age, oldest.pid,
  (select count(*) from task where state = 'ready' and need_count > 0 and session_id is not null
    and exists (select from queue where task_id = task.id)) as waiting,
  (select count(*) from task where state = 'ready' and need_count > 0 and session_id is not null
    and not exists (select from queue where task_id = task.id)) as strays
from (select 1) as one
left join lateral (
  select clock_timestamp() - xact_start as age, pid from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
  order by xact_start limit 1
) as oldest on true
"""


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """The server's version, its oldest transaction, how many tickets wait and how many stand in no queue."""

    version: str
    oldest_transaction: timedelta | None
    oldest_pid: int | None
    waiting: int
    strays: int


async def read_facts(conn: Connection) -> DatabaseFacts:
    """Read the facts in one statement."""
    row = await conn.fetchrow(_FACTS)
    assert row is not None
    return DatabaseFacts(row["version"], row["age"], row["pid"], row["waiting"], row["strays"])
