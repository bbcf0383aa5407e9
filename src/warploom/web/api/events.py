"""The event log over HTTP: pages, and a stream of server-sent events that resumes."""

import json
from collections.abc import AsyncGenerator
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent

from warploom.app import App
from warploom.domain.errors import WarploomError
from warploom.domain.events import EventPage
from warploom.domain.identifiers import SessionId
from warploom.services.events import PAGE
from warploom.web.callers import TheApp, actor_of
from warploom.web.guard import error_body

router = APIRouter(tags=["events"])
stream_router = APIRouter(tags=["events"])


@router.get("/events")
async def page(app: TheApp, after: str | None = None, limit: Annotated[int, Query(ge=1, le=PAGE)] = 100) -> EventPage:
    """Read the lines right after a cursor; without one, the newest."""
    lines, cursor = await app.events.page(after, limit)
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
    last_event_id: Annotated[str | None, Header()] = None,
) -> EventSourceResponse:
    """Stream the log from `Last-Event-ID` (or `after`, or now) on; `session=mine` keeps to the caller's own lines."""
    start = last_event_id or after
    app.events.check(start)
    mine = (await actor_of(request)).session if session == "mine" else None
    return EventSourceResponse(_lines(app, start, mine), ping=15, headers={"X-Accel-Buffering": "no"})


async def _lines(app: App, after: str | None, session: SessionId | None) -> AsyncGenerator[ServerSentEvent]:
    yield ServerSentEvent(retry=1000, comment="warploom events")
    try:
        async for line in app.events.follow(after, session):
            yield ServerSentEvent(data=msgspec.json.encode(line).decode(), event=line.kind.value, id=line.cursor)
    except WarploomError as error:
        yield ServerSentEvent(data=json.dumps(error_body(error)), event="error", retry=2000)
