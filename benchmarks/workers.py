"""Workers that repeat one step side by side in one process, and how many tasks a second come of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from benchmarks.lines import median_of
from warploom.app import App
from warploom.domain.identifiers import parse_lease, parse_task
from warploom.domain.sessions import Actor

Step = Callable[[], Awaitable[int]]
"""Does the work of some tasks and returns how many; 0 when there is nothing left."""

SECONDS = 1.0
POOL_SIZE = 10

_CLAIM = """
update jobs set state = 'running', owner = $1, lease_until = now() + interval '30 s', attempt = attempt + 1
where id = (select id from jobs where state = 'ready' order by priority desc, id for update skip locked limit 1)
returning id
"""
_DONE = """
update jobs set state = 'done', lease_until = null where id = $1 and owner = $2 and state = 'running' returning id
"""


async def tasks_per_second(steps: Sequence[Step], seconds: float = SECONDS) -> float:
    """Let every worker repeat its step for `seconds`, or until nothing is left."""
    count, start, last = 0, time.perf_counter(), 0.0
    end = start + seconds

    async def work(step: Step) -> None:
        nonlocal count, last
        while time.perf_counter() < end and (done := await step()):
            count += done
            last = time.perf_counter()

    await asyncio.gather(*map(work, steps))
    return count / (last - start)


class Rounds:
    """Two things measured in turns, so that what else runs on the machine meets both; the median round of each."""

    def __init__(self, own: Sequence[Step], floor: Sequence[Step]) -> None:
        self._steps = (own, floor)
        self._rates: tuple[list[float], list[float]] = ([], [])

    async def run(self, seconds: float = SECONDS) -> None:
        for steps, rates in zip(self._steps, self._rates, strict=True):
            rates.append(await tasks_per_second(steps, seconds))

    @property
    def own(self) -> float:
        return median_of(self._rates[0])

    @property
    def floor(self) -> float:
        return median_of(self._rates[1])


@asynccontextmanager
async def bare_pool(dsn: str) -> AsyncIterator[Any]:
    """Open a pool of the size of a server's for the floor; like Warploom's it resets nothing between uses."""

    async def keep(_conn: Any) -> None: ...

    async with asyncpg.create_pool(dsn, min_size=1, max_size=POOL_SIZE, reset=keep) as pool:
        yield pool


def own_claim(app: App, actor: Actor) -> Step:
    async def step() -> int:
        return len((await app.claims.claim(actor)).claims)

    return step


def own_pair(app: App, actor: Actor) -> Step:
    """Claim one task and finish it."""

    async def step() -> int:
        claims = (await app.claims.claim(actor)).claims
        for claim in claims:
            await app.claims.done(actor, parse_task(claim.task.task), parse_lease(claim.lease))
        return len(claims)

    return step


def bare_claim(pool: Any, owner: str) -> Step:
    async def step() -> int:
        async with pool.acquire() as conn:
            return 1 if await conn.fetchval(_CLAIM, owner) else 0

    return step


def bare_pair(pool: Any, owner: str) -> Step:
    """Claim one row and finish it: two statements."""

    async def step() -> int:
        async with pool.acquire() as conn:
            job = await conn.fetchval(_CLAIM, owner)
        if job is None:
            return 0
        async with pool.acquire() as conn:
            return 1 if await conn.fetchval(_DONE, job, owner) else 0

    return step
