"""Lets in only who may come: Host and Origin checked on loopback, a key wherever keys are set."""

import base64
import binascii
import hmac
import ipaddress
import json
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warploom.config import Settings
from warploom.domain.callers import Role
from warploom.domain.errors import NotAllowed, WarploomError

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1", "[::1]"})
LARGEST_BODY = 4 * 2**20
_OPEN = frozenset({"/health"})


def is_loopback(address: str) -> bool:
    """Say whether an address is this machine only; a name that merely looks like one is not."""
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address in _LOOPBACK


def require_keys(settings: Settings) -> None:
    """Raise NotAllowed when a server would listen beyond loopback without both keys."""
    if is_loopback(settings.bind) or (settings.key and settings.operator_key):
        return
    raise NotAllowed(
        f"Listening on {settings.bind} without keys would open the cards to everybody.",
        "Set WARPLOOM_KEY and WARPLOOM_OPERATOR_KEY, or listen on 127.0.0.1.",
    )


@dataclass(frozen=True, slots=True)
class _Refused(Exception):
    status: int
    code: str
    cause: str
    next_step: str


class Guard:
    """An ASGI layer before everything else. It leaves the caller's role in the scope."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = _LOOPBACK | {settings.bind} | set(settings.allowed_hosts)
        self._checks_host = is_loopback(settings.bind) or bool(settings.allowed_hosts)
        self._keys = {Role.OPERATOR: settings.operator_key, Role.AGENT: settings.key}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            _check_size(headers)
            self._check_host(headers)
            self._check_origin(headers)
            scope["warploom.role"] = self._role(scope, headers)
        except _Refused as refused:
            await _refuse(refused, send)
            return
        bounded = _Bounded(receive, send)
        with suppress(ClientDisconnect):
            await self._app(scope, bounded.receive, bounded.send)
        await bounded.close()

    def _check_host(self, headers: Headers) -> None:
        host = _hostname(headers.get("host", ""))
        if self._checks_host and host not in self._hosts:
            raise _Refused(
                421,
                "not_allowed",
                f"This server does not answer to the name {host[:80]!r}.",
                "Use the address it printed when it started.",
            )

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin is None:
            return
        if _netloc(origin) != headers.get("host", ""):
            raise _Refused(
                403,
                "not_allowed",
                "That request comes from another site.",
                "Call from the server's own pages, or without a browser.",
            )

    def _role(self, scope: Scope, headers: Headers) -> Role:
        if not any(self._keys.values()) or scope["path"] in _OPEN:
            return Role.OPERATOR
        given = _given_key(headers)
        for role, key in self._keys.items():
            if key and given is not None and hmac.compare_digest(given.encode(), key.encode()):
                return role
        raise _Refused(401, "not_allowed", "No valid key was given.", "Set WARPLOOM_KEY to the key of this server.")


def _check_size(headers: Headers) -> None:
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or int(length) > LARGEST_BODY:
        raise _too_large()


def _too_large() -> _Refused:
    return _Refused(413, "malformed", "That body is larger than 4 MiB.", "Send less at once.")


class _Bounded:
    """Cuts a body without a stated length off once it is too large, and refuses it whatever the app makes of that."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._taken = 0
        self._is_answered = False

    @property
    def is_over(self) -> bool:
        """Say whether more came than may come."""
        return self._taken > LARGEST_BODY

    async def receive(self) -> Message:
        """Pass a piece on; what is too large looks like a client that went away."""
        message = await self._receive()
        self._taken += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self.is_over else message

    async def send(self, message: Message) -> None:
        """Pass the answer on, unless a refusal takes its place."""
        if self.is_over and not self._is_answered:
            return
        self._is_answered = True
        await self._send(message)

    async def close(self) -> None:
        """Refuse what was too large."""
        if self.is_over and not self._is_answered:
            await _refuse(_too_large(), self._send)


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


def _given_key(headers: Headers) -> str | None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return None
    return None


def error_body(error: WarploomError | _Refused) -> dict[str, dict[str, str]]:
    """Return an error as every route shows it: code, one sentence of cause, one of what to do next."""
    return {"error": {"code": error.code, "cause": error.cause, "next": error.next_step}}


async def _refuse(refused: _Refused, send: Send) -> None:
    body = json.dumps(error_body(refused)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status == 401:
        headers.append((b"www-authenticate", b'Basic realm="Warploom", charset="UTF-8"'))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
