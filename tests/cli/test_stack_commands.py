"""`warploom up`, `down` and starting on demand, with the real stack on two fake cards."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest
from scripted_server import Command

OWN: dict[str, str | None] = {"WARPLOOM_URL": None, "WARPLOOM_PORT": "0", "WARPLOOM_FAKE_GPUS": "2"}


def has_driver() -> bool:
    """Say whether this machine has an NVIDIA driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    return True


@pytest.fixture(autouse=True)
def nothing_is_left(warploom: Command) -> Iterator[None]:
    yield
    warploom("down", **OWN)


def _record(environment: dict[str, str], name: str) -> dict[str, int]:
    return json.loads((Path(environment["WARPLOOM_HOME"]) / "run" / f"{name}.json").read_text())


def test_a_stack_comes_up_shows_its_cards_and_goes_down(warploom: Command) -> None:
    up = warploom("up", **OWN)
    first, second, third, fourth = up.stdout.splitlines()
    assert (first.startswith("Postgres "), "Valkey ready" in first, "schema current" in first) == (True, True, True)
    assert second.startswith("Server   http://127.0.0.1:")
    assert third.startswith("Host     local: 2 cards (FAKE-H200 141 GiB, FAKE-H200 141 GiB)")
    assert fourth.startswith("Next     warploom status")
    assert len(warploom("status", **OWN).stdout.splitlines()) == 3
    assert warploom("doctor", **OWN).returncode == 0
    assert warploom("down", **OWN).stdout.startswith("The local stack is stopped; its data stays in ")
    assert warploom("down", **OWN).stdout == "No local stack was running.\n"


@pytest.mark.skipif(has_driver(), reason="this machine has an NVIDIA driver")
def test_a_machine_without_a_driver_says_so_in_one_sentence_and_everything_else_works(warploom: Command) -> None:
    own = OWN | {"WARPLOOM_FAKE_GPUS": None}
    host = next(line for line in warploom("up", **own).stdout.splitlines() if line.startswith("Host"))
    told = host.removeprefix("Host     local: ")
    assert (
        told
        == "no NVIDIA driver found (libnvidia-ml.so.1). Everything else works; try WARPLOOM_FAKE_GPUS=2 warploom up"
    )

    doctor = warploom("doctor", **own)
    lines = [line for line in doctor.stdout.splitlines() if "driver" in line]
    assert (doctor.returncode, lines) == (0, [f"warn   local       {told}"])
    assert told in warploom("status", COLUMNS="160", **own).stdout

    refused = warploom("request", "eval", "--device", "0", **own)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (3, 2), refused.stderr
    created = json.loads(warploom("create", "read the paper", "--json", **own).stdout)
    assert warploom("claim", created["task"], **own).returncode == 0
    assert warploom("done", created["task"], **own).returncode == 0


def test_a_stop_says_first_whose_runs_go_on_and_who_keeps_a_place(warploom: Command) -> None:
    """Casebook C33."""
    for job in ("train", "eval", "plot"):
        assert warploom("request", job, "-d", "0", WARPLOOM_AGENT=job, **OWN).returncode == 0
    stopped = warploom("down", **OWN)
    assert stopped.returncode == 0
    assert stopped.stderr.splitlines() == [
        "Held now: local/0 by train ('train'). What runs there goes on; nothing is killed.",
        "2 tickets keep their places; nothing is granted before `warploom up`.",
    ]
    assert warploom("up", **OWN).returncode == 0
    lane = json.loads(warploom("status", "--json", **OWN).stdout)["hosts"][0]["cards"][0]
    assert (lane["holder"]["title"], lane["waiting"]) == ("train", 2)


def test_a_command_starts_the_stack_when_it_is_needed(warploom: Command) -> None:
    done = warploom("request", "eval", "--device", "0", "--json", **OWN)
    assert json.loads(done.stdout)["state"] in ("active", "queued")
    assert done.stderr == "Starting the local stack …\n"
    assert warploom("me", **OWN).stderr == ""


def test_a_waiter_starts_a_crashed_stack_again_and_gets_its_card(
    warploom: Command, environment: dict[str, str], waiter: subprocess.Popen[str]
) -> None:
    for name in ("daemon", "server"):
        os.kill(_record(environment, name)["pid"], signal.SIGKILL)
    assert waiter.stderr is not None
    assert any(line == "Starting the local stack …\n" for line in waiter.stderr)
    warploom("release", "L-1", **OWN)
    out, _ = waiter.communicate(timeout=60)
    assert waiter.returncode == 0
    assert out.startswith("Your card is ready: local/0 (lease L-2")


def test_a_waiter_leaves_a_stack_alone_that_was_stopped_on_purpose(
    warploom: Command, waiter: subprocess.Popen[str]
) -> None:
    assert warploom("down", **OWN).returncode == 0
    assert waiter.stderr is not None
    assert any("Trying again for up to 10 min." in line for line in waiter.stderr)
    assert warploom("down", **OWN).stdout == "No local stack was running.\n"
    waiter.terminate()
    _, rest = waiter.communicate(timeout=20)
    assert "Starting" not in rest


@pytest.fixture
def waiter(warploom: Command, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A `warploom wait` for a card that somebody holds as L-1, already waiting."""
    assert json.loads(warploom("request", "first", "-d", "0", "--json", **OWN).stdout)["lease"] == "L-1"
    ticket = json.loads(warploom("request", "second", "-d", "0", "--json", **OWN).stdout)["ticket"]
    own = {name: value for name, value in (environment | OWN).items() if value is not None}
    command = [sys.executable, "-m", "warploom", "wait", ticket]
    process = subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith(f"queued  {ticket}")
    yield process
    process.kill()
    process.communicate(timeout=20)
