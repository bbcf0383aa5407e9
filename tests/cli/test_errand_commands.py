"""`warploom kill` and `probe`: consequences first, nothing without a yes, then what came of it."""

import json
from typing import Any

import pytest
import samples
from scripted_server import Call, Command, ScriptedServer

from warploom.domain.errors import NotAllowed

CONSEQUENCES = ["2 processes of L-42 on local are told to end (TERM)", "claude-1 is told who did it and why."]


def view(state: str = "answered", **changes: Any) -> dict[str, Any]:
    facts = {
        "errand": "E-7",
        "kind": "kill",
        "host": "local",
        "about": "L-42",
        "state": state,
        "asked_by": "ada",
        "asked_at": "2026-03-01T14:20:00Z",
        "reason": "stuck",
        "text": "1 ended and 1 killed",
        "lines": ["train.py (pid 11): ended", "loader (pid 12): killed"],
        "is_success": True if state == "answered" else None,
    }
    return facts | changes


@pytest.fixture
def killing(server: ScriptedServer) -> ScriptedServer:
    def answer(call: Call) -> dict[str, Any]:
        done = not call.body["preview"]
        facts = {"kind": "kill", "host": "local", "about": "L-42", "done": done, "consequences": CONSEQUENCES}
        return facts | {"errand": "E-7" if done else None, "next": "local says what became of each process."}

    server.on("POST", "/api/v1/leases/L-42/kill", answer)
    server.on("GET", "/api/v1/errands/E-7", view("asked", text="local has been asked"), view("taken"), view())
    return server


def _previews(server: ScriptedServer) -> list[bool]:
    return [call.body["preview"] for call in server.calls if call.method == "POST"]


def test_without_a_yes_only_the_consequences_are_shown(killing: ScriptedServer, warploom: Command) -> None:
    done = warploom("kill", "L-42", "--reason", "stuck")
    assert done.returncode == 3
    assert done.stdout.splitlines()[0] == "local would be asked:"
    assert all(consequence in done.stdout for consequence in CONSEQUENCES)
    assert "add --yes to do this to L-42" in done.stderr
    assert _previews(killing) == [True]


def test_with_a_yes_it_waits_and_tells_what_became_of_each_process(killing: ScriptedServer, warploom: Command) -> None:
    done = warploom("kill", "l-42", "--reason", "stuck", "--grace", "3", "--yes")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-3:] == [
        "L-42: 1 ended and 1 killed.",
        "  - train.py (pid 11): ended",
        "  - loader (pid 12): killed",
    ]
    assert killing.calls[0].body == {"reason": "stuck", "grace_seconds": 3.0, "preview": False}
    assert len(killing.called("GET", "/api/v1/errands/E-7")) == 3


def test_json_is_the_preview_and_with_a_yes_the_outcome_alone(killing: ScriptedServer, warploom: Command) -> None:
    preview = warploom("kill", "L-42", "--reason", "stuck", "--json")
    assert (preview.returncode, json.loads(preview.stdout)["done"]) == (0, False)
    done = warploom("kill", "L-42", "--reason", "stuck", "--json", "--yes")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "answered")


@pytest.mark.parametrize(
    ("last", "code"), [(view(is_success=False), 3), (view("lapsed", text="local did not answer within 2 min"), 6)]
)
def test_its_exit_code_says_how_it_went(
    killing: ScriptedServer, warploom: Command, last: dict[str, Any], code: int
) -> None:
    killing.on("GET", "/api/v1/errands/E-7", last)
    done = warploom("kill", "L-42", "--reason", "stuck", "--yes")
    assert done.returncode == code
    assert last["text"] in done.stdout


def test_a_reason_is_required(killing: ScriptedServer, warploom: Command) -> None:
    assert warploom("kill", "L-42", "--yes").returncode == 2
    assert killing.calls == []


def test_an_agent_reads_whom_to_write_to(server: ScriptedServer, warploom: Command) -> None:
    refusal = NotAllowed(
        "Only an operator may end the processes of a lease; you are agent.", "Write to its holder instead."
    )
    server.on("POST", "/api/v1/leases/L-42/kill", refusal)
    done = warploom("kill", "L-42", "--reason", "stuck", "--yes")
    assert (done.returncode, "Write to its holder instead." in done.stderr) == (3, True)


def test_a_probe_says_what_followed_and_its_exit_code_whether_the_card_passed(
    server: ScriptedServer, warploom: Command
) -> None:
    facts = {"kind": "probe", "host": "local", "about": "local/0", "consequences": CONSEQUENCES, "next": "It says."}
    server.on("GET", "/api/v1/rack", samples.rack(samples.lane(0), samples.lane(1)))
    server.on("POST", "/api/v1/cards/local/0/probe", facts | {"errand": "E-7", "done": True})
    failed = view(
        kind="probe", about="local/0", text="failed: ECC", lines=["local/0 is quarantined now."], is_success=False
    )
    server.on("GET", "/api/v1/errands/E-7", failed, failed | {"text": "passed: 32 MiB", "is_success": True})
    first, second = warploom("probe", "0", "--yes"), warploom("probe", "0", "--yes", "--json")
    assert (first.returncode, second.returncode) == (1, 0)
    assert first.stdout.splitlines()[-2:] == ["local/0: failed: ECC.", "  - local/0 is quarantined now."]
    assert json.loads(second.stdout)["text"] == "passed: 32 MiB"
