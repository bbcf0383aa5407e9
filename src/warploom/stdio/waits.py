"""Waits that outlive the server they began with: asked again, at whichever server there is, until they are over."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types as types

from warploom.client.pauses import pause_before
from warploom.domain.errors import Unreachable
from warploom.stdio.upstream import NotSent

WAIT: Final = "gpu_wait"
_USUAL_MINUTES: Final = 720.0
_SHORTEST_PAUSE: Final = 0.2


async def insist(
    send: Callable[[], Awaitable[types.CallToolResult]], arguments: Mapping[str, object] | None
) -> types.CallToolResult:
    """Send a wait until it is over or its minutes are; asking twice is safe, since it changes nothing.

    Raises NotSent where no server was there to begin with, and what the last try raised once the time is up.
    """
    minutes = (arguments or {}).get("minutes", _USUAL_MINUTES)
    end = time.monotonic() + 60 * (minutes if isinstance(minutes, int | float) else 0)
    tries = 0
    while True:
        try:
            result = await send()
            if not _is_queued(result.structured_content) or time.monotonic() >= end:
                return result
        except Unreachable as error:
            if time.monotonic() >= end or (isinstance(error, NotSent) and not tries):
                raise
        tries += 1
        await asyncio.sleep(max(_SHORTEST_PAUSE, pause_before(tries)))


def _is_queued(content: Mapping[str, Any] | None) -> bool:
    return content is not None and content.get("state") == "queued"
