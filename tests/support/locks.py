"""Forced races: hold a lock until somebody is seen to wait for it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from support.rows import Sql

SECONDS = 20


async def until(question: Callable[[], Awaitable[Any]]) -> Any:
    """Return the first true answer; fail when there is none in time."""
    async with asyncio.timeout(SECONDS):
        while not (answer := await question()):
            await asyncio.sleep(0.005)
        return answer


async def somebody_waits(sql: Sql, many: int = 1) -> None:
    """Return once this many connections to the database wait for a lock; `sql` may be in a transaction itself."""

    async def are_there() -> bool:
        await sql.execute("select pg_stat_clear_snapshot()")
        return await sql.fetchval(
            """
            select count(*) >= $1 from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'
            """,
            many,
        )

    await until(are_there)
