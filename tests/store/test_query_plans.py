import re
from collections.abc import AsyncGenerator, Generator

import asyncpg
import pytest

from support.databases import Postgres
from support.rows import Sql
from warploom.store import (
    cards,
    claims,
    convoys,
    errands,
    events,
    graphs,
    hosts,
    leases,
    messages,
    plans,
    projects,
    promises,
    proposals,
    queues,
    repairs,
    reservations,
    runs,
    sessions,
    task_lists,
    tasks,
    tickets,
)
from warploom.store.database import PLANNING

GROWING = (
    "task",
    "dependency",
    "queue",
    "lease",
    "lease_card",
    "session",
    "heartbeat",
    "event",
    "progress",
    "message",
    "reservation",
    "errand",
    "proposal",
    "run",
    "promise",
)
HOT = {
    "queues heads": queues._HEADS,
    "queues places": queues._PLACES,
    "queues lengths": queues._LENGTHS,
    "queues total": queues._TOTAL,
    "queues grant": queues._GRANT,
    "queues work": queues._WORK,
    "queues widen": queues._WIDEN,
    "tickets get": tickets._GET,
    "tickets open": tickets._OPEN_OF_AGENT,
    "tickets find": tickets._FIND,
    "tickets enqueue": tickets._ENQUEUE,
    "tickets dequeue": tickets._DEQUEUE,
    "tickets strays": tickets._STRAYS,
    "tickets not waiting": tickets._NOT_WAITING,
    "leases get": leases._GET,
    "leases accept": leases._ACCEPT,
    "leases renew": leases._RENEW,
    "leases report": leases._REPORT,
    "leases lock cards": leases._LOCK_CARDS,
    "leases end": leases._END,
    "leases due": leases._DUE,
    "leases shorten": leases._SHORTEN,
    "leases seen": leases._SEEN,
    "leases fate": leases._FATE,
    "sessions touch": sessions._TOUCH,
    "sessions notices": sessions._READ_NOTICES,
    "cards read": cards._READ,
    "runs latest": runs._LATEST,
    "reservations open": reservations._OPEN,
    "reservations count": reservations._COUNT,
    "reservations due": reservations._DUE,
    "reservations begin": reservations._BEGIN,
    "reservations end": reservations._END,
    "reservations of cards": reservations._OF_CARDS,
    "proposals of agent": proposals._OF_AGENT,
    "proposals open": proposals._OPEN,
    "proposals of lease": proposals._OF_LEASE,
    "proposals count open": proposals._COUNT_OPEN,
    "proposals count lately": proposals._COUNT_LATELY,
    "proposals any due": proposals._ANY_DUE,
    "proposals turn": proposals._TURN,
    "proposals waiting": proposals._WAITING,
    "proposals twin": proposals._TWIN,
    "proposals between": proposals._BETWEEN,
    "proposals prune": proposals._PRUNE,
    "hosts leases": hosts._LEASES,
    "hosts sessions": hosts._SESSIONS,
    "errands open": errands._OPEN,
    "errands take": errands._TAKE,
    "errands lapse": errands._LAPSE,
    "events after": events._AFTER,
    "events latest": events._LATEST,
    "events last": events._LAST,
    "messages unread": messages._UNREAD,
    "messages heard": messages._HEARD,
    "promises start": promises._START,
    "promises records": promises._RECORDS,
    "projects busy": projects._BUSY,
    "projects progress": projects._PROGRESS,
    "graphs whole": graphs._WHOLE,
    "graphs near": graphs._NEAR,
    "graphs edges": graphs._EDGES,
    "graphs in the way": graphs._IN_THE_WAY,
    "graphs head": graphs._HEAD,
    "graphs open edges": graphs._OPEN_EDGES,
    "graphs standings": graphs._STANDINGS,
    "graphs question": graphs._QUESTION,
    "graphs holders": graphs._HOLDERS,
    "graphs obstacles": graphs._OBSTACLES,
    "plans neighbours": plans._NEIGHBOURS,
    "task lists ready": task_lists._READY,
    "task lists find": task_lists._FIND,
    "task lists lines": task_lists._LINES,
    "task lists held": task_lists._HELD,
    "tasks get": tasks._GET,
    "tasks same": tasks._FIND_SAME,
    "repairs retry due": repairs._RETRY_DUE,
    "repairs close epics": repairs._CLOSE_EPICS,
    "repairs silent": repairs._SILENT,
    "repairs complete projects": repairs._COMPLETE_PROJECTS,
    "repairs claimed": repairs._CLAIMED,
    "repairs escalations": repairs._ESCALATIONS,
    "claims next": claims._CLAIM_NEXT,
    "claims these": claims._CLAIM_THESE,
    "claims done": claims._DONE,
    "claims done with result": claims._DONE_WITH_RESULT,
    "convoys claim": convoys._CLAIM,
    "convoys finish": convoys._FINISH,
}

FILL = """
insert into agent (name) select 'agent-' || n from generate_series(1, 20000) as n;
insert into session (agent_id, project_id, key, host_name, pid, process_started)
select id, 1, 'process:local:' || id || ':7', 'local', id, 7 from agent;
insert into heartbeat (session_id, seen_at) select id, now() from session;
insert into host (name, provider, version, survey_seconds, surveyed_at)
select 'host-' || n, 'lab', '0', 2, now() from generate_series(1, 4) as n;
insert into card (host_id, uuid, index, model, memory_mib, condition, condition_since, observed_at)
select host.id, 'GPU-' || host.id || '-' || n, n, 'H200', 144384, 'clear', now(), now() from host, generate_series(0, 7) as n;
insert into task (project_id, kind, state, title, purpose, agent_id, session_id, need_count, ready_at, order_key, finished_at)
select 1, 'gpu', 'done', 'old ' || n, 'old ' || n, 1 + n % 20000, 1 + n % 20000, 1, now(), now(), now()
from generate_series(1, 30000) as n;
insert into lease (task_id, session_id, agent_id, state, accepted_at, expires_at, ended_at, ended)
select id, session_id, agent_id, 'ended', now(), now(), now(), 'released' from task;
insert into lease_card (lease_id, card_id, live) select id, 1 + id % 32, false from lease;
insert into progress (lease_id, step, reported_at) select id, 1, now() from lease;
insert into task (project_id, kind, state, title, purpose, agent_id, session_id, need_count, ready_at, order_key)
select 1, 'gpu', 'ready', 'new ' || n, 'new ' || n, 1 + n % 20000, 1 + n % 20000, 1, now(), now() + n * interval '1 second'
from generate_series(1, 4000) as n;
insert into queue (card_id, order_key, task_id) select 1 + id % 32, order_key, id from task where state = 'ready';
insert into task (project_id, kind, state, title, ready_at, order_key)
select 1, 'work', 'ready', 'work ' || n, now(), now() + n * interval '1 second' from generate_series(1, 60000) as n;
insert into task (project_id, kind, state, title, ready_at, order_key, retry_at, failure, finished_at)
select 1, 'work', 'failed', 'again ' || n, now(), now(), now(), 'unknown', now() from generate_series(1, 20000) as n;
insert into dependency (task_id, upstream_id)
select n, n - far from generate_series(4, 30000) as n, generate_series(1, 3) as far;
insert into event (kind, session_id, task_id) select 'lease.granted', 1 + n % 20000, n from generate_series(1, 20000) as n;
insert into message (agent_id, session_id, sender, body, read_at) select agent_id, id, 'warploom', 'missed', now() from session;
insert into reservation (card_id, agent_id, starts_at, ends_at, begun_at, over_at)
select 1 + n % 32, 1 + n % 20000, now() - n * interval '2 hours', now() - n * interval '2 hours' + interval '1 hour', now(), now()
from generate_series(1, 20000) as n;
insert into errand (host_id, kind, lease_id, asked_by, expires_at, answered_at, outcome)
select 1 + id % 4, 'kill', id, 'ada', now(), now(), '{}' from lease;
insert into proposal (
  kind, state, project_id, proposer_id, partner_id, lease_id, task_id, at_step, reason, expires_at, answered_at, closed_at
)
select 'release_at_step', 'kept', 1, lease.agent_id, 1 + lease.agent_id % 20000, lease.id, lease.task_id, 5, 'x',
  now() + interval '1 hour', now(), now()
from lease;
insert into run (lease_id, project_id, job, model, length, ended_at)
select id, 1, 'job ' || id % 50, 'H200', interval '20 minutes', now() - id * interval '1 minute' from lease;
insert into promise (task_id, lease_id, word, promised_at, p50, p90, came_at)
select task_id, case when id % 2 = 0 then id end, 'declared', now() - id * interval '1 minute', now(), now(),
  case when id % 10 <> 1 then now() - id * interval '1 minute' end
from lease;
vacuum analyze;
"""


CLAIM_ALL = """
begin;
insert into agent (name) values ('agent');
insert into session (agent_id, project_id, key) select id, 1, 'named:agent' from agent;
insert into task (project_id, kind, state, title, ready_at, order_key)
select 1, 'work', 'ready', 'work ' || n, now(), now() from generate_series(1, 50) as n;
insert into lease (task_id, session_id, agent_id, state, accepted_at, expires_at)
select id, 1, 1, 'active', now(), now() from generate_series(1, 50) as id;
update task set state = 'claimed', lease_id = n, agent_id = 1, session_id = 1
from generate_series(1, 50) as n where task.id = n;
set constraints all immediate;
"""


YOUNG = """
insert into agent (name) values ('agent');
insert into session (agent_id, project_id, key) select id, 1, 'named:agent' from agent;
insert into task (project_id, kind, state, title, ready_at, order_key)
select 1, 'work', 'ready', 'work ' || n, now(), now() + n * interval '1 second' from generate_series(1, 30000) as n;
insert into lease (task_id, session_id, agent_id, state, accepted_at, expires_at, ended_at, ended)
select n, 1, 1, 'ended', now(), now(), now(), 'done' from generate_series(1, 5) as n;
vacuum analyze task, lease;
"""
"""A project that has just begun, analysed by autovacuum when only its very first tasks had been claimed."""


@pytest.fixture(scope="module", params=[FILL, YOUNG], ids=["full", "young"])
def full_url(postgres: Postgres, request: pytest.FixtureRequest) -> Generator[str]:
    with postgres.database() as url:
        postgres.run(fill(url, request.param))
        yield url


async def fill(url: str, rows: str) -> None:
    conn = await asyncpg.connect(url)
    for statement in rows.strip().strip(";").split(";\n"):
        await conn.execute(statement)
    await conn.close()


@pytest.fixture
async def full(full_url: str) -> AsyncGenerator[Sql]:
    conn = await asyncpg.connect(full_url)
    yield conn
    await conn.close()


@pytest.mark.parametrize("name", HOT)
async def test_a_hot_statement_reads_no_growing_table_whole(full: Sql, name: str) -> None:
    plan = await generic_plan(full, HOT[name])
    # An index that is read from end to end, to be merged with something, is the whole table too.
    read_whole = set(
        re.findall(r"Seq Scan on (\w+)|Scan using (?:\w+_pkey|task_id_lease_id_key) on (\w+).*\n(?! *Index Cond)", plan)
    )
    assert not {table for tables in read_whole for table in tables} & set(GROWING), plan
    assert "Sort Key: queue.order_key" not in plan, plan


async def generic_plan(conn: Sql, statement: str) -> str:
    """Return the plan that serves every value, as a pool's prepared statements come to use."""
    nulls = ", ".join(["null"] * len((await conn.prepare(statement)).get_parameters()))
    await conn.execute(PLANNING)
    await conn.execute(f"prepare hot as {statement}")
    rows = await conn.fetch(f"explain (costs off) execute hot{f'({nulls})' if nulls else ''}")
    return "\n".join(row[0] for row in rows)


async def test_the_head_of_a_queue_is_read_from_its_key_alone(full: Sql) -> None:
    await full.execute(PLANNING)
    plan = await full.fetch(
        "explain (costs off) select task_id from queue where card_id = 3 order by order_key, task_id limit 5"
    )
    assert [row[0].strip() for row in plan][:2] == ["Limit", "->  Index Only Scan using queue_pkey on queue"]


@pytest.mark.parametrize("statement", [claims._CLAIM_NEXT, convoys._CLAIM], ids=["alone", "together"])
async def test_the_next_task_is_looked_for_from_the_watermark_on(full: Sql, statement: str) -> None:
    plan = await generic_plan(full, statement)
    assert re.search(r"Index Scan using task_plain on task.*\n *Index Cond: .*ROW\(order_key, id\) >= ", plan), plan
    assert "Sort Key: task" not in plan.partition("CTE first")[2].partition("CTE taken")[0], plan


async def test_what_guards_a_claim_reads_no_table_whole_that_was_empty_when_it_was_planned(database_url: str) -> None:
    conn = await asyncpg.connect(database_url)
    await conn.execute("vacuum analyze")
    await conn.execute(PLANNING)
    await conn.execute(CLAIM_ALL)
    whole = await conn.fetch("select relname from pg_stat_xact_user_tables where seq_scan > 0 order by relname")
    await conn.close()
    assert [row["relname"] for row in whole if row["relname"] in GROWING] == []
