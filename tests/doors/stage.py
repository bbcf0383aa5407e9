"""A real server on loopback with the pages and an event stream that a test drives by hand."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI, Request, Response
from racks import Shown
from sse_starlette import EventSourceResponse

from warploom.domain.errors import Unreachable
from warploom.web.pages.router import pages_router

PATIENCE = 15


class Stage:
    """Serves `shown`, tells open pages of events, and can fall silent."""

    def __init__(self, shown: Shown) -> None:
        self.shown = shown
        self._queues: set[asyncio.Queue[dict[str, str] | None]] = set()
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_silent = False

    def app(self) -> FastAPI:
        app = FastAPI()
        app.include_router(pages_router(self.shown.sources()))
        app.add_api_route("/events", self._events)
        return app

    def emit(self, kind: str = "lease.granted") -> None:
        """Send one event to every page that streams."""
        self._put({"event": kind, "id": "1-1", "data": json.dumps({"kind": kind, "text": "something happened"})})

    def fall_silent(self) -> None:
        """Answer nothing but 503 until `speak`."""
        self._is_silent = True
        self.shown.failure = Unreachable("The database cannot be reached.", "It is tried again by itself.")
        self._put(None)

    def speak(self) -> None:
        """Answer again."""
        self._is_silent = False
        self.shown.failure = None

    def wait_for_streams(self, number: int) -> bool:
        """Wait until so many pages stream; say whether that came to be in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._queues) == number, PATIENCE)

    async def _events(self, request: Request) -> Response:
        if self._is_silent:
            return Response(status_code=503)
        return EventSourceResponse(self._lines())

    async def _lines(self) -> AsyncIterator[dict[str, str]]:
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[dict[str, str] | None] = asyncio.Queue()
        self._note(queue, is_open=True)
        try:
            while (line := await queue.get()) is not None:
                yield line
        finally:
            self._note(queue, is_open=False)

    def _note(self, queue: asyncio.Queue[dict[str, str] | None], *, is_open: bool) -> None:
        with self._changed:
            self._queues.add(queue) if is_open else self._queues.discard(queue)
            self._changed.notify_all()

    def _put(self, line: dict[str, str] | None) -> None:
        with self._changed:
            for queue in self._queues:
                assert self._loop is not None
                self._loop.call_soon_threadsafe(queue.put_nowait, line)


@contextmanager
def serving(stage: Stage) -> Iterator[str]:
    """Serve a stage for the length of a block."""
    with listening(stage.app()) as url:
        yield url
        stage.fall_silent()


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """Serve an app on a free port of loopback; connections wait in the backlog until it is up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the server did not stop"
