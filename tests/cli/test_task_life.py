"""Tasks worked on from shells, with real processes and a real server."""

import json
from pathlib import Path

import pytest
from shells import Shell

from support.databases import Clock
from support.serving import Caller, Serve, StartCommand, eventually
from warploom.cli.exits import Exit


@pytest.fixture
def url(serve: Serve) -> str:
    (server,) = serve()
    return server.url


@pytest.fixture
def ann(command: StartCommand, url: str) -> Shell:
    return Shell(command, url, "ann")


@pytest.fixture
def bob(command: StartCommand, url: str) -> Shell:
    return Shell(command, url, "bob")


def test_a_task_goes_from_creation_through_a_question_and_a_failure_to_its_end(ann: Shell, bob: Shell) -> None:
    assert ann.run("create", "load data", "--key", "load", "--max-attempts", "1")["state"] == "ready"
    assert ann.run("create", "load data", "--key", "load")["deduplicated"]
    train = ann.run("create", "train", "--depends-on", "T-1")
    assert train["state"] == "pending"
    assert [task["task"] for task in ann.run("ready")["tasks"]] == ["T-1"]

    lease = bob.run("claim")["claims"][0]["lease"]
    assert ann.run("claim", status=Exit.NOTHING)["claims"] == []
    assert ann.run("done", "T-1", status=Exit.REFUSED)["error"]["code"] == "taken"
    assert bob.run("heartbeat", "T-1", "--progress", "half", "--percent", "50")["percent"] == 50
    assert (ann.run("status", "T-1")["percent"], ann.state("T-1")) == (50, ("claimed", lease))

    assert bob.run("escalate", "T-1", "Which one?")["state"] == "blocked"
    assert ann.run("escalations")[0]["message"] == "Which one?"
    assert ann.run("answer", "T-1", "The first.")["state"] == "ready"
    assert ann.run("escalations") == []

    bob.run("claim", "T-1")
    assert bob.run("fail", "T-1", "--reason", "no disk", "--class", "infra")["state"] == "dead_letter"
    assert [task["task"] for task in ann.run("dead-letter")] == ["T-1"]
    assert ann.state(train["task"])[0] == "blocked"
    assert "T-1" in ann.run("explain", train["task"])["reason"]
    assert ann.run("dead-letter", "--retry", "T-1")["state"] == "ready"
    assert ann.state(train["task"])[0] == "pending"

    bob.run("claim", "T-1")
    bob.run("comment", "T-1", "done soon")
    assert bob.run("done", "T-1", "--output", '{"rows": 3}', "--branch-name", "data")["state"] == "done"
    assert bob.run("done", "T-1")["state"] == "done"
    task = ann.run("status", "T-1")
    assert (task["output"], task["branch"], ann.state(train["task"])[0]) == ({"rows": 3}, "data", "ready")
    assert {comment["text"] for comment in task["comments"]} >= {"The first.", "done soon"}


def test_those_who_wait_return_when_a_task_is_over_and_when_one_may_be_claimed(ann: Shell, bob: Shell) -> None:
    ann.run("create", "first")
    ann.run("create", "second", "--depends-on", "T-1")
    bob.run("claim", "T-1")
    for_end, for_work = ann.start("wait", "T-1"), ann.start("wait", "--ready")
    assert for_end.first_words().startswith("claimed T-1")
    bob.run("done", "T-1")
    code, printed, _ = for_end.finish()
    assert (code, printed) == (0, "done    T-1 'first'\n")
    code, printed, _ = for_work.finish()
    assert (code, printed.splitlines()[0]) == (0, "T-2  ready  p2  second")
    assert ann.run("wait", "T-2", "--timeout", "0", status=Exit.TIMED_OUT)["timed_out"]
    ann.run("cancel", "T-2", "--reason", "no need")
    assert ann.start("wait", "T-1", "T-2").finish()[0] == Exit.ENDED


def test_operators_settle_whole_subtrees(ann: Shell) -> None:
    for title, upstreams in (("a", ""), ("b", "T-1"), ("c", "T-2"), ("d", "")):
        ann.run("create", title, *(["--depends-on", upstreams] if upstreams else []))
    assert sorted(ann.run("cancel", "T-1", "--cascade")["done"]) == ["T-1", "T-2", "T-3"]
    assert ann.run("reset", "T-1")["state"] == "ready"
    settled = ann.run("batch-done", "T-1", "T-4", "T-99", status=Exit.REFUSED)
    assert (settled["done"], list(settled["refused"])) == (["T-1", "T-4"], ["T-99"])
    assert {line["task"] for line in ann.run("tasks", "--state", "cancelled")} == {"T-2", "T-3"}


def test_ideas_wait_outside_the_graph(ann: Shell) -> None:
    for title in ("one", "two", "three"):
        assert ann.run("idea", title)["state"] == "idea"
    assert ann.run("ready")["ideas"] == 3
    assert ann.run("ideas", "--promote", "T-1,T-2")["done"] == ["T-1", "T-2"]
    assert ann.run("ideas", "--drop", "T-3")["state"] == "cancelled"
    assert (ann.run("ideas"), len(ann.run("ready")["tasks"])) == ([], 2)


def test_a_plan_that_was_exported_is_the_same_plan_when_it_is_imported(ann: Shell, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "tasks:\n"
        "  - {key: data, title: Load the data, done_when: rows, priority: p1}\n"
        "  - {key: all, title: All of it, kind: epic}\n"
        "  - {key: train, title: Train, depends_on: [data], parent: all, context: 'two\n\n      lines'}\n"
    )
    assert ann.run("graph", "import", str(plan), "--check")["checked_only"]
    assert ann.run("tasks") == []
    assert ann.run("graph", "import", str(plan))["created"] == 3
    assert ann.run("graph", "import", str(plan))["deduplicated"] == 3
    assert ann.run("graph", "export", "-o", str(tmp_path / "copy.yaml"))["tasks"] == 3
    exported = ann.run("graph", "export")
    ann.run("project", "create", "copy")
    ann.run("project", "switch", "copy")
    assert ann.run("graph", "import", str(tmp_path / "copy.yaml"))["created"] == 3
    assert ann.run("graph", "export") == exported
    assert ann.run("graph")["total"] == 3
    code, printed, _ = ann.start("graph").finish()
    assert (code, printed.splitlines()[0].startswith("3 tasks in copy: ")) == (0, True)


def test_recover_gives_back_what_silent_agents_hold(ann: Shell, bob: Shell, clock: Clock) -> None:
    for title in ("first", "second"):
        ann.run("create", title)
    ann.run("claim", "T-1")
    clock.advance(minutes=8)
    bob.run("claim", "T-2")
    planned = {line["task"]: (line["word"], line["action"], line["done"]) for line in bob.run("recover")["lines"]}
    assert planned == {"T-1": ("stale", "reset", False), "T-2": ("active", "none", False)}
    acted = {line["task"]: (line["word"], line["done"]) for line in bob.run("recover", "--execute")["lines"]}
    assert acted["T-1"] == ("stale", True)
    assert (bob.state("T-1")[0], bob.state("T-2")[0]) == ("ready", "claimed")
    assert ann.run("done", "T-1", status=Exit.ENDED)["error"]["code"] == "lease_lost"


def test_a_task_with_a_card_is_waited_for_and_ended_by_the_lease_it_came_with(ann: Shell, bob: Shell, url: str) -> None:
    caller = Caller(url)
    caller.survey()
    for title in ("first", "second"):
        ann.run("create", title, "--card", "0")
    claim = ann.run("claim", "T-1")["claims"][0]
    assert (claim["cards"], claim["export"]["WARPLOOM_LEASE"]) == (["local/0"], claim["lease"])
    assert bob.run("claim", "T-2")["queued"][0]["ticket"] == "T-2"
    waiter = bob.start("wait", "T-2", "--json")
    eventually(lambda: caller.listeners() > 0)
    ann.run("done", "T-1")
    caller.survey()
    code, printed, _ = waiter.finish()
    granted = json.loads(printed)
    assert (code, granted["state"], granted["cards"]) == (0, "offered", ["local/0"])
    assert bob.run("done", "T-2")["lease"] == granted["lease"]
    caller.close()
