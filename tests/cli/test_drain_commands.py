"""`warploom drain`, `undrain`, `quarantine` and `clear`: consequences first, and nothing without a yes."""

import json
from typing import Any

import pytest
import samples
from scripted_server import Call, Command, ScriptedServer

from warploom.cli.cards import find_card
from warploom.domain.errors import MalformedInput, NotFound

CONSEQUENCES = ["L-42 'train bert-base' goes on until it ends", "2 tickets wait on"]


@pytest.fixture
def draining(server: ScriptedServer) -> ScriptedServer:
    def answer(call: Call) -> dict[str, Any]:
        done = not call.body["preview"]
        return {"card": "local/0", "service": "draining", "done": done, "consequences": CONSEQUENCES}

    server.on("GET", "/api/v1/rack", samples.rack(samples.busy_lane(), samples.lane(1)))
    server.on("POST", "/api/v1/cards/local/0/(drain|undrain|quarantine|clear)", answer)
    return server


def _posted(server: ScriptedServer) -> list[bool]:
    return [call.body["preview"] for call in server.calls if call.method == "POST"]


def test_without_a_yes_only_the_consequences_are_shown(draining: ScriptedServer, warploom: Command) -> None:
    done = warploom("drain", "local/0")
    assert done.returncode == 3
    assert all(consequence in done.stdout for consequence in CONSEQUENCES)
    assert "add --yes to do this to local/0" in done.stderr
    assert _posted(draining) == [True]


def test_with_a_yes_it_is_done_and_told(draining: ScriptedServer, warploom: Command) -> None:
    done = warploom("drain", "0", "--yes", "--reason", "fan")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "local/0 is draining now."
    assert [call.body for call in draining.calls if call.method == "POST"] == [{"reason": "fan", "preview": False}]


def test_a_card_is_quarantined_for_a_reason_and_cleared(draining: ScriptedServer, warploom: Command) -> None:
    assert warploom("quarantine", "0", "--yes").returncode == 2
    assert warploom("quarantine", "0", "--yes", "--reason", "wrong results").returncode == 0
    assert warploom("clear", "0", "--yes").returncode == 0
    posted = [(call.path.rpartition("/")[2], call.body) for call in draining.calls if call.method == "POST"]
    assert posted == [
        ("quarantine", {"reason": "wrong results", "preview": False}),
        ("clear", {"reason": None, "preview": False}),
    ]


def test_json_without_a_yes_is_the_preview(draining: ScriptedServer, warploom: Command) -> None:
    done = warploom("undrain", "local/0", "--json")
    assert (done.returncode, json.loads(done.stdout)["done"]) == (0, False)
    assert _posted(draining) == [True]


def test_a_card_is_found_by_name_by_index_and_by_uuid() -> None:
    rack = samples.rack(samples.lane(0), samples.lane(1))
    assert find_card(rack, "local/1") == find_card(rack, " 1 ") == find_card(rack, f"{samples.UUID[:-1]}1") == "local/1"


def test_an_unknown_card_names_those_there_are() -> None:
    with pytest.raises(NotFound, match="The cards are: local/0 and local/1"):
        find_card(samples.rack(samples.lane(0), samples.lane(1)), "7")


def test_an_index_that_two_hosts_have_must_be_named_in_full() -> None:
    rack = samples.rack(samples.lane(0), samples.lane(0, card="rack-b/0", uuid="GPU-b"))
    with pytest.raises(MalformedInput, match="could be local/0 and rack-b/0"):
        find_card(rack, "0")
