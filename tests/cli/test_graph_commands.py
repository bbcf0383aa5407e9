"""The commands about graphs and plans: drawing, explaining, importing, exporting."""

import json
from pathlib import Path

import pytest
from scripted_server import Command, ScriptedServer

from warploom.cli.exits import Exit
from warploom.domain.graphs import Blocker, Explanation, Graph, GraphNode
from warploom.domain.plans import ImportAnswer
from warploom.domain.tasks import TaskKind, TaskState


def test_a_task_is_explained_as_a_tree_of_what_it_waits_for(server: ScriptedServer, warploom: Command) -> None:
    blockers = [
        Blocker("T-3", "data", TaskState.CLAIMED, "T-17", 1, "T-3 'data' is claimed by claude-1, 40 %"),
        Blocker("T-1", "disk", TaskState.DONE, "T-3", 2, "T-1 'disk' is done"),
    ]
    told = Explanation("T-17", "train", TaskState.PENDING, "1 task is not done", "Wait for T-3.", [], blockers)
    server.on("GET", "/api/v1/tasks/T-17/explain", told)
    assert warploom("explain", "T-17").stdout.splitlines() == [
        "pending T-17 'train': 1 task is not done",
        "        T-3 'data' is claimed by claude-1, 40 %",
        "          T-1 'disk' is done",
        "next    Wait for T-3.",
    ]


def test_a_graph_is_drawn_in_three_ways(server: ScriptedServer, warploom: Command) -> None:
    node = GraphNode("T-17", "train", TaskState.READY, TaskKind.WORK, "p1")
    server.on("GET", "/api/v1/graph", Graph("default", [node], [], {"ready": 1}, 1, 1, False))
    assert warploom("graph").stdout.splitlines()[:2] == ["1 task in default: 1 ready", "Ready: T-17 'train'"]
    chart = warploom("graph", "--format", "mermaid", "--around", "T-17", "--depth", "1").stdout
    assert chart.startswith("flowchart LR\n")
    for arguments in (["--format", "json"], ["--json"]):
        assert json.loads(warploom("graph", *arguments).stdout)["nodes"][0]["task"] == "T-17"
    assert server.calls[1].query == "around=T-17&depth=1&limit=200"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plan.json", '{"tasks": [{"key": "a", "title": "A", "deadline": "2026-12-24"}]}'),
        ("plan.yaml", "tasks:\n  - key: a\n    title: A\n    deadline: 2026-12-24\n"),
    ],
)
def test_a_plan_is_imported_from_json_and_yaml_alike(
    server: ScriptedServer, warploom: Command, tmp_path: Path, name: str, text: str
) -> None:
    answer = ImportAnswer(1, 2, 0, "Claim it.", {"a": "T-17"}, checked_only=True)
    server.on("POST", "/api/v1/graph/import", answer)
    (tmp_path / name).write_text(text, encoding="utf-8")
    done = warploom("graph", "import", name, "--check")
    assert done.stdout.splitlines() == [
        "checked 1 tasks with 0 dependencies, 2 were there already",
        "        T-17    a",
        "next    Claim it.",
    ]
    plan = {"tasks": [{"key": "a", "title": "A", "deadline": "2026-12-24"}]}
    assert server.calls[0].body == {"plan": plan, "check_only": True, "project": None}


@pytest.mark.parametrize(
    "text",
    [
        "tasks: [",
        "- a list",
        "tasks: !!python/object/apply:os.system [id]",
        "\udcff",
        "a: &a [x, x]\nb: &b [*a, *a]\n" + "".join(f"k{n}: &k{n} [{', '.join(['*b'] * 2000)}]\n" for n in range(300)),
        "[" * 5000,
    ],
)
def test_what_is_no_plan_is_refused_before_any_call(
    server: ScriptedServer, warploom: Command, tmp_path: Path, text: str
) -> None:
    (tmp_path / "plan.yaml").write_bytes(text.encode(errors="surrogateescape"))
    done = warploom("graph", "import", "plan.yaml")
    assert (done.returncode, len(done.stderr.splitlines())) == (Exit.REFUSED, 2)
    assert server.calls == []


def test_a_graph_is_exported_as_json_to_read_or_into_a_file(
    server: ScriptedServer, warploom: Command, tmp_path: Path
) -> None:
    plan = {"tasks": [{"key": "a", "title": "Évaluer", "context": "Two\nlines"}]}
    server.on("GET", "/api/v1/graph/export", plan)
    assert json.loads(warploom("graph", "export").stdout) == plan
    assert warploom("graph", "export", "-o", "plan.yaml").stdout == "1 tasks are written to plan.yaml.\n"
    assert (tmp_path / "plan.yaml").read_text(encoding="utf-8") == (
        "tasks:\n- key: a\n  title: Évaluer\n  context: |-\n    Two\n    lines\n"
    )
