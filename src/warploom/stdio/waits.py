"""Waits that outlive the server they began with: asked again, at whichever server there is, until they are over."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types as types

from warploom.client.pauses import pause_before
from warploom.domain.errors import Busy, Unreachable
from warploom.stdio.upstream import NotSent

WAIT: Final = "gpu_wait"
_USUAL_MINUTES: Final = 720.0
_SHORTEST_PAUSE: Final = 0.2
_START_SECONDS: Final = 60.0
"""How long a server may be away at the beginning of a wait, which is as long as any takes to start."""
_AWAY: Final = tuple(f"{error.code}:" for error in (Unreachable, Busy))


async def insist(
    send: Callable[[], Awaitable[types.CallToolResult]], arguments: Mapping[str, object] | None
) -> types.CallToolResult:
    """Send a wait until it is over or its minutes are; asking twice is safe, since it changes nothing.

    A server or a database that is away ends no wait. Raises NotSent where no server came to begin with, and what the last try
    raised once the time is up.
    """
    minutes = (arguments or {}).get("minutes", _USUAL_MINUTES)
    now = time.monotonic()
    end = now + 60 * (minutes if isinstance(minutes, int | float) else 0)
    start_by, tries = min(end, now + _START_SECONDS), 0
    while True:
        try:
            result = await send()
            if not _goes_on(result) or time.monotonic() >= end:
                return result
            start_by = end
        except Unreachable as error:
            if not isinstance(error, NotSent):
                start_by = end  # a server took it, however long ago
            if time.monotonic() >= start_by:
                raise
        tries += 1
        await asyncio.sleep(max(_SHORTEST_PAUSE, pause_before(tries)))


def _goes_on(result: types.CallToolResult) -> bool:
    """Say whether there is more to wait for: a place in the queue, or a server that cannot tell at the moment."""
    if result.is_error:
        first = next(iter(result.content), None)
        return isinstance(first, types.TextContent) and first.text.startswith(_AWAY)
    content: Mapping[str, Any] | None = result.structured_content
    return content is not None and content.get("state") == "queued"
