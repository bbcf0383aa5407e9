"""A TCP proxy on a loop of its own that can lose what goes through it: let it vanish in silence, or cut it."""

import asyncio
import socket
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

_CHUNK = 65_536
_PATIENCE = 20.0


class Mode(Enum):
    """What the proxy does with connections."""

    FORWARD = auto()
    BLACK_HOLE = auto()
    """They stay open and new ones are taken, but no byte and no end comes through in either way."""
    CUT = auto()
    """They are reset, and so is every new one."""


class Proxy:
    """Forwards from a port of its own to a Postgres, a Valkey or a server: the first of these URLs that takes a connection.

    A connection that was in a black hole stays in it for ever: what was lost on it does not come back when new
    connections get through again, as where something on the way has forgotten it.
    """

    def __init__(self, *urls: str) -> None:
        self._targets = [_target(url) for url in urls]
        self._mode = Mode.FORWARD
        self._links: set[_Link] = set()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        port: int = self._listening.getsockname()[1]
        self.url = _through(urls[0], port)
        """Where to reach it, as the first of its URLs is written."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._accept, sock=self._listening))

    def black_hole(self) -> None:
        """Let everything vanish from now on."""
        self._run(self._turn(Mode.BLACK_HOLE))

    def cut(self) -> None:
        """Reset everything from now on."""
        self._run(self._turn(Mode.CUT))

    def restore(self) -> None:
        """Forward new connections again, and those that were never lost."""
        self._run(self._turn(Mode.FORWARD))

    def close(self) -> None:
        """Reset every connection and stop."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    async def _turn(self, mode: Mode) -> None:
        self._mode = mode
        for link in list(self._links):
            if mode is Mode.BLACK_HOLE:
                link.is_lost = True
            elif mode is Mode.CUT or link.has_ended:
                link.reset()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        link.is_lost = self._mode is Mode.BLACK_HOLE
        self._links.add(link)
        try:
            if self._mode is not Mode.CUT:
                await self._carry(link, reader)
        except OSError:
            pass
        finally:
            link.reset()
            self._links.discard(link)

    async def _carry(self, link: "_Link", reader: asyncio.StreamReader) -> None:
        if link.is_lost:
            while await reader.read(_CHUNK):
                continue
            return
        back, onward = await _connect(self._targets)
        link.far = onward
        ways = [asyncio.ensure_future(link.pump(reader, onward)), asyncio.ensure_future(link.pump(back, link.near))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            while link.is_lost and self._mode is Mode.BLACK_HOLE:  # an end is lost as every byte is
                link.has_ended = True
                await asyncio.sleep(0.05)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _end(self) -> None:
        self._mode = Mode.CUT
        self._server.close()
        for link in list(self._links):
            link.reset()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if others:
            await asyncio.wait(others, timeout=_PATIENCE / 2)


Target: TypeAlias = str | tuple[str, int]


async def _connect(targets: Sequence[Target]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for target in targets:
        with suppress(OSError):
            if isinstance(target, str):
                return await asyncio.open_unix_connection(target)
            return await asyncio.open_connection(*target)
    raise ConnectionRefusedError


def _target(url: str) -> Target:
    """Return the socket's path, or the host and port, at which the server of a URL listens."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    folder, port = (parse_qs(parts.query).get(name, [None])[0] for name in ("host", "port"))
    if folder is not None:
        return f"{folder}/.s.PGSQL.{port}"
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def _through(url: str, port: int) -> str:
    parts = urlsplit(url)
    if parts.scheme in ("unix", "redis"):
        return f"redis://127.0.0.1:{port}{'' if parts.scheme == 'unix' else parts.path}"
    if parts.scheme == "http":
        return f"http://127.0.0.1:{port}"
    login = f"{parts.username}:{parts.password}" if parts.password else parts.username
    return f"postgresql://{login}@127.0.0.1:{port}{parts.path}?sslmode=disable"


class _Link:
    """One connection and what it is carried on to. A lost one is read from for ever, and nothing of it arrives."""

    def __init__(self, near: asyncio.StreamWriter) -> None:
        self.near = near
        self.far: asyncio.StreamWriter | None = None
        self.is_lost = False
        self.has_ended = False

    async def pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                if not self.is_lost:
                    sink.write(data)
                    await sink.drain()

    def reset(self) -> None:
        for writer in (self.near, self.far):
            if writer is not None:
                writer.transport.abort()
