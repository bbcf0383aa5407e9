"""A small server that stands for Warploom's: its MCP door, its heartbeat, its event stream, and what it was sent."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import uvicorn
from fastapi import FastAPI, Request
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_http_headers
from sse_starlette.sse import EventSourceResponse

PATIENCE = 40.0


@dataclass
class Seen:
    """What the server was sent and is about to say; every change wakes those who wait for it."""

    beats: list[dict[str, str]] = field(default_factory=list)
    calls: list[dict[str, str]] = field(default_factory=list)
    grants: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    """What gpu_wait refuses with, one call after the other, before it is granted."""
    listeners: int = 0
    blocked: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def note(self, change: Callable[[], object]) -> None:
        with self.changed:
            change()
            self.changed.notify_all()

    def until(self, predicate: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(predicate, PATIENCE), "it did not happen in time"

    def wait_a_moment(self, predicate: Callable[[], bool]) -> None:
        with self.changed:
            self.changed.wait_for(predicate, 0.5)

    async def soon(self, predicate: Callable[[], bool]) -> None:
        await asyncio.to_thread(self.until, predicate)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class StandIn:
    """The server, which can be stopped in the middle of anything and started again at the same address."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.seen = Seen()
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        config = uvicorn.Config(_app(self.seen), host="127.0.0.1", port=self.port, log_level="critical")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        with socket.socket() as probe:
            _until_open(probe, self.port)

    def stop(self) -> None:
        """Drop every connection, whatever is under way on it."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self._server = None


def _until_open(probe: socket.socket, port: int) -> None:
    probe.settimeout(0.05)
    for _ in range(int(PATIENCE / 0.05)):
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            return
        threading.Event().wait(0.05)
    raise AssertionError("the stand-in did not start")


def _app(seen: Seen) -> FastAPI:
    door = _mcp(seen).http_app(path="/", stateless_http=True)
    app = FastAPI(lifespan=door.lifespan)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": "0.1.0"}

    @app.post("/api/v1/heartbeat")
    async def heartbeat(request: Request) -> dict[str, object]:
        seen.note(lambda: seen.beats.append(_identity(dict(request.headers))))
        return {"grants": seen.grants, "messages": seen.messages}

    @app.get("/api/v1/events")
    async def events() -> dict[str, object]:
        return {"events": [], "cursor": "0"}

    @app.get("/events")
    async def stream() -> EventSourceResponse:
        return EventSourceResponse(_events(seen))

    app.mount("/mcp", door)
    return app


async def _events(seen: Seen) -> AsyncIterator[dict[str, str]]:
    seen.note(lambda: setattr(seen, "listeners", seen.listeners + 1))
    told: list[dict[str, Any]] = []
    while True:
        for event in seen.events[len(told) :]:
            told.append(event)
            cursor = str(len(told))
            yield {"id": cursor, "event": str(event["kind"]), "data": json.dumps(event | {"cursor": cursor})}
        await asyncio.to_thread(seen.wait_a_moment, lambda: len(told) < len(seen.events))


def _identity(headers: dict[str, str]) -> dict[str, str]:
    return {
        name.removeprefix("x-warploom-"): unquote(value)
        for name, value in headers.items()
        if name.startswith("x-warploom-") or name == "authorization"
    }


def _mcp(seen: Seen) -> FastMCP:
    mcp = FastMCP("stand-in")

    @mcp.tool
    async def gpu_request(job: str, device: str = "any", minutes: float | None = None) -> dict[str, object]:
        """Ask for a card. Answers with a lease, or with a place in the queue."""
        headers = get_http_headers(include_all=True)
        seen.note(lambda: seen.calls.append(_identity(headers)))
        return {"ticket": "T-18", "job": job, "device": device, "minutes": minutes}

    @mcp.tool
    async def gpu_release(lease: str) -> dict[str, object]:
        """Give the cards of a lease back."""
        raise ToolError(f"lease_lost: {lease} ended at 14:23:10 UTC.")

    @mcp.tool
    async def gpu_wait(ticket: str, ctx: Context) -> str:
        """Stay open until the card is granted, and tell of it."""
        await ctx.report_progress(1, 2, f"{ticket} waits")
        if seen.refusals:
            raise ToolError(seen.refusals.pop(0))
        return "granted"

    @mcp.tool
    async def gpu_block() -> str:
        """Never answer."""
        seen.note(lambda: setattr(seen, "blocked", seen.blocked + 1))
        await asyncio.Event().wait()
        return ""

    return mcp
