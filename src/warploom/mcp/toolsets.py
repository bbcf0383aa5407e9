"""Shows each connection the tools of its toolsets only, and says how to get the others."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import mcp_types as types
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool
from mcp.shared.exceptions import MCPError

from warploom.domain.errors import MalformedInput, NotAllowed
from warploom.domain.toolsets import HEADER, Toolset, read_toolsets
from warploom.mcp.callers import tell_error

IN_EVERY: Final = frozenset({"loom_me"})


class ToolsetGate(Middleware):
    """Asks each request for its toolsets: `?toolsets=` of its address, else the header, else the server's setting."""

    def __init__(self, toolset_of: Mapping[str, Toolset], usual: Sequence[Toolset]) -> None:
        self._toolset_of = toolset_of
        self._usual = tuple(usual)

    async def on_list_tools(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Leave out what the connection did not ask for; raise MCPError where it asked for what there is not."""
        try:
            chosen = self._chosen()
        except MalformedInput as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        return [tool for tool in await call_next(context) if self._is_in(tool.name, chosen)]

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Call the tool; raise ToolError that says how to get it where it is in no toolset of the connection."""
        name = str(context.message.name)
        try:
            chosen = self._chosen()
        except MalformedInput as error:
            raise ToolError(tell_error(error)) from error
        if not self._is_in(name, chosen):
            raise ToolError(tell_error(_refusal(name, self._toolset_of[name], chosen)))
        return await call_next(context)

    def _chosen(self) -> tuple[Toolset, ...]:
        request = get_http_request()
        asked = ",".join(request.query_params.getlist("toolsets")) or request.headers.get(HEADER, "")
        return read_toolsets(asked) or self._usual

    def _is_in(self, name: str, chosen: Sequence[Toolset]) -> bool:
        """Say whether a connection has a tool; one that does not exist is somebody else's to refuse."""
        return name in IN_EVERY or self._toolset_of.get(name) in (None, *chosen)


def _refusal(name: str, toolset: Toolset, chosen: Sequence[Toolset]) -> NotAllowed:
    wanted = ",".join([*chosen, toolset])
    return NotAllowed(
        f"{name} is in the toolset {toolset.value}, which this connection does not have.",
        f"Do without it, or have the user connect with WARPLOOM_TOOLSETS={wanted} (over HTTP: ?toolsets={wanted}).",
    )
