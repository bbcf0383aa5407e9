"""Large graphs: a plan written whole, a very long chain, and a task that very many wait for."""

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg

from benchmarks.lines import Line
from benchmarks.rows import empty, make_actors, settle
from benchmarks.services import Services
from warploom.app import App
from warploom.domain.identifiers import parse_lease, parse_task
from warploom.domain.sessions import Actor

TASKS = 10_000
UPSTREAMS = 3
STEPS = 200
DEPENDENTS = 1_000
ROUNDS = 5

_ROWS = "select project_id, kind::text, state::text, title, unmet, key, fingerprint, ready_at from task"
_EDGES = "select task_id, upstream_id, waived from dependency"
_DEPENDENTS = """
insert into task (project_id, kind, state, title, fingerprint, ready_at, order_key)
select 1, 'work', 'ready', 'waiting ' || n, gen_random_uuid(), clock_now(), clock_now() from generate_series(1, $1::int) as n
returning id
"""
_WAIT = "insert into dependency (task_id, upstream_id) select unnest($1::bigint[]), $2"
_HOLD = "update task set state = 'pending', unmet = 1 where state = 'ready' returning id"
_UPDATE = """
update task set unmet = unmet - 1, state = 'ready', ready_at = clock_now(), order_key = clock_now() - head_start
where id = any($1::bigint[])
"""


async def measure(services: Services) -> AsyncIterator[Line]:
    async with services.app() as app:
        conn = await asyncpg.connect(services.dsn)
        try:
            (actor, *_) = await make_actors(conn)
            yield await _import(app, conn, actor)
            for line in await _chain(app, conn, actor):
                yield line
            yield await _fan_out(app, conn, actor)
        finally:
            await conn.close()


async def _import(app: App, conn: Any, actor: Actor) -> Line:
    plan = {"tasks": [_planned(number) for number in range(TASKS)]}
    edges = sum(len(task["depends_on"]) for task in plan["tasks"])
    seconds = await _median(lambda: _import_once(app, conn, actor, plan))
    floor = await _copy(conn)
    return Line(f"create {TASKS:,} tasks with {edges:,} edges", seconds, "s", floor, "COPY of the same rows", 1.5)


def _planned(number: int) -> dict[str, Any]:
    """Let each task depend on a few scattered ones before it."""
    upstreams = {(number * place * 7919 + place) % number for place in range(1, UPSTREAMS + 1)} if number else set()
    wanted = min(UPSTREAMS, number)
    upstreams |= set(range(max(0, number - wanted + len(upstreams)), number))
    return {
        "key": f"task-{number}",
        "title": f"task {number}",
        "depends_on": [f"task-{upstream}" for upstream in sorted(upstreams)],
    }


async def _import_once(app: App, conn: Any, actor: Actor, plan: dict[str, Any]) -> float:
    await empty(conn)
    start = time.perf_counter()
    await app.graphs.import_plan(actor, plan)
    return time.perf_counter() - start


async def _copy(conn: Any) -> float:
    """Write the rows of the imported plan once more, into tables without index, rule or trigger."""
    tasks, edges = await conn.fetch(_ROWS), await conn.fetch(_EDGES)
    await conn.execute(f"create table copied_task as {_ROWS} limit 0")
    await conn.execute(f"create table copied_dependency as {_EDGES} limit 0")

    async def once() -> float:
        start = time.perf_counter()
        async with conn.transaction():
            await conn.copy_records_to_table("copied_task", records=tasks)
            await conn.copy_records_to_table("copied_dependency", records=edges)
        return time.perf_counter() - start

    seconds = await _median(once)
    await conn.execute("drop table copied_task, copied_dependency")
    return seconds


async def _chain(app: App, conn: Any, actor: Actor) -> list[Line]:
    plan = {
        "tasks": [
            {"key": f"link-{number}", "title": f"link {number}", "depends_on": [f"link-{number - 1}"] if number else []}
            for number in range(TASKS)
        ]
    }
    seconds = await _import_once(app, conn, actor, plan)
    await settle(conn, "task")
    linked = await _steps(app, actor)
    await empty(conn)
    await conn.fetch(_DEPENDENTS, STEPS)
    await settle(conn, "task")
    loose = await _steps(app, actor)
    return [
        Line(f"create a chain of {TASKS:,} tasks", seconds, "s", None, "", 1.5),
        Line(
            f"claim + complete along it, first {STEPS}",
            linked,
            "ms",
            loose,
            "tasks that nothing waits for",
            2,
            by_ratio=True,
        ),
    ]


async def _steps(app: App, actor: Actor) -> float:
    """Return the median milliseconds of a claim and its completion."""
    spent: list[float] = []
    for _ in range(STEPS):
        start = time.perf_counter()
        (claim,) = (await app.claims.claim(actor)).claims
        await app.claims.done(actor, parse_task(claim.task.task), parse_lease(claim.lease))
        spent.append(time.perf_counter() - start)
    return statistics.median(spent) * 1e3


async def _fan_out(app: App, conn: Any, actor: Actor) -> Line:
    """Finish the one that a thousand wait for; the floor updates those rows and nothing else."""

    async def own() -> float:
        await empty(conn)
        (first, *others) = [row["id"] for row in await conn.fetch(_DEPENDENTS, DEPENDENTS + 1)]
        await conn.execute(_WAIT, others, first)
        await settle(conn, "task")
        (claim,) = (await app.claims.claim(actor)).claims
        start = time.perf_counter()
        await app.claims.done(actor, parse_task(claim.task.task), parse_lease(claim.lease))
        return time.perf_counter() - start

    async def floor() -> float:
        waiting = [row["id"] for row in await conn.fetch(_HOLD)]
        await settle(conn, "task")
        start = time.perf_counter()
        await conn.execute(_UPDATE, waiting)
        return time.perf_counter() - start

    finished = statistics.median([await own() for _ in range(ROUNDS)]) * 1e3
    updated = statistics.median([await floor() for _ in range(ROUNDS)]) * 1e3
    name = f"finish a task with {DEPENDENTS:,} dependents"
    return Line(name, finished, "ms", updated, f"one update of {DEPENDENTS:,} rows", 2, by_ratio=True)


async def _median(run: Callable[[], Awaitable[float]]) -> float:
    return statistics.median([await run() for _ in range(ROUNDS)])
