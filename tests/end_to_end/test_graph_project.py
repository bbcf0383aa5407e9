"""A project of twelve tasks, worked to its end by three agents and one person, with all that goes wrong on the way."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from localstack import LocalStack, local_stack

from support.serving import PATIENCE, eventually

PLAN = """
tasks:
  - {key: release, title: release, kind: epic}
  - {key: prepare, title: prepare, parent: release, priority: p0, done_when: the data is in one place}
  - {key: download, title: download, parent: release, max_attempts: 3}
  - {key: configure, title: configure, parent: release}
  - {key: interview, title: interview, parent: release, context: for a person}
  - {key: train-a, title: train a, parent: release, depends_on: [prepare], needs: {device: any}}
  - {key: train-b, title: train b, parent: release, depends_on: [prepare], needs: {device: any}}
  - {key: eval-a, title: eval a, parent: release, depends_on: [train-a], needs: {device: "0"}}
  - {key: eval-b, title: eval b, parent: release, depends_on: [train-b], needs: {device: "1"}}
  - {key: report, title: report, parent: release, depends_on: [eval-a, eval-b, download]}
  - {key: review, title: review, parent: release, depends_on: [report, interview]}
  - {key: publish, title: publish, parent: release, depends_on: [review, configure]}
"""


@pytest.fixture
def stack() -> Generator[LocalStack]:
    with local_stack(
        lease_minutes=0.15, offer_seconds=5, retry_base_seconds=0.5, settle_seconds=5, foreign_quiet_seconds=0.5
    ) as stack:
        yield stack


class Person:
    """Somebody at a terminal."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack

    def says(self, *arguments: str) -> Any:
        code, printed, said = self._stack.command(*arguments, "--json", agent="ada", session="ada").finish()
        assert code == 0, (arguments, said, printed)
        return json.loads(printed)


@contextmanager
def agents(stack: LocalStack, folder: Path) -> Generator[list["subprocess.Popen[bytes]"]]:
    """Run three agents, two over stdio and one over HTTP, each in a process group of its own."""
    script = Path(__file__).with_name("graph_agent.py")
    running: list[subprocess.Popen[bytes]] = []
    try:
        for name, door in (("lin", "stdio"), ("mei", "http"), ("noa", "stdio")):
            command = [sys.executable, str(script), door, name, stack.url, str(folder)]
            environment = stack.environment | {"WARPLOOM_AGENT": name, "WARPLOOM_PROJECT": "release"}
            with (folder / f"{name}.log").open("wb") as log:
                running.append(
                    subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
                )
        yield running
    finally:
        for process in running:
            kill_group(process.pid)
            process.wait(PATIENCE)


def kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.timeout(240)
def test_three_agents_and_a_person_bring_a_project_to_its_end(stack: LocalStack, tmp_path: Path) -> None:
    person = Person(stack)
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    person.says("project", "create", "release")
    person.says("project", "switch", "release")
    tasks: dict[str, str] = person.says("graph", "import", str(plan))["keys"]
    assert len(tasks) == 12
    mine = person.says("claim", tasks["interview"], "--ttl", "600")["claims"][0]["lease"]

    def state(key: str) -> dict[str, Any]:
        stack.assert_whole()
        return person.says("status", tasks[key])

    with agents(stack, tmp_path) as running:
        stopped = tmp_path / "stopped"
        eventually(lambda: stopped.exists() and stopped.read_text())
        victim = state("train-b")
        assert victim["state"] == "claimed"
        kill_group(int(stopped.read_text()))

        eventually(lambda: state("configure")["state"] == "dead_letter")
        assert state("publish")["state"] == "blocked"
        person.says("comment", tasks["configure"], "the key is there now")
        person.says("dead-letter", "--retry", tasks["configure"])
        person.says("done", tasks["interview"], "--lease", mine, "--output", '{"said": "fine"}')

        eventually(lambda: state("release")["state"] == "done", seconds=120)
        (tmp_path / "over").touch()
        survivors = [process for process in running if process.pid != int(stopped.read_text())]
        assert [process.wait(PATIENCE) for process in survivors] == [0, 0], logs(tmp_path)

    whole = {key: state(key) for key in tasks}
    assert {key: task["state"] for key, task in whole.items()} == dict.fromkeys(tasks, "done")
    assert whole["download"]["attempts"] == 2
    assert whole["train-b"]["attempts"] >= 2
    assert whole["train-b"]["agent"] != victim["agent"]
    assert whole["interview"]["output"] == {"said": "fine"}
    kinds = [event["kind"] for event in stack.anybody.get("/events?limit=200")["events"]]
    assert {"task.failed", "task.retried", "task.dead_letter", "task.returned", "project.completed"} <= set(kinds)
    assert kinds.count("task.dead_letter") == 1
    stack.until_clear()
    stack.assert_whole()


def logs(folder: Path) -> str:
    return "\n".join(path.read_text() for path in folder.glob("*.log"))
