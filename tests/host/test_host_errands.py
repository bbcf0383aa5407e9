"""Errands on real hosts: a real server, a real host agent, and real processes on its cards."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from trainings import Training

from support.serving import PATIENCE, Caller, Serve, ServerProcess, StartCommand, environment_of, eventually
from warploom.client.processes import identity_of
from warploom.host.fake_cards import FakeCards

Train = Callable[..., Training]


class Host:
    """A host agent in a process of its own."""

    def __init__(self, home: Path, url: str) -> None:
        self._environment = environment_of(home, url=url, fake_gpus=2, survey_seconds=0.5)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it."""
        self._process = subprocess.Popen([sys.executable, "-m", "warploom.host"], env=self._environment)

    def kill(self) -> None:
        """End it as kill -9 does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)


@pytest.fixture
def server(serve: Serve) -> ServerProcess:
    (server,) = serve(1)
    return server


@pytest.fixture
def host(home: Path, server: ServerProcess) -> Iterator[Host]:
    host = Host(home, server.url)
    yield host
    host.kill()


@pytest.fixture
def agent(server: ServerProcess) -> Iterator[Caller]:
    caller = Caller(server.url, "claude-1")
    yield caller
    caller.close()


def lane(caller: Caller, index: int = 0) -> dict[str, Any]:
    hosts = caller.get("/rack")["hosts"]
    return hosts[0]["cards"][index] if hosts else {"state": "unknown", "processes": []}


def hold(agent: Caller) -> str:
    """Ask for the first card until it is granted, and return the lease."""
    eventually(lambda: lane(agent)["state"] == "free")
    lease: str = eventually(lambda: agent.request()["lease"])
    return lease


def on_card(agent: Caller, *trainings: Training) -> None:
    """Wait until the survey has shown these processes on the first card."""
    pids = {training.pid for training in trainings}
    eventually(lambda: {process["pid"] for process in lane(agent)["processes"]} >= pids)


def test_a_kill_ends_the_processes_of_a_lease_and_leaves_the_lease(
    host: Host, server: ServerProcess, agent: Caller, train: Train, command: StartCommand
) -> None:
    """Casebook C16: what was started under the lease is gone, all of it, and the card passes on when it is clear."""
    lease = hold(agent)
    first, second = train(WARPLOOM_LEASE=lease), train(WARPLOOM_LEASE=lease)
    on_card(agent, first, second)
    code, out, err = command("kill", lease, "--reason", "stuck", "--yes", url=server.url).finish()
    assert (code, first.process.wait(PATIENCE), second.process.wait(PATIENCE)) == (
        0,
        -signal.SIGTERM,
        -signal.SIGTERM,
    ), err
    assert f"{lease}: 2 ended." in out
    eventually(lambda: not lane(agent)["processes"])
    assert lane(agent)["holder"]["lease"] == lease
    agent.release(lease)
    eventually(lambda: lane(agent)["state"] == "free")


def test_a_host_agent_that_dies_at_it_is_asked_again_by_the_next_and_goes_on_surveying_meanwhile(
    host: Host, server: ServerProcess, agent: Caller, deaf: Train, command: StartCommand
) -> None:
    lease = hold(agent)
    training = deaf(WARPLOOM_LEASE=lease)
    on_card(agent, training)
    kill = command("kill", lease, "--reason", "stuck", "--yes", "--grace", "4", url=server.url)
    eventually(lambda: agent.http.get("/api/v1/errands/E-1").json().get("state") == "taken")
    looked(agent)
    assert agent.get("/errands/E-1")["state"] == "taken"
    host.kill()
    host.start()
    code, out, err = kill.finish()
    assert (code, training.process.wait(PATIENCE)) == (0, -signal.SIGKILL), err
    assert f"{lease}: 1 killed." in out


def test_a_session_s_own_program_stays_although_it_was_started_under_the_lease(
    host: Host, server: ServerProcess, train: Train, command: StartCommand
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env=os.environ | {"WARPLOOM_LEASE": "L-1"}
    ) as client:
        identity = identity_of(client.pid)
        assert identity is not None
        holder = Caller(server.url, "codex-1")
        del holder.http.headers["X-Warploom-Session"]
        process = {"X-Warploom-Process": f"{identity.pid}:{identity.started}", "X-Warploom-Host": "local"}
        holder.http.headers.update(process)
        lease = hold(holder)
        training = train(WARPLOOM_LEASE=lease)
        on_card(holder, training)
        code, _, err = command("kill", lease, "--reason", "stuck", "--yes", url=server.url).finish()
        holder.close()
        is_alive = client.poll() is None
        client.kill()
    assert (lease, code, training.process.wait(PATIENCE)) == ("L-1", 0, -signal.SIGTERM), err
    assert is_alive


def looked(caller: Caller) -> None:
    """Wait until a look at the cards that begins from now on was told."""
    for _ in range(2):
        seen_at = caller.get("/rack")["hosts"][0]["surveyed_at"]
        eventually(lambda seen_at=seen_at: caller.get("/rack")["hosts"][0]["surveyed_at"] != seen_at)


def test_a_faulty_card_is_given_back_by_a_probe_once_it_is_mended(
    host: Host, server: ServerProcess, agent: Caller, cards: FakeCards, command: StartCommand
) -> None:
    """Casebook C09: reason, evidence and date, and a probe that ends the exclusion."""
    eventually(lambda: lane(agent)["state"] == "free")
    cards.set_ecc_errors(0, 2)
    eventually(lambda: lane(agent)["state"] == "quarantined")
    code, out, err = command("probe", "local/0", "--yes", url=server.url).finish()
    assert code == 1, err
    assert "local/0 stays quarantined with that as its evidence." in out
    assert "failed its probe: CUDA_ERROR_ECC_UNCORRECTABLE" in lane(agent)["say"]
    cards.set_ecc_errors(0, 0)
    looked(agent)
    code, out, err = command("probe", "0", "--yes", url=server.url).finish()
    assert (code, "local/0 is back in service" in out) == (0, True), err
    hold(agent)
