"""Hints are lost in every way there is: the waiter has its card within five seconds all the same."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from support.invariants import ask, assert_whole
from support.serving import (
    PATIENCE,
    WAKE_SECONDS,
    Caller,
    Command,
    Serve,
    StartCommand,
    environment_of,
    eventually,
    survey_of,
)
from warploom.embedded.valkey import Valkey

DYING = Path(__file__).with_name("dying_server.py")


def wait_for(agent: Caller, ticket: str, command: StartCommand, url: str) -> Command:
    """Let a command wait for a ticket until it really does."""
    waiter = command("wait", ticket, url=url, session="second")
    assert ticket in waiter.first_words()
    eventually(lambda: agent.listeners() == 1)
    return waiter


def woken(waiter: Command, agent: Caller) -> None:
    """Check that a waiter ends in time with its lease."""
    status, printed, _ = waiter.finish(WAKE_SECONDS)
    assert status == 0
    assert f"WARPLOOM_LEASE={agent.get('/me')['leases'][0]['lease']}" in printed


def test_killing_the_server_between_commit_and_publish_still_wakes_the_waiter(
    serve: Serve, command: StartCommand, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    [server] = serve()
    first, second = Caller(server.url, "first"), Caller(server.url, "second")
    first.survey()
    held, ticket = first.request()["lease"], second.request()["ticket"]
    waiter = wait_for(second, ticket, command, server.url)

    def die(*change: str) -> int:
        environment = environment_of(tmp_path, database_url=database_url, redis_url=redis_url)
        return subprocess.run([sys.executable, str(DYING), *change], env=environment, timeout=PATIENCE).returncode

    assert die("release", "first", held) == -signal.SIGKILL
    assert ask(database_url, "select state::text from lease") == [{"state": "ended"}]
    assert waiter.process.poll() is None
    assert die("survey", "local", json.dumps(survey_of())) == -signal.SIGKILL
    woken(waiter, second)
    assert_whole(database_url)


@pytest.fixture
def valkey(tmp_path: Path) -> Generator[Valkey]:
    """A Valkey of the test's own, which it may harm."""
    valkey = Valkey(tmp_path / "valkey-home")
    valkey.start()
    yield valkey
    process = valkey.process
    if process is not None:
        os.kill(process.pid, signal.SIGCONT)
    valkey.stop()


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_waiter_at_another_replica_is_woken_although_valkey_was_lost_meanwhile(
    serve: Serve, command: StartCommand, database_url: str, valkey: Valkey, blow: signal.Signals
) -> None:
    here, there = serve(2, redis_url=valkey.url)
    first, second = Caller(here.url, "first"), Caller(there.url, "second")
    first.survey()
    held, ticket = first.request()["lease"], second.request()["ticket"]
    waiter = wait_for(second, ticket, command, there.url)
    process = valkey.process
    assert process is not None
    os.kill(process.pid, blow)

    first.release(held)
    first.survey()
    woken(waiter, second)

    if blow is signal.SIGKILL:
        for agent in (first, second):
            eventually(lambda agent=agent: agent.doctor("bus")[0] == "warn")
            assert "wakes come within 3 s" in agent.doctor("bus")[1]
        valkey.start()
    else:
        os.kill(process.pid, signal.SIGCONT)
    for agent in (first, second):
        eventually(lambda agent=agent: agent.doctor("bus")[0] == "ok")
    assert_whole(database_url)
