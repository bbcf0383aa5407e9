"""Claiming and finishing beside the queues of others: procrastinate, loom-agents' store, and pgqueuer in batches."""

import asyncio
from collections.abc import AsyncIterator

from benchmarks.lines import Line, median_of, rate
from benchmarks.peer import measure_peer
from benchmarks.rows import fill_tasks
from benchmarks.services import Services
from benchmarks.workers import Step, own_pair, tasks_per_second
from warploom.app import App
from warploom.domain.identifiers import parse_lease, parse_task
from warploom.domain.sessions import Actor

READY = 100_000
WORKERS = 8
SECONDS = 3.0
DRAINED = 30_000
BATCHES = (10, 100)


async def measure(services: Services) -> AsyncIterator[Line]:
    """Each peer drains its own table of the same size with its own code, right before or after Warploom drains its."""
    actors = await fill_tasks(services.dsn, READY)
    async with services.app() as app:
        steps = [own_pair(app, actor) for actor in actors[:WORKERS]]
        before = await tasks_per_second(steps, SECONDS)
        procrastinate = await measure_peer(
            "procrastinate_jobs", await services.database("procrastinate"), READY, WORKERS, SECONDS
        )
        between = await tasks_per_second(steps, SECONDS)
        loom = await measure_peer(
            "loom_agents", "store", await services.database("loom"), services.redis_url, READY, WORKERS, SECONDS
        )
        after = await tasks_per_second(steps, SECONDS)
        own = median_of([before, between, after])
        name = f"claim + complete, {WORKERS} workers, {READY:,} ready"
        yield rate(name, own, procrastinate, f"procrastinate, {WORKERS} at once", 4)
        yield rate(name, own, loom, f"loom-agents' store, {WORKERS} workers", 1.5)
        for size in BATCHES:
            peer = await measure_peer("pgqueuer_jobs", await services.database("pgqueuer"), DRAINED, size)
            batching = [_batch(app, actor, size) for actor in actors[:WORKERS]]
            own = await tasks_per_second(batching, SECONDS)
            yield rate(
                f"claim + complete, {WORKERS} workers, batches of {size}",
                own,
                peer,
                f"pgqueuer, one process, batch {size}",
                1,
            )


def _batch(app: App, actor: Actor, size: int) -> Step:
    """Claim `size` tasks at once, and finish all of them at the same moment."""

    async def step() -> int:
        claims = (await app.claims.claim(actor, count=size)).claims
        await asyncio.gather(
            *(app.claims.done(actor, parse_task(claim.task.task), parse_lease(claim.lease)) for claim in claims)
        )
        return len(claims)

    return step
