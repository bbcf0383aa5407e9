"""Tools that stay open: they wait in stretches, and tell the client between them that the call is alive."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fastmcp.server.dependencies import get_context

from warploom.domain.errors import Busy, Unreachable

T = TypeVar("T")

PROGRESS_SECONDS: Final = 20.0
"""How long a client hears nothing at most; the strictest one gives up after a minute."""
_PAUSE_SECONDS: Final = 1.0


async def patiently(look: Callable[[float], Awaitable[T]], goes_on: Callable[[T], str | None], seconds: float) -> T:
    """Look again and again, each time for as long as `look` is told, until there is nothing to wait for or time is up.

    `goes_on` says of an answer what is waited for, None when that is over. A look that ends before its time is the last
    one: the server is stopping. A database that is away or busy ends nothing before the time is up.
    """
    clock = asyncio.get_running_loop()
    start = clock.time()
    end = start + seconds
    while True:
        turn = min(end, clock.time() + PROGRESS_SECONDS)
        try:
            answer = await look(max(0.0, turn - clock.time()))
        except (Unreachable, Busy) as error:
            if clock.time() + _PAUSE_SECONDS >= end:
                raise
            await get_context().report_progress(clock.time() - start, seconds, error.cause)
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        waiting = goes_on(answer)
        if waiting is None or turn >= end or clock.time() < turn:
            return answer
        await get_context().report_progress(clock.time() - start, seconds, waiting)
