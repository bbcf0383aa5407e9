"""A part of the server that is loaded while the rest already answers."""

import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

_LEAD_SECONDS = 1.0
_SHORT_TURN = 0.0005


class Latecomer:
    """An ASGI app that is built in a thread, because what it imports takes most of a start; requests wait for it.

    The first request, or a moment of its own, begins that, so that it is not in the way of whatever a start is for.
    """

    def __init__(self, build: Callable[[], Starlette]) -> None:
        self._build = build
        self._ready: asyncio.Future[Starlette] | None = None
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        """Build the app and keep it open until cancelled; its lifespan begins and ends in this task."""
        ready = self._ready = asyncio.get_running_loop().create_future()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), _LEAD_SECONDS)
        try:
            with _short_turns():
                app = await asyncio.to_thread(self._build)
        except BaseException as error:
            ready.set_exception(error)
            raise
        async with app.router.lifespan_context(app):
            ready.set_result(app)
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as soon as the app is built; raise what its build raised."""
        assert self._ready is not None, "the server's lifespan starts this"
        self._wanted.set()
        app = await asyncio.shield(self._ready)
        await app(scope, receive, send)


@contextmanager
def _short_turns() -> Generator[None]:
    """Let threads take turns more often, so that a busy one hardly delays what the event loop has to answer."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SHORT_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
