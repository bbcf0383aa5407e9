"""Calls about the log of events: read it, and follow it through restarts of the server."""

import time
from collections.abc import Iterable, Iterator

from warploom.client.calls import Calls, query_of
from warploom.client.pauses import pause_before
from warploom.domain.errors import Busy, Unreachable
from warploom.domain.events import EventPage, EventView

_STREAM_SILENCE = 60.0


class EventCalls(Calls):
    """Calls about events."""

    def events(self, after: str | None = None, limit: int = 100, agent: str | None = None) -> EventPage:
        """Read the log right after a cursor; without one, its latest `limit` lines; with an agent only what concerns it."""
        query = query_of(limit=limit, after=after or None, agent=agent)
        return self._call("GET", f"/api/v1/events{query}", EventPage)

    def event_stream(
        self, after: str | None = None, *, mine: bool = False, agent: str | None = None, patience: float = 600
    ) -> Iterator[EventView]:
        """Follow the log for ever, from `after` or from now, through restarts of the server.

        Everything, or what concerns this session (`mine`) or an agent.

        Raises Unreachable when the server does not answer at first, or for `patience` seconds after a loss.
        """
        cursor = after or self.events(limit=1).cursor
        query = query_of(session="mine" if mine else None, agent=agent)
        failures, give_up_at = 0, time.monotonic() + patience
        while True:
            try:
                for event in self._stream(cursor, query):
                    failures, give_up_at = 0, time.monotonic() + patience
                    if event is not None:
                        cursor = event.cursor
                        yield event
            except (Unreachable, Busy):
                if time.monotonic() > give_up_at:
                    raise
            failures += 1
            time.sleep(pause_before(failures))

    def _stream(self, cursor: str, query: str) -> Iterator[EventView | None]:
        """Yield events, and None for any other sign of life, until the server closes the stream."""
        headers = self._headers | {"Accept": "text/event-stream", "Last-Event-ID": cursor, "Cache-Control": "no-store"}
        with self._transport.lines(f"/events{query}", headers, _STREAM_SILENCE) as stream:
            status, lines = stream
            if status != 200:
                raise self._refusal(status, b"".join(lines))
            yield None
            for data in _messages(lines):
                yield self._decode(data, EventView) if data else None


def _messages(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Split a stream of server-sent events into the data of each message; a comment is an empty one."""
    data: list[bytes] = []
    for line in lines:
        if line.startswith(b"data:"):
            data.append(line[5:].strip())
        elif line.startswith(b":"):
            yield b""
        elif not line.strip() and data:
            yield b"\n".join(data)
            data = []
