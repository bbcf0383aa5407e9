"""Each connection sees the tools of the toolsets it asked for, and is told how to get the others."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import MCPError

from support.serving import ServerProcess, server_processes
from warploom.domain.errors import MalformedInput
from warploom.domain.toolsets import HEADER, Toolset, read_toolsets


@pytest.fixture(scope="module")
def both(
    module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[list[ServerProcess]]:
    """One server that says nothing of toolsets, and one whose setting is gpu."""
    common: dict[str, object] = {"database_url": module_database_url, "redis_url": redis_url}
    with server_processes(tmp_path_factory.mktemp("servers"), common, common | {"toolsets": "gpu"}) as both:
        yield both


@asynccontextmanager
async def connected(
    server: ServerProcess, query: str = "", header: str | None = None, mode: Any = "auto"
) -> AsyncGenerator[Client[Any]]:
    headers = {} if header is None else {HEADER: header}
    async with Client(StreamableHttpTransport(f"{server.url}/mcp{query}", headers=headers), mode=mode) as client:
        yield client


async def names(client: Client[Any]) -> set[str]:
    return {tool.name for tool in await client.list_tools()}


def groups(shown: set[str]) -> set[str]:
    """Tell toolsets by a tool of each."""
    signs = {"gpu_request": "gpu", "loom_claim": "graph", "loom_reset": "admin"}
    assert "loom_me" in shown
    return {group for sign, group in signs.items() if sign in shown}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    ("query", "header", "expected"),
    [
        ("", None, {"gpu", "graph"}),
        ("?toolsets=gpu", None, {"gpu"}),
        ("?toolsets=graph", None, {"graph"}),
        ("?toolsets=admin,GPU", None, {"gpu", "admin"}),
        ("?toolsets=graph&toolsets=admin", None, {"graph", "admin"}),
        ("?toolsets=all", None, {"gpu", "graph", "admin"}),
        ("?toolsets=", None, {"gpu", "graph"}),
        ("", "graph, admin", {"graph", "admin"}),
        ("?toolsets=gpu", "all", {"gpu"}),
    ],
)
async def test_a_connection_sees_what_it_asked_for(
    both: list[ServerProcess], query: str, header: str | None, expected: set[str], mode: str
) -> None:
    async with connected(both[0], query, header, mode) as client:
        assert groups(await names(client)) == expected


async def test_the_setting_is_for_those_who_ask_for_nothing(both: list[ServerProcess]) -> None:
    async with connected(both[1]) as silent, connected(both[1], header="graph") as asking:
        assert groups(await names(silent)) == {"gpu"}
        assert groups(await names(asking)) == {"graph"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_tool_outside_is_refused_with_how_to_get_it(both: list[ServerProcess], mode: str) -> None:
    async with connected(both[0], mode=mode) as client:
        with pytest.raises(ToolError) as refused:
            await client.call_tool("loom_reset", {"task_id": "T-1"})
    assert str(refused.value) == (
        "not_allowed: loom_reset is in the toolset admin, which this connection does not have. Do without it, or have "
        "the user connect with WARPLOOM_TOOLSETS=gpu,graph,admin (over HTTP: ?toolsets=gpu,graph,admin)."
    )


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_toolset_that_does_not_exist_is_named(both: list[ServerProcess], mode: str) -> None:
    told = "'gpus' is not a toolset. Use gpu, graph and admin with commas between, or all."
    async with connected(both[0], "?toolsets=gpus", mode=mode) as client:
        with pytest.raises(MCPError, match="'gpus' is not a toolset"):
            await client.list_tools()
        with pytest.raises(ToolError) as refused:
            await client.call_tool("loom_me", {})
    assert str(refused.value) == f"malformed: {told}"


async def test_a_tool_that_does_not_exist_is_in_no_toolset(both: list[ServerProcess]) -> None:
    async with connected(both[0], "?toolsets=gpu") as client:
        with pytest.raises(ToolError, match="There is no tool 'loom_fly'"):
            await client.call_tool("loom_fly", {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (" , ", ()),
        ("admin,gpu,admin", (Toolset.GPU, Toolset.ADMIN)),
        ("ALL", tuple(Toolset)),
        ("gpu,all", tuple(Toolset)),
    ],
)
def test_toolsets_are_read_each_once_in_their_own_order(text: str, expected: tuple[Toolset, ...]) -> None:
    assert read_toolsets(text) == expected


@pytest.mark.parametrize("text", ["gpus", "gpu;graph", "gpu graph", "\x00", "x" * 100_000])
def test_what_is_no_toolset_is_refused_shortly(text: str) -> None:
    with pytest.raises(MalformedInput) as refused:
        read_toolsets(text)
    assert len(str(refused.value)) < 200
