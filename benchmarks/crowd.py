"""Two thousand waiters and two hundred event streams on one server: what they cost while nothing happens, and a wake among them."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psutil

from benchmarks.lines import Line
from benchmarks.stack import Stack
from warploom.client.connection import Client
from warploom.domain.callers import Caller
from warploom.domain.standings import Wish

TICKETS = 20
WAITERS_EACH = 100
STREAMS = 200
SETTLE_SECONDS = 10.0
LOOK_SECONDS = 10.0

Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def measure(stack: Stack, url: str, dsn: str) -> Iterator[Line]:
    holder = Client(url, Caller(session_key="crowd-holder", agent="crowd-holder"))
    held = holder.request(Wish("crowd", "0", minutes=1)).lease
    if held is None:
        raise RuntimeError("card 0 was not free at the start")
    names = [f"crowd-{number}" for number in range(TICKETS)]
    tickets = [Client(url, Caller(session_key=name, agent=name)).request(Wish("wait", "0")).ticket for name in names]
    pid = json.loads((stack.home / "run" / "server.json").read_text())["pid"]
    yield from asyncio.run(
        _measure(url, dsn, pid, list(zip(names, tickets, strict=True)), lambda: holder.release(held))
    )
    for name, ticket in zip(names, tickets, strict=True):
        client = Client(url, Caller(session_key=name, agent=name))
        client.leave(ticket)


async def _measure(
    url: str, dsn: str, pid: int, waiting: list[tuple[str, str]], release: Callable[[], object]
) -> list[Line]:
    conn = await asyncpg.connect(dsn)
    waits = [
        await _open(url, f"/api/v1/tickets/{ticket}/wait?seconds=55", name)
        for name, ticket in waiting
        for _ in range(WAITERS_EACH)
    ]
    streams = [await _open(url, "/events", f"reader-{number}") for number in range(STREAMS)]
    await asyncio.sleep(SETTLE_SECONDS)
    in_use = await _look(conn)
    memory = psutil.Process(pid).memory_full_info().pss / 2**20
    began = time.perf_counter()
    await asyncio.to_thread(release)
    await asyncio.gather(*(reader.readline() for reader, _ in waits[:WAITERS_EACH]))
    woken = (time.perf_counter() - began) * 1e3
    for _, writer in (*waits, *streams):
        writer.close()
    await conn.close()
    crowd = f"{len(waits):,} waiters and {len(streams)} streams"
    return [
        Line(f"{crowd}: memory of the server (PSS)", memory, "MiB", None, "", 400.0),
        Line(f"{crowd}, idle: connections in use, on average", in_use, "", None, "", 0.1),
        Line(f"{crowd}: release -> all {WAITERS_EACH} of the first answered", woken, "ms", None, "", 3000.0),
    ]


async def _look(conn: asyncpg.Connection) -> float:
    """Return how many database connections of the whole stack were in use, on average."""
    busy: list[int] = []
    end = time.perf_counter() + LOOK_SECONDS
    while time.perf_counter() < end:
        busy.append(await _in_use(conn))
        await asyncio.sleep(0.05)
    return sum(busy) / len(busy)


async def _open(url: str, path: str, name: str) -> Link:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {address.netloc}",
        f"X-Warploom-Session: {name}",
        f"X-Warploom-Agent: {name}",
    ]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    await writer.drain()
    return reader, writer


async def _in_use(conn: asyncpg.Connection) -> Any:
    return await conn.fetchval(
        "select count(*) from pg_stat_activity where application_name = 'warploom' and state <> 'idle'"
    )
