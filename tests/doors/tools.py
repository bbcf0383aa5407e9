"""Agents that call the tools of a real server over MCP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from fastmcp.client.progress import ProgressHandler
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError


class Agent:
    """One agent's MCP client."""

    def __init__(self, client: Client[Any]) -> None:
        self._client = client

    async def call(self, tool: str, hear: ProgressHandler | None = None, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return what it answers; raise ToolError when it refuses. `hear` is told of its progress."""
        result = await self._client.call_tool(tool, arguments, progress_handler=hear)
        assert result.structured_content is not None
        return result.structured_content

    async def refusal(self, tool: str, **arguments: Any) -> str:
        """Call a tool that must refuse, and return what it says."""
        try:
            answer = await self._client.call_tool(tool, arguments)
        except ToolError as error:
            return str(error)
        raise AssertionError(answer)

    async def standing(self) -> dict[str, list[tuple[str, str]]]:
        """Return what loom_me says: leases and tickets with their states."""
        me = await self.call("loom_me")
        return {
            "leases": [(each["lease"], each["state"]) for each in me["leases"]],
            "tickets": [(each["ticket"], each["state"]) for each in me["tickets"]],
        }


@asynccontextmanager
async def agent_at(
    url: str,
    name: str | None = None,
    *,
    mode: Any = "auto",
    key: str | None = None,
    project: str | None = None,
    toolsets: str | None = None,
) -> AsyncGenerator[Agent]:
    """Connect an agent to a server; the session is the one of that name on every replica."""
    named = {"X-Warploom-Agent": name, "X-Warploom-Session": name} if name else {}
    headers = named | ({"Authorization": f"Bearer {key}"} if key else {})
    headers |= {"X-Warploom-Project": project} if project else {}
    address = f"{url}/mcp{f'?toolsets={toolsets}' if toolsets else ''}"
    async with Client(StreamableHttpTransport(address, headers=headers), mode=mode) as client:
        yield Agent(client)
