"""loom-agents through its own code: its store functions, and the loop of tools that it tells agents to run.

Run by the peers' Python: `store DSN REDIS TASKS WORKERS SECONDS`, or `loop DSN REDIS LAYERS WIDTH WORKERS SECONDS`.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import asyncpg
import redis.asyncio as redis
import uvloop
from loom.config import LoomConfig
from loom.db.migrations import run_migrations
from loom.exceptions import LoomError
from loom.graph import cache, store
from loom.graph.project import create_project
from loom.mcp import tools
from loom.mcp.server import AppContext

_TASKS = """
insert into tasks (id, project_id, title, status)
select 'loom-' || lpad(to_hex(n), 8, '0'), $1::uuid, 'task ' || n, case when n < $3::int then 'pending' else 'blocked' end
from generate_series(0, $2::int - 1) as n
"""
_EDGES = """
insert into task_deps (task_id, depends_on)
select 'loom-' || lpad(to_hex(n), 8, '0'), 'loom-' || lpad(to_hex(n - $2::int - n % $2 + (n + step) % $2), 8, '0')
from generate_series($2::int, $1::int - 1) as n, generate_series(0, 1) as step
"""


async def open_project(dsn: str, redis_url: str) -> tuple[Any, Any, str]:
    pool = await asyncpg.create_pool(dsn, min_size=2, max_size=10)  # its own defaults
    await run_migrations(pool)
    client = redis.from_url(redis_url, decode_responses=True)
    project = await create_project(pool, "bench")
    return pool, client, str(project["id"])


async def settle(pool: Any) -> None:
    await pool.execute("vacuum (analyze, freeze) tasks")
    await pool.execute("analyze task_deps")
    await pool.execute("checkpoint")


async def repeat(workers: int, seconds: float, step: Callable[[int], Awaitable[int]]) -> float:
    """Return the tasks per second of `workers`, each of which repeats the step; -1 ends one, 0 is a lost race."""
    count, start, last = 0, time.perf_counter(), time.perf_counter()

    async def work(number: int) -> None:
        nonlocal count, last
        while time.perf_counter() < start + seconds and (done := await step(number)) >= 0:
            if done:
                count += done
                last = time.perf_counter()

    await asyncio.gather(*(work(number) for number in range(workers)))
    return count / max(last - start, 1e-9)


async def run_store(dsn: str, redis_url: str, tasks: int, workers: int, seconds: float) -> float:
    """Claim and complete by number: every worker has tasks of its own, so that none loses a race."""
    pool, client, project = await open_project(dsn, redis_url)
    await pool.execute(_TASKS, project, tasks, tasks)
    await settle(pool)
    numbers = iter(range(tasks))

    async def step(number: int) -> int:
        task = f"loom-{next(numbers):08x}"
        await store.claim_task(pool, task, f"agent-{number}", ttl_seconds=1800)
        await store.complete_task(pool, task, {})
        return 1

    rate = await repeat(workers, seconds, step)
    await client.aclose()
    await pool.close()
    return rate


async def run_loop(dsn: str, redis_url: str, layers: int, width: int, workers: int, seconds: float) -> float:
    """Drain a graph of layers with the loop its agents are told to run: ready, claim the first, done."""
    pool, client, project = await open_project(dsn, redis_url)
    await pool.execute(_TASKS, project, layers * width, width)
    await pool.execute(_EDGES, layers * width, width)
    await settle(pool)
    await cache.rebuild_cache(client, pool, project)
    app = AppContext(pool=pool, redis=client, project_id=project, config=LoomConfig())
    context = SimpleNamespace(request_context=SimpleNamespace(lifespan_context=app))

    async def step(number: int) -> int:
        listed = (await _tool("loom_ready")(context, limit=10))["tasks"]
        if not listed:
            return -1
        task = listed[0]["id"]
        try:
            await _tool("loom_claim")(context, task_id=task, agent_id=f"agent-{number}")
            await _tool("loom_done")(context, task_id=task, output={})
        except LoomError:
            return 0
        return 1

    rate = await repeat(workers, seconds, step)
    await client.aclose()
    await pool.close()
    return rate


def _tool(name: str) -> Any:
    tool = getattr(tools, name)
    return tool if asyncio.iscoroutinefunction(tool) else tool.fn


async def main(scenario: str, dsn: str, redis_url: str, numbers: list[str]) -> None:
    logging.disable(logging.WARNING)
    *whole, seconds = numbers
    run: Any = {"store": run_store, "loop": run_loop}[scenario]
    print(json.dumps({"per_second": await run(dsn, redis_url, *map(int, whole), float(seconds))}))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
