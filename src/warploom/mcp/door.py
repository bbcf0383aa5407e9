"""The MCP door: every tool of the toolsets that this server offers."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastmcp import FastMCP

from warploom.app import App
from warploom.domain.instructions import INSTRUCTIONS
from warploom.mcp.arguments import ArgumentCheck
from warploom.mcp.callers import Desk, Reader
from warploom.mcp.cards import CardTools
from warploom.mcp.leases import LeaseTools
from warploom.mcp.sessions import SessionTools
from warploom.mcp.tickets import TicketTools

Tool = Callable[..., Awaitable[dict[str, Any]]]


def every_tool(desk: Desk) -> list[Tool]:
    """List the tools in the order in which clients show them."""
    cards, tickets, leases, sessions = CardTools(desk), TicketTools(desk), LeaseTools(desk), SessionTools(desk)
    return [
        cards.gpu_survey,
        tickets.gpu_request,
        leases.gpu_release,
        leases.gpu_extend,
        leases.gpu_report,
        tickets.gpu_explain,
        sessions.loom_me,
    ]


def build_mcp(app: App, read: Reader, version: str) -> FastMCP[Any]:
    """Build the MCP server; all its state is in Postgres, so any replica serves any call."""
    server: FastMCP[Any] = FastMCP(
        "warploom",
        instructions=INSTRUCTIONS,
        version=version,
        mask_error_details=True,
        middleware=[ArgumentCheck()],
    )
    for tool in every_tool(Desk(app, read)):
        server.tool(tool)
    return server
