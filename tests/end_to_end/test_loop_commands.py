"""The loop on a real stack, through every door at once: commands, a stdio session, MCP over HTTP and `warploom run`."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from localstack import TRAINING, Gate, LocalStack, StdioServer, local_stack

from support.serving import PATIENCE, eventually


@pytest.fixture(scope="module")
def running() -> Generator[LocalStack]:
    with local_stack(foreign_quiet_seconds=0.5) as stack:
        yield stack


@pytest.fixture
def stack(running: LocalStack) -> Generator[LocalStack]:
    """The stack of this module; a test leaves both cards free and everything as it must be."""
    running.clear()
    yield running
    running.until_clear()
    running.assert_whole()


@pytest.fixture
def agent(stack: LocalStack) -> Generator[StdioServer]:
    """An agent whose client is this very process, so that what this process starts belongs to its session."""
    server = StdioServer(stack.environment)
    yield server
    server.kill()


@contextmanager
def job_of(environment: dict[str, str], *command: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a job of this process for the length of a block at most."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as job:
        try:
            yield job
        finally:
            job.kill()


def told(stack: LocalStack, *arguments: str, status: int = 0, **settings: object) -> Any:
    """Run a command to its end and return the JSON it prints."""
    code, printed, said = stack.command(*arguments, "--json", **settings).finish()
    assert code == status, said
    return json.loads(printed)


def tool(stack: LocalStack, name: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool over HTTP as an agent of that name."""

    async def work() -> dict[str, Any]:
        headers = {"X-Warploom-Agent": name, "X-Warploom-Session": name}
        async with Client(StreamableHttpTransport(f"{stack.url}/mcp", headers=headers)) as client:
            content = (await client.call_tool(tool, arguments)).structured_content
            assert content is not None
            return content

    return asyncio.run(work())


def test_a_job_without_a_lease_takes_the_card_out_of_the_pool_by_name(
    stack: LocalStack, agent: StdioServer, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    code = "from warploom.host.fake_context import occupy; import sys; occupy(memory_mib=500); open(sys.argv[1]).read()"
    environment = stack.environment | {"CUDA_VISIBLE_DEVICES": stack.lane(1)["uuid"]}
    session = agent.call("loom_me")["session"]
    with job_of(environment, sys.executable, "-c", code, str(gate.path)) as job:
        eventually(lambda: stack.lane(1)["state"] == "foreign")
        assert f"session {session} without a lease" in stack.lane(1)["say"]
        queued = tool(stack, "remote", "gpu_request", job="patient", device="1")
        assert queued["state"] == "queued"
        assert f"session {session} without a lease" in queued["reason"]
        gate.open()
        assert job.wait(PATIENCE) == 0
    offer = told(stack, "wait", queued["ticket"], session="remote")
    assert tool(stack, "remote", "gpu_release", lease=offer["lease"])["state"] == "ended"


def test_one_card_goes_through_every_door_in_the_order_of_the_queue(
    stack: LocalStack, agent: StdioServer, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    first = told(stack, "request", "train bert", "--card", "0", "--minutes", "30", session="terminal")
    assert (first["state"], first["cards"]) == ("active", ["local/0"])
    second = agent.call("gpu_request", job="eval sweep", device="0", minutes=5)
    third = tool(stack, "remote", "gpu_request", job="plot", device="0")
    run = stack.command("run", "--card", "0", "--title", "digits", "--", *TRAINING, str(gate.path), session="runner")
    assert "place 3" in run.first_words()
    assert [answer["place"] for answer in (second, third)] == [1, 2]
    assert (second["also_free"], third["also_free"]) == (["local/1"], ["local/1"])

    for step in (10, 20):
        told(stack, "report", first["lease"], str(step), "100", session="terminal")
    lane = told(stack, "status")["hosts"][0]["cards"][0]
    assert (lane["holder"]["title"], lane["holder"]["step"], lane["waiting"]) == ("train bert", 20, 3)
    assert [place["title"] for place in lane["queue"]] == ["eval sweep", "plot", "digits"]
    assert lane["free"]["word"] == "measured"
    code, screen, _ = stack.command("status").finish()
    assert code == 0
    assert all(name in screen for name in (first["lease"], "train bert", "20/100", "eval sweep", "measured"))
    extended = told(stack, "extend", first["lease"], "15", "--reason", "two more epochs", session="terminal")
    assert extended["state"] == "active"
    assert told(stack, "release", first["lease"], session="terminal")["state"] == "ended"
    assert told(stack, "release", first["lease"], session="terminal")["state"] == "ended"

    offer = told(stack, "wait", second["ticket"])
    assert agent.call("gpu_report", lease=offer["lease"], step=1)["state"] == "active"
    assert agent.call("gpu_release", lease=offer["lease"])["state"] == "ended"
    offer = told(stack, "wait", third["ticket"], session="remote")
    assert tool(stack, "remote", "loom_me")["leases"][0]["state"] == "offered"
    assert tool(stack, "remote", "gpu_release", lease=offer["lease"])["state"] == "ended"
    gate.open()
    code, printed, said = run.finish()
    assert code == 0
    assert printed.split()[1] in said.splitlines()[-1]

    lost = told(stack, "report", first["lease"], "30", session="terminal", status=4)
    assert lost["error"]["code"] == "lease_lost"
    grants = [event["text"] for event in _events(stack) if event["kind"] in ("lease.granted", "lease.offered")]
    assert [text.split("'")[1] for text in grants[-4:]] == ["train bert", "eval sweep", "plot", "digits"]


def _events(stack: LocalStack) -> list[dict[str, Any]]:
    code, printed, _ = stack.command("events", "-n", "200", "--json").finish()
    assert code == 0
    return [json.loads(line) for line in printed.splitlines()]


def test_commands_and_jobs_of_an_agents_shell_belong_to_its_session(stack: LocalStack, agent: StdioServer) -> None:
    session = agent.call("loom_me")["session"]
    assert told(stack, "me")["session"] == session
    held = told(stack, "request", "mine", "--card", "1")
    assert [lease["lease"] for lease in agent.call("loom_me")["leases"]] == [held["lease"]]
    assert agent.call("gpu_release", lease=held["lease"])["state"] == "ended"


def test_a_job_that_starts_on_its_card_accepts_the_offer_by_itself(
    stack: LocalStack, agent: StdioServer, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    held = told(stack, "request", "first", "--card", "0", session="terminal")["lease"]
    ticket = agent.call("gpu_request", job="second", device="0")["ticket"]
    told(stack, "release", held, session="terminal")
    offer = told(stack, "wait", ticket)
    assert offer["state"] == "offered"
    environment = stack.environment | offer["export"]
    with job_of(environment, *TRAINING, str(gate.path)) as job:
        eventually(lambda: stack.lease(offer["lease"])["state"] == "active")
        assert stack.lane(0)["holder"]["labels"] == []
        gate.open()
        assert job.wait(PATIENCE) == 0
    assert told(stack, "release", offer["lease"])["state"] == "ended"


def test_a_drained_card_is_granted_again_when_it_is_put_back(stack: LocalStack) -> None:
    shown = told(stack, "drain", "local/1")
    assert (shown["done"], stack.lane(1)["service"]) == (False, "in_service")
    assert told(stack, "drain", "local/1", "--yes", "--reason", "fan replacement")["done"]
    queued = told(stack, "request", "patient", "--card", "1", session="terminal")
    assert queued["state"] == "queued"
    assert "fan replacement" in queued["reason"]
    assert told(stack, "undrain", "local/1", "--yes")["done"]
    offer = told(stack, "wait", queued["ticket"], session="terminal")
    assert told(stack, "release", offer["lease"], session="terminal")["state"] == "ended"


def test_a_healthy_stack_satisfies_the_doctor(stack: LocalStack) -> None:
    checks = told(stack, "doctor")
    assert {check["word"] for check in checks} <= {"ok", "warn"}
    assert {"postgres", "bus", "leader", "queues", "local"} <= {check["name"] for check in checks}
