"""Claiming while a session keeps an old snapshot open, so that Postgres can tidy nothing away."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import asyncpg

from benchmarks.lines import Line, median_of, rate
from benchmarks.rows import fill_tasks
from benchmarks.services import Services
from benchmarks.workers import own_pair, tasks_per_second

READY = 100_000
CLAIMED = 20_000
WORKERS = 8
SECONDS = 1.5
ROUNDS = 3
_AT_ONCE = 500


async def measure(services: Services) -> AsyncIterator[Line]:
    """Claim 20,000 tasks with and without the snapshot, then measure claims and completions behind them."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for is_held, measured in rates.items():
            measured.append(await _behind_claims(services, is_held=is_held))
    held, without = median_of(rates[True]), median_of(rates[False])
    name = f"claim + complete after {CLAIMED:,}, old snapshot open"
    yield rate(name, held, without, "itself without the snapshot", 0.5)


async def _behind_claims(services: Services, *, is_held: bool) -> float:
    actors = await fill_tasks(services.dsn, READY)
    async with AsyncExitStack() as stack:
        if is_held:
            await _hold_snapshot(services.dsn, stack)
        app = await stack.enter_async_context(services.app())
        for _ in range(0, CLAIMED, _AT_ONCE):
            await app.claims.claim(actors[0], count=_AT_ONCE)
        return await tasks_per_second([own_pair(app, actor) for actor in actors[:WORKERS]], SECONDS)


async def _hold_snapshot(dsn: str, stack: AsyncExitStack) -> None:
    conn = await asyncpg.connect(dsn, server_settings={"idle_in_transaction_session_timeout": "0"})
    stack.push_async_callback(conn.close)
    await stack.enter_async_context(conn.transaction(isolation="repeatable_read"))
    await conn.fetchval("select count(*) from task")
