"""Tools that stay open: they wait in stretches, and tell the client between them that the call is alive."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fastmcp.server.dependencies import get_context

T = TypeVar("T")

PROGRESS_SECONDS: Final = 20.0
"""How long a client hears nothing at most; the strictest one gives up after a minute."""


async def patiently(look: Callable[[float], Awaitable[T]], goes_on: Callable[[T], str | None], seconds: float) -> T:
    """Look again and again, each time for as long as `look` is told, until there is nothing to wait for or time is up.

    `goes_on` says of an answer what is waited for, None when that is over. A look that ends before its time is the last
    one: the server is stopping.
    """
    clock = asyncio.get_running_loop()
    start = clock.time()
    end = start + seconds
    while True:
        turn = min(end, clock.time() + PROGRESS_SECONDS)
        answer = await look(max(0.0, turn - clock.time()))
        waiting = goes_on(answer)
        if waiting is None or turn >= end or clock.time() < turn:
            return answer
        await get_context().report_progress(clock.time() - start, seconds, waiting)
