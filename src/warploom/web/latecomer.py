"""A part of the server that is loaded while the rest already answers."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send


class Latecomer:
    """An ASGI app that is built in a thread, because what it imports takes most of a start; requests wait for it."""

    def __init__(self, build: Callable[[], Starlette]) -> None:
        self._build = build
        self._ready: asyncio.Future[Starlette] | None = None

    async def run(self) -> None:
        """Build the app and keep it open until cancelled; its lifespan begins and ends in this task."""
        ready = self._ready = asyncio.get_running_loop().create_future()
        try:
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
        app = await asyncio.shield(self._ready)
        await app(scope, receive, send)
