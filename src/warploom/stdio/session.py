"""One agent session: answers its client at once, forwards its tool calls, and lives exactly as long as the client."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from io import TextIOWrapper
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from warploom.client.completions import Teller
from warploom.client.connection import Client
from warploom.client.holdings import Holdings, claims_in, server_of
from warploom.client.identity import client_caller, headers_of
from warploom.client.markers import Completions
from warploom.config import Settings
from warploom.domain.deliveries import DeliveryWay
from warploom.domain.errors import Unreachable, WarploomError
from warploom.domain.instructions import INSTRUCTIONS
from warploom.domain.processes import ProcessIdentity
from warploom.domain.tickets import Heartbeat
from warploom.domain.toolsets import HEADER as TOOLSETS_HEADER
from warploom.stdio.channel import CAPABILITY, Channel
from warploom.stdio.heartbeat import Pulse, interval_for
from warploom.stdio.parent import wait_for_end
from warploom.stdio.stack import Stack
from warploom.stdio.upstream import NotSent, Upstream
from warploom.stdio.waits import WAIT, insist
from warploom.stdio.wire import Wire

START_PATIENCE_SECONDS = 24.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_EXPERIMENTAL: dict[str, dict[str, Any]] = {CAPABILITY: {}}

T = TypeVar("T")


class Session:
    """The MCP server of one client, which knows no tools of its own."""

    def __init__(self, settings: Settings, stack: Stack, lifeline: Sequence[ProcessIdentity]) -> None:
        self._settings = settings
        self._stack = stack
        self._lifeline = lifeline
        self._caller = client_caller(settings, lifeline)
        self._holdings = Holdings(settings.home, server_of(settings))
        self._channel = Channel()
        self._pulse = Pulse(self._connect, interval_for(settings.lease_time), DeliveryWay.CHANNEL, self._hear)
        self._upstream = Upstream(stack.url, self._headers, is_local=_is_local(stack.url()))
        self._is_introduced = False
        self._owes_tools = False

    async def serve(self, wire: Wire) -> None:
        """Serve the client until it closes the wire."""
        server = self._server()
        options = server.create_initialization_options(NotificationOptions(tools_changed=True), _EXPERIMENTAL)
        reading = anyio.wrap_file(TextIOWrapper(os.fdopen(wire.reading, "rb"), encoding="utf-8", errors="replace"))
        writing = anyio.wrap_file(TextIOWrapper(os.fdopen(wire.writing, "wb"), encoding="utf-8"))
        threading.Thread(target=self._end_with_client, name="lifeline", daemon=True).start()
        async with stdio_server(reading, writing) as (read_stream, write_stream):
            await server.run(read_stream, write_stream, options)

    def _server(self) -> Server[Any]:
        server: Server[Any] = Server(
            "warploom",
            version=version("warploom"),
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        server.middleware.append(self._meet)
        server.add_request_handler("server/discover", types.RequestParams, self._discover)
        return server

    async def _meet(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Learn who the client is from the first message that says so; only then is there a session to keep alive."""
        client = ctx.session.client_params
        if not self._is_introduced and (client is not None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS):
            self._is_introduced = True
            self._caller = replace(self._caller, client=client.client_info.name if client else None)
            self._channel.open(ctx.session)
            self._pulse.start()
        return await call_next(ctx)

    async def _discover(self, context: ServerRequestContext[Any, Any], _: types.RequestParams) -> types.DiscoverResult:
        capabilities = types.ServerCapabilities(
            tools=types.ToolsCapability(list_changed=False), experimental=_EXPERIMENTAL
        )
        return types.DiscoverResult(
            supported_versions=[context.protocol_version], capabilities=capabilities, instructions=INSTRUCTIONS
        )

    async def _list_tools(
        self, _: ServerRequestContext[Any, Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        try:
            return await self._reach(self._upstream.list_tools)
        except WarploomError as error:
            self._owes_tools = True
            raise MCPError(types.INTERNAL_ERROR, str(error), {"code": error.code}) from error

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        wants_progress = "progress_token" in (context.meta or {})
        on_progress = context.session.report_progress if wants_progress else None

        async def send() -> types.CallToolResult:
            return await self._reach(lambda: self._upstream.call_tool(params.name, params.arguments, on_progress))

        try:
            result = await (insist(send, params.arguments) if params.name == WAIT else send())
        except WarploomError as error:
            return types.CallToolResult(content=[_text(f"{error.code}: {error}")], is_error=True)
        if params.name == "loom_claim":
            await asyncio.to_thread(self._remember, result.structured_content)
        return result

    def _remember(self, content: Any) -> None:
        """Write claims down, so that shells of this session can name the lease while no server can be reached."""
        for task, lease in claims_in(content):
            self._holdings.remember(task, lease, self._caller)

    async def _reach(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request; where no server takes it and the stack is ours, start the stack and send it once more."""
        try:
            return await send()
        except NotSent:
            if not self._stack.is_ours:
                raise
        await self._started()
        self._pulse.beat_now()
        return await send()

    async def _started(self) -> None:
        start = asyncio.shield(asyncio.wrap_future(self._stack.start()))
        try:
            await asyncio.wait_for(start, START_PATIENCE_SECONDS)
        except TimeoutError:
            raise Unreachable(
                f"The local stack is still starting after {START_PATIENCE_SECONDS:.0f} s.",
                "Call again in a moment; `warploom doctor` says what it waits for.",
            ) from None

    def _connect(self) -> Client:
        return Client(self._stack.url(), self._caller, self._settings.key)

    def _headers(self) -> dict[str, str]:
        toolsets = ",".join(self._settings.toolsets)
        wanted = {TOOLSETS_HEADER: toolsets} if toolsets else {}
        return headers_of(self._caller, self._settings.key) | wanted

    def _hear(self, answer: Heartbeat) -> None:
        self._channel.push(answer)
        if self._owes_tools:
            self._owes_tools = False
            self._channel.announce_tools()
        self._tell_completions()

    def _tell_completions(self) -> None:
        """Tell what shells of this home wrote down while the server was away; this session's beats keep those leases."""
        if Completions(self._settings.home).waiting():
            with self._connect() as client:
                Teller(self._settings.home, server_of(self._settings), lambda: client).scan(execute=True)

    def _end_with_client(self) -> None:
        if self._lifeline:
            wait_for_end(self._lifeline)
            leave()


def leave() -> None:
    """End the process at once. Nothing needs tidying up: every truth is on the server, every message was flushed."""
    os._exit(0)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _is_local(url: str) -> bool:
    return urlsplit(url).hostname in _LOOPBACK
