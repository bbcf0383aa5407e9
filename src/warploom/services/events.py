"""The event log as readers see it: pages, and a stream that resumes where it was left."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from datetime import timedelta
from random import Random

from warploom.domain.errors import Crowded, MalformedInput
from warploom.domain.events import EventView
from warploom.domain.identifiers import SessionId
from warploom.services.changes import EVERYTHING, Changes
from warploom.services.sessions import agent_named
from warploom.store import events as event_store
from warploom.store.events import About

PAGE = 200
_SPREAD = Random()  # noqa: S311  (spreads load, no secret)
STREAM_TIME = timedelta(minutes=4)


class EventService:
    """Reads the log. No reader holds a database connection while it waits."""

    def __init__(self, changes: Changes, streams: int, stream_time: timedelta = STREAM_TIME) -> None:
        self._changes = changes
        self._streams = streams
        self._open: Counter[str] = Counter()
        self._stream_seconds = stream_time.total_seconds()

    async def page(
        self, after: str | None, limit: int, session: SessionId | None = None, agent: str | None = None
    ) -> tuple[list[EventView], str]:
        """Return the lines after a cursor (the newest lines without one), and the cursor to go on from.

        With a session or an agent only what concerns it.
        """
        wanted, about = max(1, min(limit, PAGE)), About(session, agent)
        async with self._changes.database.connection() as conn:
            if after is None:
                end = await event_store.end_of_log(conn)
                lines = await event_store.latest_events(conn, wanted, about)
                return lines, lines[-1].cursor if lines else end
            # What others did since is not read again by somebody who looks for their own lines only.
            end = after if about == About() else await event_store.end_of_log(conn)
            lines = await event_store.events_after(conn, _cursor(after), wanted, about)
        last = lines[-1].cursor if lines else after
        return lines, last if len(lines) == wanted else max(last, end, key=_place)

    async def check(self, cursor: str | None, agent: str | None = None) -> None:
        """Raise MalformedInput for what is no cursor, NotFound for an agent that is none, before a reading begins."""
        if cursor is not None:
            _cursor(cursor)
        if agent is not None:
            async with self._changes.database.connection() as conn:
                await agent_named(conn, agent)

    def require_seat(self, user: str) -> None:
        """Raise Crowded when a user holds as many streams of this process as one may, before another begins."""
        if self._open[user] >= self._streams:
            raise Crowded(
                f"You hold {self._streams} event streams open on this server.",
                "Close one that nobody reads, or read /api/v1/events page by page.",
            )

    @contextmanager
    def seat(self, user: str) -> Generator[None]:
        """Count a stream of a user for as long as it is open."""
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

    async def follow(
        self, after: str | None, session: SessionId | None = None, agent: str | None = None
    ) -> AsyncGenerator[EventView]:
        """Yield lines as they commit, from `after` on (from now without it).

        Ends by itself after about the stream time, so that proxies with a limit never cut it; the reader resumes from its
        last cursor. A line appears once every transaction older than it has ended, so none is ever skipped.
        """
        end = time.monotonic() + self._stream_seconds * _SPREAD.uniform(0.9, 1.1)
        bus = self._changes.bus
        with bus.listen(EVERYTHING) as listener:
            cursor = after or await self._end()
            _cursor(cursor)
            while time.monotonic() < end and not bus.is_closing:
                lines, cursor = await self.page(cursor, PAGE, session, agent)
                for line in lines:
                    yield line
                if len(lines) < PAGE:
                    await listener.wait(end - time.monotonic())
                await asyncio.sleep(0)

    async def _end(self) -> str:
        async with self._changes.database.connection() as conn:
            return await event_store.end_of_log(conn)


def _place(cursor: str) -> tuple[int, int]:
    xid, number = _cursor(cursor)
    return int(xid), number


def _cursor(text: str) -> tuple[str, int]:
    cursor = event_store.parse_cursor(text)
    if cursor is None:
        raise MalformedInput(f"{text[:40]!r} is not a cursor.", "Use the cursor of an event, or leave it out.")
    return cursor
