"""The MCP door: every tool, in toolsets of which each connection sees those it asked for."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastmcp import FastMCP

from warploom.app import App
from warploom.domain.instructions import INSTRUCTIONS
from warploom.domain.toolsets import USUAL, Toolset
from warploom.mcp.arguments import ArgumentCheck
from warploom.mcp.callers import Desk, Reader
from warploom.mcp.cards import CardTools
from warploom.mcp.claims import ClaimTools
from warploom.mcp.graphs import GraphTools
from warploom.mcp.leases import LeaseTools
from warploom.mcp.messages import MessageTools
from warploom.mcp.projects import ProjectTools
from warploom.mcp.repairs import RepairTools
from warploom.mcp.sessions import SessionTools
from warploom.mcp.tasks import TaskTools
from warploom.mcp.tickets import TicketTools
from warploom.mcp.toolsets import ToolsetGate

Tool = Callable[..., Awaitable[dict[str, Any]]]


def tools_of(desk: Desk) -> dict[Toolset, list[Tool]]:
    """List the tools of each toolset in the order in which clients show them."""
    return {Toolset.GPU: _gpu(desk), Toolset.GRAPH: _graph(desk), Toolset.ADMIN: _admin(desk)}


def every_tool(desk: Desk) -> list[Tool]:
    """List all tools, toolset by toolset."""
    return [tool for tools in tools_of(desk).values() for tool in tools]


def build_mcp(app: App, read: Reader, version: str) -> FastMCP[Any]:
    """Build the MCP server; all its state is in Postgres, so any replica serves any call."""
    tools = tools_of(Desk(app, read))
    toolset_of = {tool.__name__: toolset for toolset, each in tools.items() for tool in each}
    server: FastMCP[Any] = FastMCP(
        "warploom",
        instructions=INSTRUCTIONS,
        version=version,
        mask_error_details=True,
        middleware=[ToolsetGate(toolset_of, app.settings.toolsets or USUAL), ArgumentCheck()],
    )
    for each in tools.values():
        for tool in each:
            server.tool(tool)
    return server


def _gpu(desk: Desk) -> list[Tool]:
    cards, tickets, leases = CardTools(desk), TicketTools(desk), LeaseTools(desk)
    return [
        cards.gpu_survey,
        tickets.gpu_request,
        tickets.gpu_wait,
        leases.gpu_release,
        leases.gpu_extend,
        leases.gpu_report,
        tickets.gpu_explain,
    ]


def _graph(desk: Desk) -> list[Tool]:
    sessions, messages = SessionTools(desk), MessageTools(desk)
    tasks, claims, graphs = TaskTools(desk), ClaimTools(desk), GraphTools(desk)
    return [
        sessions.loom_me,
        tasks.loom_ready,
        claims.loom_claim,
        claims.loom_heartbeat,
        claims.loom_done,
        claims.loom_fail,
        claims.loom_escalate,
        tasks.loom_create,
        tasks.loom_update,
        tasks.loom_status,
        graphs.loom_graph,
        graphs.loom_explain,
        tasks.loom_await,
        tasks.loom_comment,
        tasks.loom_idea,
        messages.loom_message,
        messages.loom_reply,
    ]


def _admin(desk: Desk) -> list[Tool]:
    repairs, projects = RepairTools(desk), ProjectTools(desk)
    return [
        repairs.loom_reset,
        repairs.loom_cancel,
        repairs.loom_batch_done,
        repairs.loom_dead_letter,
        repairs.loom_recover,
        repairs.loom_orchestrate,
        repairs.loom_escalations,
        repairs.loom_answer,
        repairs.loom_promote_ideas,
        repairs.loom_batch_claim,
        projects.loom_projects,
        projects.loom_create_project,
        projects.loom_switch_project,
        projects.loom_archive_project,
    ]
