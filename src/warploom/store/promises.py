"""Promises: what was first foretold of starts and ends, to be compared with what came."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, LiteralString

from warploom.domain.calibrations import Foretold, SourceRecord
from warploom.domain.etas import EtaWord, Span
from warploom.domain.identifiers import LeaseId, TaskId
from warploom.store.database import Connection

_START: Final[LiteralString] = """
insert into promise (task_id, word, p50, p90)
select task.id, $2, $3, $4
from task
where task.id = $1 and task.state = 'ready'
  and not exists (select from promise where promise.task_id = $1 and promise.lease_id is null and promise.came_at is null)
on conflict do nothing
"""

_END: Final[LiteralString] = """
insert into promise (task_id, lease_id, word, p50, p90)
select $1, $2, word, p50, p90
from unnest($3::text[], $4::timestamptz[], $5::timestamptz[]) as foretold (word, p50, p90)
on conflict do nothing
"""

_RECORDS: Final[LiteralString] = """
with latest as (
  select lease_id is null as is_start, word, came_at, p50, p90
  from promise
  where came_at > clock_now() - $1::interval
  order by came_at desc
  limit $2
)
select is_start, word, count(*) as count,
  percentile_cont(0.5) within group (order by extract(epoch from came_at - p50)) / 60 as late_minutes,
  avg((came_at <= p50)::integer)::double precision as by_p50,
  avg((came_at <= p90)::integer)::double precision as by_p90
from latest
group by is_start, word
"""


async def promise_start(conn: Connection, task: TaskId, span: Span) -> None:
    """Store the first estimate of its start that a waiting ticket is told; one that is unknown promises nothing."""
    if span.is_known:
        await conn.execute(_START, task, span.word.value, span.p50, span.latest)


async def promise_end(conn: Connection, task: TaskId, lease: LeaseId, spans: Sequence[Span]) -> None:
    """Store the first estimate of its end that each source has for a run."""
    known = [span for span in spans if span.is_known]
    if known:
        words, middles, latest = zip(*((span.word.value, span.p50, span.latest) for span in known), strict=True)
        await conn.execute(_END, task, lease, words, middles, latest)


async def read_records(conn: Connection, window: timedelta, most: int) -> list[SourceRecord]:
    """Compare what was foretold with what came, for the latest `most` promises that came true within `window`."""
    rows = await conn.fetch(_RECORDS, window, most)
    return [
        SourceRecord(
            Foretold.START if row["is_start"] else Foretold.END,
            EtaWord(row["word"]),
            row["count"],
            round(row["late_minutes"], 2),
            round(row["by_p50"], 3),
            round(row["by_p90"], 3),
        )
        for row in rows
    ]
