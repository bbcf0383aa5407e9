"""Carries HTTP to one server over kept connections, from any thread, on nothing but the standard library."""

import contextlib
import os
import select
import ssl
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from warploom.domain.errors import MalformedInput, Unreachable

CONNECT_SECONDS = 5.0
_KEPT = 4
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_DROPPED = (ConnectionError, HTTPException)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered."""

    status: int
    body: bytes


class Transport:
    """Requests to one server. Idle connections are kept; one that the server closed is replaced unseen."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._parts = _split(self.url)
        self._proxy = _proxy_of(self._parts)
        self._idle: deque[HTTPConnection] = deque(maxlen=_KEPT)

    def close(self) -> None:
        """Close the idle connections; using the transport again opens new ones."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, seconds: float) -> Reply:
        """Send one request and read the whole answer, waiting at most `seconds` for each part of it.

        Raises Unreachable when nobody answers. A kept connection that turns out closed is replaced once.
        """
        kept = self._take()
        if kept is not None:
            with contextlib.suppress(*_DROPPED):
                return self._exchange(kept, (method, path, headers, body), seconds)
        with self._failures(seconds):
            return self._exchange(self._open(), (method, path, headers, body), seconds)

    @contextlib.contextmanager
    def lines(self, path: str, headers: Mapping[str, str], seconds: float) -> Generator[tuple[int, Iterator[bytes]]]:
        """Open a stream and hand over its status and lines; silence of `seconds` raises Unreachable."""
        connection = self._open()
        try:
            with self._failures(seconds):
                response = _ask(connection, ("GET", path, headers, None), seconds)
                yield response.status, iter(response.readline, b"")
        finally:
            connection.close()

    def _exchange(
        self, connection: HTTPConnection, request: tuple[str, str, Mapping[str, str], bytes | None], seconds: float
    ) -> Reply:
        try:
            response = _ask(connection, request, seconds)
            reply = Reply(response.status, response.read())
        except BaseException:
            connection.close()
            raise
        if not response.will_close:
            self._idle.append(connection)
        return reply

    def _take(self) -> HTTPConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not _is_closed(connection):
                return connection
            connection.close()

    def _open(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        there = (host, port) if self._proxy is None else self._proxy
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            connection = HTTPSConnection(*there, timeout=CONNECT_SECONDS, context=context)
        else:
            connection = HTTPConnection(*there, timeout=CONNECT_SECONDS)
        if self._proxy is not None:
            connection.set_tunnel(host, port)
        return connection

    @contextlib.contextmanager
    def _failures(self, seconds: float) -> Generator[None]:
        try:
            yield
        except TimeoutError as error:
            raise Unreachable(
                f"{self.url} did not answer within {seconds:.0f} s.",
                "It may be busy; try again in a moment, and see `warploom doctor` if it stays so.",
            ) from error
        except ssl.SSLError as error:
            raise Unreachable(
                f"{self.url} does not speak TLS that can be trusted: {error.reason or error}.",
                "Check WARPLOOM_URL and the server's certificate.",
            ) from error
        except (OSError, HTTPException) as error:
            raise Unreachable(
                f"No Warploom server answers at {self.url} ({_cause(error)}).", _next(self._parts)
            ) from error


def _ask(
    connection: HTTPConnection, request: tuple[str, str, Mapping[str, str], bytes | None], seconds: float
) -> HTTPResponse:
    method, path, headers, body = request
    if connection.sock is None:
        connection.connect()
    if connection.sock is not None:
        connection.sock.settimeout(seconds)
    connection.request(method, path, body, dict(headers))
    return connection.getresponse()


def _is_closed(connection: HTTPConnection) -> bool:
    """An idle connection with something to read was closed by its server."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_fit = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port >= 0)
        is_fit = is_fit and not parts.path and not parts.query and all(ord(mark) > 32 for mark in url)
    except ValueError:
        parts, is_fit = SplitResult("", "", "", "", ""), False
    if not is_fit:
        raise MalformedInput(
            f"{url[:80]!r} is not the address of a server.", "Set WARPLOOM_URL to something like http://127.0.0.1:8765."
        )
    return parts


def _proxy_of(parts: SplitResult) -> tuple[str, int | None] | None:
    """Find the proxy that the environment names for a server beyond this machine."""
    if parts.hostname in _LOOPBACK or not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - rare, and slow to load

    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    there = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    return (there.hostname, there.port) if there.hostname else None


def _cause(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def _next(parts: SplitResult) -> str:
    if parts.hostname in _LOOPBACK:
        return "`warploom up` starts the local stack; `warploom doctor` says what is wrong with it."
    return "Check WARPLOOM_URL and that the server runs; `warploom doctor` looks at both."
