"""The event log over HTTP: pages, and a stream of server-sent events that resumes."""

import json
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from random import Random
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent

from warploom.domain.errors import WarploomError
from warploom.domain.events import EventPage, EventView
from warploom.services.events import PAGE
from warploom.web.callers import TheApp, actor_of, read_caller, role_of
from warploom.web.guard import error_body

_spread = Random()  # noqa: S311  (spreads load, no secret)
router = APIRouter(tags=["events"])
stream_router = APIRouter(tags=["events"])


@router.get("/events")
async def page(
    app: TheApp,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
    agent: str | None = None,
) -> EventPage:
    """Read the lines right after a cursor; without one, the newest. With an agent's name only what concerns it."""
    await app.events.check(after, agent)
    lines, cursor = await app.events.page(after, limit, agent=agent)
    return EventPage(lines, cursor)


@stream_router.get(
    "/events",
    response_class=EventSourceResponse,
    responses={200: {"description": "Lines as they commit", "content": {"text/event-stream": {}}}},
)
async def stream(
    request: Request,
    app: TheApp,
    session: Literal["mine"] | None = None,
    after: str | None = None,
    agent: str | None = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> EventSourceResponse:
    """Stream the log from `Last-Event-ID` (or `after`, or now) on; `session=mine` or an agent's name choose lines."""
    user = _user(request)
    app.events.require_seat(user)
    start = last_event_id or after
    await app.events.check(start, agent)
    mine = (await actor_of(request)).session if session == "mine" else None
    lines = _lines(app.events.follow(start, mine, agent), app.events.seat(user))
    return EventSourceResponse(lines, ping=15, headers={"X-Accel-Buffering": "no"})


def _user(request: Request) -> str:
    """Tell users apart for the number of their streams: by the session or the process they name, else by their address."""
    caller = read_caller(request.headers, role_of(request))
    named = caller.session_key or caller.agent or (caller.process and f"{caller.host}:{caller.process.pid}")
    return f"{caller.role}:{named or (request.client.host if request.client else 'unknown')}"


async def _lines(
    events: AsyncGenerator[EventView], seat: AbstractContextManager[None]
) -> AsyncGenerator[ServerSentEvent]:
    """Write lines as messages. The pause before a reader comes back differs, so that a restart is not met by all at once."""
    with seat:
        yield ServerSentEvent(retry=_spread.randint(500, 1500), comment="warploom events")
        async for message in _messages(events):
            yield message


async def _messages(events: AsyncGenerator[EventView]) -> AsyncGenerator[ServerSentEvent]:
    try:
        async for line in events:
            yield ServerSentEvent(data=msgspec.json.encode(line).decode(), event=line.kind.value, id=line.cursor)
    except WarploomError as error:
        yield ServerSentEvent(data=json.dumps(error_body(error)), event="error", retry=_spread.randint(1500, 3000))
