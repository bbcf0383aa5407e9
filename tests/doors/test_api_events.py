"""The event stream: it resumes without loss or repetition, ends early by itself, and holds no connection while idle."""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path

import asyncpg
import httpx
import pytest
from stage import PATIENCE, listening

from support.invariants import ask
from support.serving import Caller, eventually
from warploom.app import build_app
from warploom.config import Settings
from warploom.server import build_server
from warploom.services.changes import Changes
from warploom.services.events import EventService

Served = Callable[..., str]


@pytest.fixture
def served(database_url: str, redis_url: str, tmp_path: Path) -> Generator[Served]:
    """Serve the test's database: `served(stream_time=timedelta(seconds=1), pool_size=2)` returns the address."""
    with ExitStack() as stack:

        def serve(stream_time: timedelta | None = None, **settings: object) -> str:
            given = {"home": tmp_path, "database_url": database_url, "redis_url": redis_url} | settings
            app = build_app(Settings.load({f"WARPLOOM_{name.upper()}": str(value) for name, value in given.items()}))
            if stream_time is not None:
                app = replace(app, events=EventService(Changes(app.database, app.bus), 32, stream_time))
            return stack.enter_context(listening(build_server(app)))

        yield serve


@contextmanager
def streaming(caller: Caller, cursor: str | None = None, query: str = "") -> Generator[Iterator[tuple[str, str]]]:
    """Open the stream and hand over cursor and kind of each event as it comes, until the server closes it."""
    headers = {"Last-Event-ID": cursor} if cursor else {}
    with caller.http.stream("GET", f"/events{query}", headers=headers, timeout=PATIENCE) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        assert next(lines) == ": warploom events"
        yield _events(lines)


def _events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    told: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        told[name] = value
        if not line and "id" in told:
            yield told["id"], told["event"]
        if not line:
            told = {}


def _log(caller: Caller, cursor: str) -> list[tuple[str, str]]:
    """Read the log page by page from a cursor on."""
    lines: list[tuple[str, str]] = []
    while page := caller.get("/events", after=cursor, limit=7)["events"]:
        lines += [(event["cursor"], event["kind"]) for event in page]
        cursor = page[-1]["cursor"]
    return lines


def test_a_reader_that_is_cut_off_again_and_again_misses_and_repeats_nothing(served: Served) -> None:
    """Casebook C67."""
    url = served()
    reader, host = Caller(url), Caller(url)
    host.survey(cards=2)
    start = reader.get("/events", limit=1)["cursor"]

    def bustle(number: int) -> None:
        agent = Caller(url, f"agent-{number}")
        for _ in range(12):
            ticket = agent.request(device="any", job=f"job {number}")
            if ticket["lease"]:
                agent.release(ticket["lease"])
                host.survey(cards=2)
            else:
                agent.http.delete(f"/api/v1/tickets/{ticket['ticket']}")

    agents = [threading.Thread(target=bustle, args=[number]) for number in range(4)]
    for agent in agents:
        agent.start()
    seen: list[tuple[str, str]] = []
    while len(seen) < 60:
        with streaming(reader, seen[-1][0] if seen else start) as events:
            seen += islice(events, 5)
    for agent in agents:
        agent.join(PATIENCE)
    whole = _log(reader, start)
    with streaming(reader, seen[-1][0]) as events:
        seen += islice(events, len(whole) - len(seen))
    assert seen == whole
    assert len(set(seen)) == len(seen)


async def test_a_line_that_commits_late_is_neither_skipped_nor_overtaken(
    served: Served, sql: asyncpg.Connection, database_url: str
) -> None:
    caller = Caller(served(), "agent")
    cursor = caller.get("/me") and caller.get("/events", limit=1)["cursor"]
    late = sql.transaction()
    await late.start()
    await sql.execute("insert into event (kind, facts) values ('host.found', '{\"host\": \"late\"}')")
    caller.survey()
    assert ask(database_url, "select 1 as seen from event where kind = 'host.found'") == [{"seen": 1}]
    assert _log(caller, cursor) == []
    await late.commit()
    kinds = [kind for _, kind in _log(caller, cursor)]
    assert kinds == ["host.found", "host.found", "card.found"]
    with streaming(caller, cursor) as events:
        assert [kind for _, kind in islice(events, 3)] == kinds


def test_a_session_may_listen_to_its_own_lines_alone(served: Served) -> None:
    url = served()
    mine, other = Caller(url, "mine"), Caller(url, "other")
    mine.survey(cards=2)
    cursor = mine.get("/events", limit=1)["cursor"]
    ours = [mine.request(device="0"), mine.request(device="1", job="second")]
    other.request(device="0")
    with streaming(mine, cursor, "?session=mine") as events:
        mine.release(ours[0]["lease"])
        kinds = [kind for _, kind in islice(events, 6)]
    assert kinds == ["session.started", *["ticket.queued", "lease.granted"] * 2, "lease.released"]


def test_the_stream_ends_early_by_itself_and_goes_on_from_where_it_was(served: Served) -> None:
    """Casebook C71."""
    caller = Caller(served(stream_time=timedelta(seconds=0.2)))
    cursor = caller.get("/events", limit=1)["cursor"]
    caller.survey()
    with streaming(caller, cursor) as events:
        first = list(events)
    assert [kind for _, kind in first] == ["host.found", "card.found"]
    caller.survey("second")
    with streaming(caller, first[-1][0]) as events:
        assert [kind for _, kind in events] == ["host.found", "card.found"]
    with streaming(caller) as events:
        assert list(events) == []


def test_one_user_holds_so_many_streams_and_others_are_served(served: Served) -> None:
    """Casebook C71."""
    url = served(streams=2)
    mine, other = Caller(url, "mine"), Caller(url, "other")
    with streaming(mine):
        with streaming(mine), streaming(other):
            refused = mine.http.get("/events")
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "2")
            assert refused.json()["error"] == {
                "code": "crowded",
                "cause": "You hold 2 event streams open on this server.",
                "next": "Close one that nobody reads, or read /api/v1/events page by page.",
            }
        eventually(lambda: _is_open(mine))


def _is_open(caller: Caller) -> bool:
    with caller.http.stream("GET", "/events") as answer:
        return answer.status_code == 200


def test_readers_are_told_to_come_back_at_different_moments(served: Served) -> None:
    """Casebook C71."""
    url = served()
    pauses: set[str] = set()
    for number in range(6):
        with Caller(url, f"reader-{number}").http.stream("GET", "/events") as answer:
            pauses.add(next(line for line in answer.iter_lines() if line.startswith("retry: ")))
    assert len(pauses) > 1


def test_open_streams_and_waits_hold_no_connection(served: Served, database_url: str) -> None:
    """Casebook C65."""
    url = served(pool_size=2)
    holder, waiter = Caller(url, "holder"), Caller(url, "waiter")
    holder.survey()
    held, ticket = holder.request()["lease"], waiter.request()["ticket"]
    answers: list[httpx.Response] = []

    def wait() -> None:
        answers.append(Caller(url, "waiter").http.get(f"/api/v1/tickets/{ticket}/wait?seconds=55"))

    waits = [threading.Thread(target=wait) for _ in range(8)]
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(streaming(Caller(url)))
        for each in waits:
            each.start()
        eventually(lambda: holder.listeners() == 16)
        busy = "select count(*) as busy from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        assert ask(database_url, busy)[0]["busy"] <= 2
        eventually(lambda: ask(database_url, f"{busy} and state <> 'idle'")[0]["busy"] == 0)
        holder.release(held)
        holder.survey()
        for each in waits:
            each.join(PATIENCE)
    assert [answer.json()["state"] for answer in answers] == ["offered"] * 8
