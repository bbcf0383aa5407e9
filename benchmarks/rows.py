"""Rows to measure on: tasks of Warploom, and the bare table of the floors. Written in bulk, then vacuumed."""

from typing import Any

import asyncpg

from warploom.domain.callers import Role
from warploom.domain.identifiers import AgentId, ProjectId, SessionId
from warploom.domain.sessions import Actor

AGENTS = 32

BARE_TABLE = """
create table if not exists jobs (
  id bigint generated always as identity primary key,
  state text not null default 'ready',
  priority smallint not null default 0,
  owner text,
  lease_until timestamptz,
  attempt int not null default 0,
  payload jsonb not null default '{}'
) with (fillfactor = 85);
create index if not exists jobs_ready on jobs (priority desc, id) where state = 'ready';
"""

_AGENTS = """
insert into agent (name) select 'bench-' || n from generate_series(1, $1::int) as n on conflict do nothing
"""

_SESSIONS = """
insert into session (agent_id, project_id, key)
select agent.id, 1, 'named:' || agent.name from agent where agent.name like 'bench-%' on conflict do nothing
"""

_ACTORS = """
select session.id, session.agent_id, agent.name from session join agent on agent.id = session.agent_id
where agent.name like 'bench-%' order by session.id
"""

_TASKS = """
insert into task (project_id, kind, state, title, fingerprint, priority, creator_id, ready_at, order_key)
select 1, 'work', 'ready', 'task ' || n, gen_random_uuid(), 2, (select min(id) from agent),
  clock_now(), clock_now() + n * interval '1 microsecond'
from generate_series(1, $1::int) as n
"""


async def make_actors(conn: Any) -> list[Actor]:
    """Return one actor for each of `AGENTS` agents, with the session the services would make for it."""
    await conn.execute(_AGENTS, AGENTS)
    await conn.execute(_SESSIONS)
    return [
        Actor(SessionId(row["id"]), AgentId(row["agent_id"]), row["name"], ProjectId(1), Role.OPERATOR)
        for row in await conn.fetch(_ACTORS)
    ]


async def empty(conn: Any) -> None:
    """Take away every task, and whatever speaks of one."""
    await conn.execute("truncate task, lease, event cascade")


async def fill_tasks(dsn: str, count: int) -> list[Actor]:
    """Leave `count` ready tasks and nothing else in the graph; return who may claim them."""
    conn = await asyncpg.connect(dsn)
    try:
        actors = await make_actors(conn)
        await empty(conn)
        await conn.execute(_TASKS, count, timeout=300)
        await settle(conn, "task")
        return actors
    finally:
        await conn.close()


async def fill_bare(dsn: str, count: int) -> None:
    """Leave `count` ready rows in the floors' table."""
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute(BARE_TABLE)
        await conn.execute("truncate jobs")
        await conn.execute("insert into jobs (priority) select n % 5 from generate_series(1, $1::int) as n", count)
        await settle(conn, "jobs")
    finally:
        await conn.close()


async def settle(conn: Any, table: str) -> None:
    """Do now what Postgres would otherwise do while the clock runs."""
    await conn.execute(f"vacuum (analyze, freeze) {table}", timeout=300)
    await conn.execute("checkpoint", timeout=300)
