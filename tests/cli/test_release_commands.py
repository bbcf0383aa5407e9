"""`warploom force-release`: consequences first, and nothing without a yes."""

import json
from typing import Any

import pytest
from scripted_server import Call, Command, ScriptedServer

CONSEQUENCES = ["L-42 of claude-1 ends at once; nothing is killed.", "local/0 stays taken until observed clear."]


@pytest.fixture
def forcing(server: ScriptedServer) -> ScriptedServer:
    def answer(call: Call) -> dict[str, Any]:
        done = not call.body["preview"]
        return {"lease": "L-42", "ticket": "T-17", "cards": ["local/0"], "done": done, "consequences": CONSEQUENCES}

    server.on("POST", "/api/v1/leases/L-42/force-release", answer)
    return server


def test_without_a_yes_only_the_consequences_are_shown(forcing: ScriptedServer, warploom: Command) -> None:
    done = warploom("force-release", "L-42", "--reason", "away")
    assert done.returncode == 3
    assert done.stdout.splitlines() == ["L-42 would be ended:", *(f"  - {each}" for each in CONSEQUENCES)]
    assert "add --yes to do this to L-42" in done.stderr
    assert [call.body["preview"] for call in forcing.calls] == [True]


def test_with_a_yes_it_is_done_and_told(forcing: ScriptedServer, warploom: Command) -> None:
    done = warploom("force-release", "l42", "--reason", "away", "--yes")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "L-42 is ended.")
    assert [call.body for call in forcing.calls] == [{"reason": "away", "preview": False}]


def test_json_without_a_yes_is_the_preview(forcing: ScriptedServer, warploom: Command) -> None:
    done = warploom("force-release", "L-42", "--reason", "away", "--json")
    assert (done.returncode, json.loads(done.stdout)["done"]) == (0, False)


def test_a_reason_is_required(forcing: ScriptedServer, warploom: Command) -> None:
    assert warploom("force-release", "L-42", "--yes").returncode == 2
    assert forcing.calls == []
