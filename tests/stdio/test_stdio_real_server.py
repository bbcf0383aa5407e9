"""Two agents over stdio share one card of a real server: asked for, queued for, pushed, accepted, released."""

import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from rawclient import RawClient, environment_for
from standin import PATIENCE, free_port


def _run(stack: ExitStack, module: str, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    output = stack.enter_context(log.open("wb"))
    process = subprocess.Popen([sys.executable, "-m", module], env=environment, stdout=output, stderr=output)
    stack.callback(process.wait, PATIENCE)
    stack.callback(process.terminate)
    return process


def _until_healthy(url: str, log: Path) -> None:
    for _ in range(int(PATIENCE / 0.05)):
        with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=1):
            return
        threading.Event().wait(0.05)
    raise AssertionError(log.read_text())


@pytest.fixture
def real_server(database_url: str, redis_url: str, tmp_path: Path) -> Generator[str]:
    """A server and a host agent with two fake cards; gives the server's address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {
        "WARPLOOM_DATABASE_URL": database_url,
        "WARPLOOM_REDIS_URL": redis_url,
        "WARPLOOM_PORT": str(port),
        "WARPLOOM_FAKE_GPUS": "2",
        "WARPLOOM_SURVEY_SECONDS": "0.3",
    }
    with ExitStack() as stack:
        _run(stack, "warploom.server", environment_for(None, tmp_path, **settings), tmp_path / "server.log")
        _until_healthy(url, tmp_path / "server.log")
        _run(stack, "warploom.host", environment_for(url, tmp_path, **settings), tmp_path / "host.log")
        yield url


@pytest.fixture
def agent(real_server: str, tmp_path: Path) -> Generator[Any]:
    """Start raw sessions of agents by name; each is a session of its own though one process starts them all."""
    clients: list[RawClient] = []

    def start(name: str) -> RawClient:
        environment = environment_for(
            real_server, tmp_path, WARPLOOM_SESSION=name, WARPLOOM_AGENT=name, WARPLOOM_LEASE_MINUTES="10"
        )
        clients.append(RawClient(environment, tmp_path))
        clients[-1].introduce()
        return clients[-1]

    yield start
    for client in clients:
        client.close()


def _answer(client: RawClient, tool: str, **arguments: Any) -> dict[str, Any]:
    result = client.call(tool, **arguments)
    assert not result.get("isError"), result
    return result["structuredContent"]


def _hold_card_0(client: RawClient) -> dict[str, Any]:
    """Ask until the first survey has come in and the card can be had."""
    result: dict[str, Any] = {}
    for _ in range(int(PATIENCE / 0.1)):
        result = client.call("gpu_request", job="train", device="0", minutes=30)
        if not result.get("isError") and result["structuredContent"]["state"] == "active":
            return result["structuredContent"]
        threading.Event().wait(0.1)
    raise AssertionError(result)


def _is_push(message: dict[str, Any]) -> bool:
    return message.get("method") == "notifications/claude/channel"


def _tickets(entries: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(entry["ticket"], entry["state"]) for entry in entries]


def test_a_card_goes_from_one_agent_to_the_next_with_one_push(agent: Any) -> None:
    first, second = agent("one"), agent("two")
    held = _hold_card_0(first)
    assert _answer(first, "loom_me")["leases"][0]["lease"] == held["lease"]

    queued = _answer(second, "gpu_request", job="eval", device="0", minutes=5)
    assert (queued["state"], queued["place"], queued["also_free"]) == ("queued", 1, ["local/1"])
    assert _tickets(_answer(second, "loom_me")["tickets"]) == [(queued["ticket"], "queued")]

    _answer(first, "gpu_release", lease=held["lease"])
    push = second.expect(lambda message: message.get("method") == "notifications/claude/channel")

    lease = push["params"]["meta"]["lease"]
    assert push["params"]["meta"]["ticket"] == queued["ticket"]
    assert re.search(rf"^export .*WARPLOOM_LEASE={lease}\b", push["params"]["content"], re.MULTILINE)
    assert _answer(second, "loom_me")["leases"][0]["state"] == "offered"
    assert _answer(second, "gpu_report", lease=lease, step=1, total=10)["state"] == "active"
    assert _answer(second, "gpu_extend", lease=lease, minutes=5, reason="slow")["state"] == "active"
    assert _answer(second, "gpu_release", lease=lease)["state"] == "ended"
    assert "leases" not in _answer(second, "loom_me") or _answer(second, "loom_me")["leases"] == []
    stale = first.call("gpu_report", lease=held["lease"], step=1)
    assert stale["isError"]
    assert stale["content"][0]["text"].startswith("lease_lost: ")
    pushes = [message for message in second.messages() if message.get("method") == "notifications/claude/channel"]
    assert len(pushes) == 1


def test_a_message_is_pushed_once_and_told_once_by_the_next_call(agent: Any) -> None:
    first, second = agent("one"), agent("two")
    _answer(second, "loom_me")

    sent = _answer(first, "loom_message", to="two", message="The data has moved.\nIt is in /data/v2.")
    push = second.expect(_is_push)

    assert push["params"]["meta"] == {"event": "message", "message": sent["messages"][0]}
    assert push["params"]["content"].splitlines()[1:3] == ["> The data has moved.", "> It is in /data/v2."]
    (notice,) = _answer(second, "loom_me")["notices"]
    assert notice.endswith("from one: The data has moved. It is in /data/v2.")
    assert "notices" not in _answer(second, "loom_me")

    again = _answer(first, "loom_message", to="all", message="One more.")
    second.expect(lambda message: _is_push(message) and message["params"]["meta"]["message"] in again["messages"])
    assert len([message for message in second.messages() if _is_push(message)]) == 2
    assert not [message for message in first.messages() if _is_push(message)]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_real_tools_are_forwarded_unchanged(real_server: str, tmp_path: Path, mode: str) -> None:
    environment = environment_for(real_server, tmp_path)
    transport = StdioTransport(sys.executable, ["-m", "warploom.stdio"], env=environment, keep_alive=False)
    async with Client(f"{real_server}/mcp", mode=mode) as direct:
        there = [tool.model_dump() for tool in await direct.list_tools()]

    async with Client(transport, mode=mode) as client:
        here = [tool.model_dump() for tool in await client.list_tools()]
        with pytest.raises(ToolError, match="malformed: 'L-x' is not a lease"):
            await client.call_tool("gpu_release", {"lease": "L-x"})

    assert here == there


async def test_a_session_sees_the_toolsets_of_its_settings(real_server: str, tmp_path: Path) -> None:
    environment = environment_for(real_server, tmp_path, WARPLOOM_TOOLSETS="admin")
    transport = StdioTransport(sys.executable, ["-m", "warploom.stdio"], env=environment, keep_alive=False)
    async with Client(transport) as client:
        names = {tool.name for tool in await client.list_tools()}
        with pytest.raises(ToolError, match="WARPLOOM_TOOLSETS=admin,gpu"):
            await client.call_tool("gpu_survey", {})

    assert {"loom_me", "loom_reset"} <= names
    assert not {"gpu_survey", "loom_claim"} & names


def test_a_bare_home_gets_its_stack_with_the_first_call_and_again_after_it_was_stopped(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = environment_for(None, home, WARPLOOM_FAKE_GPUS="2", WARPLOOM_PORT=str(free_port()))
    client = RawClient(environment, tmp_path)
    try:
        client.introduce()
        names = {tool["name"] for tool in client.ask("tools/list")["result"]["tools"]}
        assert {"gpu_request", "loom_me"} <= names
        session = _answer(client, "loom_me")["session"]

        assert _down(environment) == 0

        assert _answer(client, "loom_me")["session"] == session
        assert client.leave() == 0
    finally:
        client.close()
        _down(environment)


def _down(environment: dict[str, str]) -> int:
    command = [sys.executable, "-m", "warploom", "down"]
    return subprocess.run(command, env=environment, timeout=60, check=False, capture_output=True).returncode


def test_what_a_shell_wrote_down_under_its_sessions_lease_is_told_with_the_sessions_next_beat(
    agent: Any, tmp_path: Path
) -> None:
    first, second = agent("first"), agent("second")
    _answer(first, "loom_create", title="data")
    claimed = _answer(first, "loom_claim", ttl_seconds=600)
    task = claimed["task"]["task"]

    environment = environment_for("http://127.0.0.1:1", tmp_path, WARPLOOM_SESSION="first")
    command = [sys.executable, "-m", "warploom", "done", task, "--output", "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.startswith(f"written {task} done ({claimed['lease']})")
    _answer(second, "loom_message", to="first", message="Are you there?")
    first.expect(_is_push)

    assert _answer(second, "loom_await", task_ids=[task], timeout_seconds=20)["timed_out"] is False
    assert _answer(second, "loom_status", task_id=task)["output"] == 3
