"""What an agent's client sees through the stdio server is what the server has, from whichever protocol era it comes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from rawclient import RawClient, environment_for
from standin import StandIn

from warploom.client.processes import identity_of
from warploom.domain.instructions import INSTRUCTIONS


def _client(server: StandIn, home: Path, mode: str, **further: str) -> Client[StdioTransport]:
    environment = environment_for(server.url, home, **further)
    transport = StdioTransport(
        sys.executable, ["-m", "warploom.stdio"], env=environment, cwd=str(home), keep_alive=False
    )
    return Client(transport, mode=mode)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_forwarded_tools_are_described_as_the_server_describes_them(
    server: StandIn, tmp_path: Path, mode: str
) -> None:
    async with Client(f"{server.url}/mcp", mode=mode) as direct:
        there = [tool.model_dump() for tool in await direct.list_tools()]

    async with _client(server, tmp_path, mode) as client:
        here = [tool.model_dump() for tool in await client.list_tools()]

    assert here == there
    assert {tool["name"] for tool in here} == {"gpu_request", "gpu_release", "gpu_wait", "gpu_block"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_call_carries_its_arguments_there_and_its_result_back(
    server: StandIn, tmp_path: Path, mode: str
) -> None:
    async with _client(server, tmp_path, mode) as client:
        result = await client.call_tool("gpu_request", {"job": "prüfen <b>", "device": "0", "minutes": 2.5})

    assert result.structured_content == {"ticket": "T-18", "job": "prüfen <b>", "device": "0", "minutes": 2.5}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_error_of_a_tool_reaches_the_agent_word_for_word(server: StandIn, tmp_path: Path, mode: str) -> None:
    async with _client(server, tmp_path, mode) as client:
        with pytest.raises(ToolError, match="lease_lost: L-9 ended at 14:23:10 UTC"):
            await client.call_tool("gpu_release", {"lease": "L-9"})


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_progress_of_a_long_tool_reaches_the_agent(server: StandIn, tmp_path: Path, mode: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with _client(server, tmp_path, mode) as client:
        result = await client.call_tool("gpu_wait", {"ticket": "T-18"}, progress_handler=on_progress)

    assert result.data == "granted"
    assert told == [(1.0, 2.0, "T-18 waits")]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_each_call_says_whose_session_it_is(server: StandIn, tmp_path: Path, mode: str) -> None:
    settings = {"WARPLOOM_AGENT": "Jörg", "WARPLOOM_KEY": "secret", "WARPLOOM_SESSION": "one", "WARPLOOM_PROJECT": "p"}
    async with _client(server, tmp_path, mode, **settings) as client:
        await client.call_tool("gpu_request", {"job": "a"})

    own = identity_of(os.getpid())
    assert own is not None
    assert server.seen.calls[0] == {
        "authorization": "Bearer secret",
        "agent": "Jörg",
        "client": "fastmcp",
        "directory": str(tmp_path),
        "host": "local",
        "process": f"{own.pid}:{own.started}",
        "project": "p",
        "session": "one",
    }


def test_a_launcher_in_between_is_not_taken_for_the_client(
    connect: Callable[..., RawClient], server: StandIn, tmp_path: Path
) -> None:
    script = tmp_path / "start.sh"
    script.write_text(f"{sys.executable} -m warploom.stdio\nexit $?\n")
    client = connect(("sh", str(script)))
    client.introduce()

    client.call("gpu_request", job="a")

    own = identity_of(os.getpid())
    assert own is not None
    assert server.seen.calls[0]["process"] == f"{own.pid}:{own.started}"


def test_the_client_is_told_what_warploom_is_and_that_grants_may_be_pushed(connect: Callable[..., RawClient]) -> None:
    answer = connect().introduce()

    assert answer["serverInfo"]["name"] == "warploom"
    assert answer["instructions"] == INSTRUCTIONS
    assert answer["capabilities"]["experimental"] == {"claude/channel": {}}
    assert answer["capabilities"]["tools"] == {"listChanged": True}


def test_an_unknown_tool_is_refused_as_the_server_refuses_it(connect: Callable[..., RawClient]) -> None:
    client = connect()
    client.introduce()

    answer = client.call("gpu_steal")

    assert answer["isError"]
    assert "gpu_steal" in answer["content"][0]["text"]
