"""Agents that drain one graph: each claims what is ready, finishes it, and waits when nothing is."""

import asyncio
import time
from collections.abc import AsyncIterator

import asyncpg

from benchmarks.lines import Line, rate
from benchmarks.peer import measure_peer
from benchmarks.rows import empty, make_actors, settle
from benchmarks.services import Services
from warploom.app import App
from warploom.domain.identifiers import parse_lease, parse_task
from warploom.domain.sessions import Actor

LAYERS, WIDTH = 10, 300
AGENTS = (1, 8, 32)
SECONDS = 10.0

_TASKS = """
insert into task (project_id, kind, state, title, unmet, fingerprint, ready_at, order_key)
select 1, 'work', 'ready', 'task ' || n, 0, gen_random_uuid(), clock_now(), clock_now() + n * interval '1 microsecond'
from generate_series(0, $1::int - 1) as n
"""
# Every task of a layer waits for two of the layer before.
_EDGES = """
with node as (select id, row_number() over (order by id) - 1 as n from task)
insert into dependency (task_id, upstream_id)
select node.id, upstream.id
from node
cross join generate_series(0, 1) as step
join node as upstream on upstream.n = node.n - $1::int - node.n % $1 + (node.n + step) % $1
where node.n >= $1
"""


async def measure(services: Services) -> AsyncIterator[Line]:
    """One server process with its default pool and a real Valkey, and more and more agents on the same graph."""
    rates: dict[int, float] = {}
    for agents in AGENTS:
        rates[agents] = await _drain(services, agents)
        if agents > 1:
            yield rate(f"{agents} agents drain one graph", rates[agents], rates[1], "1 agent on the same graph", 1)
    peer = await measure_peer(
        "loom_agents",
        *("loop", await services.database("loom"), services.redis_url),
        *(LAYERS, WIDTH, AGENTS[-1], SECONDS),
    )
    yield rate(f"{AGENTS[-1]} agents drain one graph", rates[32], peer, f"loom-agents, {AGENTS[-1]} agents", 50)


async def _drain(services: Services, agents: int) -> float:
    conn = await asyncpg.connect(services.dsn)
    actors = await make_actors(conn)
    await empty(conn)
    await conn.execute(_TASKS, LAYERS * WIDTH)
    await conn.execute(_EDGES, WIDTH)
    await settle(conn, "task")
    await conn.close()
    async with services.app() as app:
        start = time.perf_counter()
        end = start + SECONDS
        drained = await asyncio.gather(*(_work(app, actor, end) for actor in actors[:agents]))
    return sum(count for count, _ in drained) / (max(last for _, last in drained) - start)


async def _work(app: App, actor: Actor, end: float) -> tuple[int, float]:
    """Work until the graph is done or the time is over; return how many tasks, and when the last one was finished."""
    count, last = 0, time.perf_counter()
    while time.perf_counter() < end:
        claims = (await app.claims.claim(actor)).claims
        for claim in claims:
            await app.claims.done(actor, parse_task(claim.task.task), parse_lease(claim.lease))
            count, last = count + 1, time.perf_counter()
        if not claims and not (await app.tasks.wait_ready(actor, 0.5)).tasks:
            return count, last
    return count, last
