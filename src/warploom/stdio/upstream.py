"""Forwards MCP requests to the server's `/mcp`, one stateless exchange each, so that no session can go stale."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import httpx2
import mcp_types as types
import msgspec
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel

from warploom.domain.errors import NotAllowed, Unreachable, WarploomError

SILENCE_SECONDS = 60.0
"""A tool that takes longer tells of its progress more often than this."""
_CONNECT_SECONDS = 5.0
_LARGEST_ANSWER = 16 * 1024 * 1024
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout)
_RETRY = "Call loom_me to see where you stand, then call again; asking twice for the same purpose is safe."
# The protocol version that needs no handshake; the server is of our own release.
_AGREED = types.DiscoverResult(
    supported_versions=[LATEST_MODERN_VERSION], capabilities=types.ServerCapabilities(), ttl_ms=0, cache_scope="private"
)

ResultT = TypeVar("ResultT", bound=BaseModel)


class NotSent(Unreachable):
    """No server was there to take the request, so it may be sent again without fear of doing a thing twice."""


class Upstream:
    """The server's MCP door. `address` and `headers` are asked anew for each exchange, since both may change."""

    def __init__(self, address: Callable[[], str], headers: Callable[[], Mapping[str, str]], *, is_local: bool) -> None:
        self._address = address
        self._headers = headers
        # A proxy that the environment names is for the world outside, never for this machine.
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=SILENCE_SECONDS),
            trust_env=not is_local,
            event_hooks={"request": [self._sign], "response": [_refuse]},
        )

    async def list_tools(self) -> types.ListToolsResult:
        """Return every tool with its schema, as the server describes it."""
        return await self._exchange(types.ListToolsRequest(), types.ListToolsResult)

    async def call_tool(
        self, name: str, arguments: dict[str, object] | None, on_progress: ProgressFnT | None
    ) -> types.CallToolResult:
        """Call one tool and return its result as it is, errors of the tool included.

        Raises NotSent, Unreachable or NotAllowed where there was no answer, MCPError where the protocol refused.
        """
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))
        return await self._exchange(request, types.CallToolResult, on_progress)

    async def _exchange(
        self, request: types.ClientRequest, kind: type[ResultT], on_progress: ProgressFnT | None = None
    ) -> ResultT:
        url = self._address()
        try:
            async with self._session(f"{url}/mcp") as session:
                return await session.send_request(request, kind, progress_callback=on_progress)
        except Exception as error:
            raise _told(_root(error), url) from error

    @asynccontextmanager
    async def _session(self, url: str) -> AsyncGenerator[ClientSession]:
        async with (
            streamable_http_client(url, http_client=self._http, max_sse_event_size=_LARGEST_ANSWER) as (
                reading,
                writing,
            ),
            ClientSession(reading, writing) as session,
        ):
            session.adopt(_AGREED)
            yield session

    async def _sign(self, request: httpx2.Request) -> None:
        request.headers.update(self._headers())


class _Words(msgspec.Struct):
    cause: str
    next: str


class _Refusal(msgspec.Struct):
    error: _Words


async def _refuse(response: httpx2.Response) -> None:
    """Raise for an answer that is none of the protocol's: the key was refused, or the server failed."""
    if response.status_code in (401, 403):
        words = _Words(f"{response.url.host} refused the key of this session.", "Set WARPLOOM_KEY to the server's key.")
        raise NotAllowed(*await _reasons(response, words))
    if response.status_code >= 500:
        words = _Words(
            f"The server failed with {response.status_code}; the call may or may not have been done.", _RETRY
        )
        raise Unreachable(*await _reasons(response, words))


async def _reasons(response: httpx2.Response, otherwise: _Words) -> tuple[str, str]:
    try:
        words = msgspec.json.decode(await response.aread(), type=_Refusal).error
    except msgspec.DecodeError:
        words = otherwise
    return words.cause, words.next


def _root(error: BaseException) -> BaseException:
    """Find what really went wrong inside the groups that concurrent tasks wrap it in, a failed transport first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    inner = [_root(part) for part in cast("BaseExceptionGroup[BaseException]", error).exceptions]
    return next((part for part in inner if isinstance(part, httpx2.HTTPError | WarploomError)), inner[0])


def _told(error: BaseException, url: str) -> BaseException:
    if isinstance(error, _NOT_SENT):
        return NotSent(f"No Warploom server answers at {url}.", "`warploom doctor` says why; then call again.")
    if isinstance(error, httpx2.HTTPError) or (isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED):
        return Unreachable(
            f"The server at {url} stopped answering in the middle of this call, which may or may not have been done.",
            _RETRY,
        )
    return error
