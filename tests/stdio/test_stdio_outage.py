"""A server that goes away costs the agent one clear error, never its session."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rawclient import RawClient, environment_for
from standin import StandIn

# Stands for `warploom up`: writes down where the server is, and counts how often it was called.
START = """
import json, os, pathlib, sys
home = pathlib.Path(os.environ["WARPLOOM_HOME"])
with open(home / "starts", "a") as log:
    log.write(os.environ.get("WARPLOOM_LEASE", "-") + "\\n")
(home / "run").mkdir(exist_ok=True)
(home / "run" / "server.json").write_text(json.dumps({"url": sys.argv[1]}))
print("noise of the start")
"""
RUN = """
import sys
from warploom.stdio import stack
stack.START_COMMAND = tuple(sys.argv[1:])
stack.Stack.__init__.__defaults__ = (stack.START_COMMAND,)
from warploom.stdio.main import main
main()
"""


def _text(answer: dict) -> str:
    assert answer["isError"]
    return answer["content"][0]["text"]


def test_a_call_without_a_server_says_what_is_wrong_and_what_to_do(
    connect: Callable[..., RawClient], server: StandIn
) -> None:
    client = connect()
    client.introduce()
    server.stop()

    text = _text(client.call("gpu_request", job="a"))

    assert text == (
        f"unreachable: No Warploom server answers at {server.url}. `warploom doctor` says why; then call again."
    )


def test_the_next_call_works_once_the_server_is_back(connect: Callable[..., RawClient], server: StandIn) -> None:
    client = connect()
    client.introduce()
    assert not client.call("gpu_request", job="a")["isError"]
    server.stop()
    assert client.call("gpu_request", job="b")["isError"]

    server.start()

    assert client.call("gpu_request", job="c")["structuredContent"]["job"] == "c"


def test_a_restart_between_two_calls_goes_unnoticed(connect: Callable[..., RawClient], server: StandIn) -> None:
    client = connect()
    client.introduce()
    client.call("gpu_request", job="a")

    server.stop()
    server.start()

    assert not client.call("gpu_request", job="b")["isError"]


def test_a_server_that_dies_in_the_middle_of_a_call_leaves_a_clear_error(
    connect: Callable[..., RawClient], server: StandIn
) -> None:
    client = connect()
    client.introduce()
    client.send("tools/call", {"name": "gpu_block", "arguments": {}}, number=99)
    server.seen.until(lambda: server.seen.blocked == 1)

    server.stop()

    answer = client.expect(lambda message: message.get("id") == 99)
    text = _text(answer["result"])
    assert text.startswith("unreachable: The server")
    assert "may or may not have been done" in text
    assert text.endswith("asking twice for the same purpose is safe.")


def test_a_wait_outlives_a_server_that_is_away_when_it_begins_and_a_database_that_is_away_later(
    connect: Callable[..., RawClient], server: StandIn
) -> None:
    client = connect()
    client.introduce()
    server.seen.refusals = ["unreachable: The database is away.", "busy: Every connection is in use."]
    server.stop()
    client.send("tools/call", {"name": "gpu_wait", "arguments": {"ticket": "T-18"}}, number=98)
    assert client.call("gpu_request", job="a")["isError"]

    server.start()

    answer = client.expect(lambda message: message.get("id") == 98)
    assert answer["result"]["structuredContent"] == {"result": "granted"}
    assert server.seen.refusals == []


def test_a_wait_that_is_refused_is_over(connect: Callable[..., RawClient], server: StandIn) -> None:
    client = connect()
    client.introduce()
    server.seen.refusals = ["not_found: There is no ticket T-18.", "busy: Not asked again."]
    assert _text(client.call("gpu_wait", ticket="T-18")) == "not_found: There is no ticket T-18."
    assert server.seen.refusals == ["busy: Not asked again."]


def test_tools_that_could_not_be_listed_are_announced_when_the_server_is_back(
    connect: Callable[..., RawClient], server: StandIn
) -> None:
    server.stop()
    client = connect()
    client.introduce()
    assert "No Warploom server answers" in client.ask("tools/list")["error"]["message"]

    server.start()

    client.expect(lambda message: message.get("method") == "notifications/tools/list_changed")
    assert client.ask("tools/list")["result"]["tools"]


@pytest.fixture
def start_with(server: StandIn, tmp_path: Path):
    """Start a stdio server that has no WARPLOOM_URL and brings its stack up with a script of ours."""
    clients: list[RawClient] = []

    def start(script: str, **further: str) -> RawClient:
        (tmp_path / "up.py").write_text(script)
        (tmp_path / "run.py").write_text(RUN)
        command = (sys.executable, str(tmp_path / "run.py"), sys.executable, str(tmp_path / "up.py"), server.url)
        environment = environment_for(None, tmp_path, WARPLOOM_PORT="1", **further)
        clients.append(RawClient(environment, tmp_path, command))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


def test_the_local_stack_is_started_when_nobody_named_a_server(
    start_with: Callable[..., RawClient], tmp_path: Path
) -> None:
    client = start_with(START, WARPLOOM_LEASE="L-1")
    client.introduce()

    assert client.ask("tools/list")["result"]["tools"]
    assert not client.call("gpu_request", job="a")["isError"]

    assert (tmp_path / "starts").read_text() == "-\n"
    assert client.leave() == 0


def test_initialize_is_answered_while_the_stack_still_starts(
    start_with: Callable[..., RawClient], server: StandIn, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    client = start_with(f"open({str(gate)!r}).read()\n{START}")

    client.introduce()
    client.send("tools/list", {}, number=50)
    assert not (tmp_path / "starts").exists()
    with gate.open("w"):
        pass

    answer = client.expect(lambda message: message.get("id") == 50)
    assert answer["result"]["tools"]


def test_a_stack_that_cannot_start_is_explained_with_its_own_words(start_with: Callable[..., RawClient]) -> None:
    client = start_with("import sys; sys.exit('The disk is full.')")
    client.introduce()

    message = client.ask("tools/list")["error"]["message"]

    assert message == (
        "The local stack could not be started: The disk is full. Run `warploom doctor`; it says what is wrong."
    )
    assert "The disk is full." in _text(client.call("gpu_request", job="a"))
