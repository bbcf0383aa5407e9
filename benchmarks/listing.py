"""The list of what may be claimed: the first ten, beside a bare select of ten rows by their index."""

import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from warploom.app import App
from warploom.domain.sessions import Actor

LIMIT = 10
CALLS = 150

_SELECT = "select id, priority, payload from jobs where state = 'ready' order by priority desc, id limit $1"


async def compare_lists(app: App, actor: Actor, pool: Any) -> tuple[float, float]:
    """Return the median milliseconds of Warploom's list and of the bare select, called in turns."""

    async def bare() -> None:
        async with pool.acquire() as conn:
            await conn.fetch(_SELECT, LIMIT)

    async def own() -> None:
        await app.tasks.ready(actor, limit=LIMIT)

    spent: dict[Callable[[], Awaitable[None]], list[float]] = {own: [], bare: []}
    for _ in range(CALLS):
        for call, times in spent.items():
            start = time.perf_counter()
            await call()
            times.append(time.perf_counter() - start)
    return statistics.median(spent[own]) * 1e3, statistics.median(spent[bare]) * 1e3
