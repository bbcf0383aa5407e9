"""One call of our own HTTP API: sent with the caller's headers, answered with the domain's values or its errors."""

from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from warploom.client.identity import headers_of
from warploom.client.transport import Transport
from warploom.domain.callers import Caller
from warploom.domain.errors import NotAllowed, Unreachable, WarploomError, every_error

T = TypeVar("T")

ANSWER_SECONDS = 20.0
LONGEST_POLL = 55
_ERRORS: dict[str, type[WarploomError]] = {error.code: error for error in every_error()}


class Calls:
    """What the calls about every noun stand on: a connection to one server on behalf of one caller.

    Safe to use from several threads.
    """

    def __init__(self, url: str, caller: Caller | None = None, key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._transport = Transport(url)
        self._headers = {"Accept": "application/json", **headers_of(caller or Caller(), key)}

    def close(self) -> None:
        """Close the kept connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, path: str, kind: type[T], body: Any = None, seconds: float = ANSWER_SECONDS) -> T:
        content = None if body is None else msgspec.json.encode(body)
        headers = self._headers if content is None else self._headers | {"Content-Type": "application/json"}
        reply = self._transport.send(method, path, headers, content, seconds)
        if reply.status >= 300:
            raise self._refusal(reply.status, reply.body)
        return self._decode(reply.body, kind)

    def _poll(self, path: str, kind: type[T], seconds: float, **query: Any) -> T:
        """Ask for an answer that may come only after `seconds`, of which the server allows at most 55."""
        bounded = min(max(seconds, 0), LONGEST_POLL)
        asked = f"{path}{query_of(seconds=f'{bounded:g}', **query)}"
        return self._call("GET", asked, kind, seconds=bounded + ANSWER_SECONDS)

    def _decode(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise Unreachable(
                f"{self.url} answered in a way that this version does not understand: {error}.",
                "Check that WARPLOOM_URL names a Warploom server, and use the same version here and there.",
            ) from error

    def _refusal(self, status: int, body: bytes) -> WarploomError:
        try:
            told = msgspec.json.decode(body, type=_Refusal).error
        except msgspec.DecodeError:
            return self._strange(status)
        return _ERRORS.get(told.code, WarploomError)(told.cause, told.next)

    def _strange(self, status: int) -> WarploomError:
        if status in (401, 403):
            return NotAllowed(f"{self.url} refused the call.", "Set WARPLOOM_KEY to the key of that server.")
        return Unreachable(
            f"{self.url} answered {status}, not as a Warploom server does.",
            "Check that WARPLOOM_URL names a Warploom server, and try again in a moment.",
        )


class _Told(msgspec.Struct):
    code: str
    cause: str
    next: str = ""


class _Refusal(msgspec.Struct):
    error: _Told


def part(text: str) -> str:
    """Write a name as one part of a path, whatever it holds."""
    return quote(text.strip(), safe="") or "-"


def query_of(**values: Any) -> str:
    """Write values as the query of a path, leaving out those that are None; a list is given once for each."""
    given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
    text = urlencode({name: value for name, value in given.items() if value is not None}, doseq=True)
    return f"?{text}" if text else ""
