"""The demo, run for real as `make demo` runs it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from warploom.demo.stage import processes_of

pytestmark = pytest.mark.timeout(300)

COMMAND = (sys.executable, "-m", "warploom", "demo")
MISLEADING = {
    "WARPLOOM_URL": "http://127.0.0.1:9",
    "WARPLOOM_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
    "WARPLOOM_LEASE": "L-77",
    "WARPLOOM_AGENT": "somebody",
    "CUDA_VISIBLE_DEVICES": "7",
}


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """What `warploom demo --json` says, run in an environment that belongs to another stack."""
    ended = subprocess.run(
        [*COMMAND, "--json"], env=os.environ | MISLEADING, capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


def kinds(shown: dict[str, Any], agent: str) -> list[str]:
    return [each["kind"] for each in shown["timeline"] if each["facts"].get("agent") == agent]


def place(shown: dict[str, Any], kind: str, **facts: str) -> int:
    """Where in the timeline the first happening of a kind with these facts stands."""
    return next(
        number
        for number, each in enumerate(shown["timeline"])
        if each["kind"] == kind and facts.items() <= each["facts"].items()
    )


def logged(shown: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [
        (each["facts"]["event"], each["facts"].get("lease")) for each in shown["timeline"] if each["kind"] == "event"
    ]


def test_the_first_agent_is_granted_at_once_and_the_second_waits_and_is_woken(shown: dict[str, Any]) -> None:
    steps = ["agent.connected", "agent.surveyed", "agent.granted", "agent.trains", "agent.trained", "agent.released"]
    waiting = ["agent.queued", "agent.waits", "agent.woken", "agent.waited", "agent.trains"]

    assert [kind for kind in kinds(shown, "claude-1") if kind in steps] == steps
    assert [kind for kind in kinds(shown, "claude-2") if kind in waiting] == waiting


def test_the_waiter_is_woken_only_after_the_release(shown: dict[str, Any]) -> None:
    released, woken = place(shown, "agent.releases", agent="claude-1"), place(shown, "agent.woken", agent="claude-2")

    assert released < woken
    assert shown["wake_seconds"] > 0
    assert shown["runs"][1]["held"] >= shown["runs"][0]["released"]


def test_the_log_tells_the_release_then_the_clear_card_then_the_offer(shown: dict[str, Any]) -> None:
    first, second = (run["lease"] for run in shown["runs"])
    story = logged(shown)
    released, offered = story.index(("lease.released", first)), story.index(("lease.offered", second))

    assert story.index(("lease.granted", first)) < released < offered < story.index(("lease.accepted", second))
    assert "card.condition" in [kind for kind, _ in story[released:offered]]
    assert story.index(("lease.accepted", second)) < story.index(("lease.released", second))


def test_the_estimate_turns_from_declared_to_measured(shown: dict[str, Any]) -> None:
    ticket = shown["runs"][1]["ticket"]

    assert shown["timeline"][place(shown, "agent.queued", agent="claude-2")]["facts"]["eta_source"] == "declared"
    assert place(shown, "agent.queued") < place(shown, "estimate", ticket=ticket, word="measured")
    assert place(shown, "estimate", word="measured") < place(shown, "agent.releases", agent="claude-1")


def test_both_trainings_learn_on_the_same_card(shown: dict[str, Any]) -> None:
    assert [run["card"] for run in shown["runs"]] == ["local/0", "local/0"]
    assert all(run["accuracy"] > 0.9 for run in shown["runs"])
    assert [place(shown, "job.progress", lease=run["lease"]) for run in shown["runs"]]


def test_no_process_and_no_home_is_left(shown: dict[str, Any]) -> None:
    home = Path(re.findall(r"the home is (\S+)", str(shown["timeline"]))[0].rstrip("'\","))

    assert shown["left_running"] == []
    assert shown["home"] is None
    assert not home.exists()
    assert processes_of(home) == []


class Watched:
    """A demo of which the test reads along, so that it can step in at a given moment."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.home = Path(self.read_until(r"the home is (\S+)"))

    def read_until(self, pattern: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if (found := re.search(pattern, line)) is not None:
                return found[found.re.groups]
        raise AssertionError(f"the demo ended without saying {pattern}")


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched.process.send_signal(signal.SIGTERM)
    watched.process.communicate(timeout=60)
    shutil.rmtree(watched.home, ignore_errors=True)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_tidies_up(watched: Watched, ending: signal.Signals) -> None:
    watched.read_until("starts training")

    watched.process.send_signal(ending)
    watched.process.communicate(timeout=60)

    assert watched.process.returncode == 130
    assert not watched.home.exists()
    assert processes_of(watched.home) == []


def test_a_demo_that_fails_says_what_failed_and_keeps_the_logs(watched: Watched) -> None:
    watched.read_until("starts training")
    agents = [each for each in psutil.Process(watched.process.pid).children() if "claude-2" in str(each.cmdline())]

    agents[0].kill()
    _, told = watched.process.communicate(timeout=60)

    assert watched.process.returncode == 1
    assert "The demo failed: claude-2" in told
    assert f"The logs are kept in {watched.home}/logs." in told
    assert (watched.home / "logs" / "server.log").exists()
    assert processes_of(watched.home) == []
