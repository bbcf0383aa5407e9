"""Our own HTTP API as methods that answer with the domain's values and raise the domain's errors."""

import time
from collections.abc import Iterable, Iterator
from random import Random

from warploom.client.calls import part, query_of
from warploom.client.claims import ClaimCalls
from warploom.client.graphs import GraphCalls
from warploom.client.messages import MessageCalls
from warploom.client.projects import ProjectCalls
from warploom.client.repairs import RepairCalls
from warploom.client.tasks import TaskCalls
from warploom.domain.cards import DrainAnswer, Rack
from warploom.domain.errors import Busy, MalformedInput, Unreachable
from warploom.domain.events import EventPage, EventView
from warploom.domain.health import Check, Health
from warploom.domain.hosts import Orders, Survey, SurveyAnswer
from warploom.domain.leases import LeaseAnswer
from warploom.domain.standings import TicketAnswer, Wish
from warploom.domain.tickets import Heartbeat, Me

_STREAM_SILENCE = 60.0
_SPREAD = Random()  # noqa: S311  (spreads load, no secret; its own, so that nobody else's numbers depend on it)


class Client(TaskCalls, ClaimCalls, RepairCalls, GraphCalls, ProjectCalls, MessageCalls):
    """A connection to one server on behalf of one caller; safe to use from several threads."""

    def close(self) -> None:
        """Close the kept connections."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rack(self) -> Rack:
        """Everything on one screen: who holds what, how far along, who waits."""
        return self._call("GET", "/api/v1/rack", Rack)

    def request(self, request: Wish) -> TicketAnswer:
        """Ask for cards: a lease, or a place in the queue. Never waits."""
        return self._call("POST", "/api/v1/tickets", TicketAnswer, request)

    def explain(self, ticket: str) -> TicketAnswer:
        """Say where a ticket stands and why."""
        return self._call("GET", f"/api/v1/tickets/{part(ticket)}", TicketAnswer)

    def leave(self, ticket: str) -> TicketAnswer:
        """Take a ticket out of its queue; leaving twice is success."""
        return self._call("DELETE", f"/api/v1/tickets/{part(ticket)}", TicketAnswer)

    def wait(self, ticket: str, seconds: float = 25) -> TicketAnswer:
        """Answer as soon as the ticket is no longer queued, or after `seconds` (at most 55) with its standing."""
        return self._poll(f"/api/v1/tickets/{part(ticket)}/wait", TicketAnswer, seconds)

    def accept(self, lease: str) -> LeaseAnswer:
        """Take up an offer."""
        return self._call("POST", f"/api/v1/leases/{part(lease)}/accept", LeaseAnswer, {})

    def extend(self, lease: str, minutes: float, reason: str) -> LeaseAnswer:
        """Say that a job needs `minutes` more, and why, so that the queue's estimates stay honest."""
        body = {"minutes": minutes, "reason": reason}
        return self._call("POST", f"/api/v1/leases/{part(lease)}/extend", LeaseAnswer, body)

    def report(self, lease: str, step: int, total: int | None = None) -> LeaseAnswer:
        """Report how far a job is."""
        body = {"step": step, "total": total}
        return self._call("POST", f"/api/v1/leases/{part(lease)}/report", LeaseAnswer, body)

    def release(self, lease: str) -> LeaseAnswer:
        """Give the cards back; releasing twice is success."""
        return self._call("POST", f"/api/v1/leases/{part(lease)}/release", LeaseAnswer, {})

    def me(self) -> Me:
        """What this session holds, waits for and has not read."""
        return self._call("GET", "/api/v1/me", Me)

    def heartbeat(self) -> Heartbeat:
        """Show a sign of life, which pushes the session's leases out."""
        return self._call("POST", "/api/v1/heartbeat", Heartbeat, {})

    def drain(self, card: str, reason: str | None = None, *, preview: bool = False) -> DrainAnswer:
        """Grant nothing more on a card (`host/index`); with `preview` only say what that would mean."""
        return self._service(card, "drain", reason, preview)

    def undrain(self, card: str, reason: str | None = None, *, preview: bool = False) -> DrainAnswer:
        """Put a card (`host/index`) back in service; with `preview` only say what that would mean."""
        return self._service(card, "undrain", reason, preview)

    def survey(self, host: str, survey: Survey) -> SurveyAnswer:
        """Tell what a host saw on its cards."""
        return self._call("POST", f"/api/v1/hosts/{part(host)}/survey", SurveyAnswer, survey)

    def orders(self, host: str, cursor: str | None = None, seconds: float = 25) -> Orders:
        """Wait up to `seconds` (at most 55) for something a host should do."""
        return self._poll(f"/api/v1/hosts/{part(host)}/orders", Orders, seconds, cursor=cursor or None)

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

    def doctor(self) -> list[Check]:
        """Every check the server can make of itself and its hosts."""
        return self._call("GET", "/api/v1/doctor", list[Check])

    def health(self) -> Health:
        """Say whether the server and its database answer; raises when they don't."""
        return self._call("GET", "/health", Health, seconds=5)

    def _service(self, card: str, verb: str, reason: str | None, preview: bool) -> DrainAnswer:
        host, slash, index = card.partition("/")
        if not slash or not host or not index:
            raise MalformedInput(
                f"{card[:40]!r} is not a card.", "A card looks like local/0; `warploom status` shows them."
            )
        path = f"/api/v1/cards/{part(host)}/{part(index)}/{verb}"
        return self._call("POST", path, DrainAnswer, {"reason": reason, "preview": preview})

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


def pause_before(attempt: int) -> float:
    """Return the seconds to wait before an attempt (1 is the first repetition): doubling to 5 s, with jitter."""
    return min(5.0, 0.1 * 2 ** min(attempt, 10)) * _SPREAD.uniform(0.5, 1.0)
