"""Which lease a shell acts under while no server can be asked: its own session's, never another's."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from warploom.client.holdings import Holdings, claims_in, server_of
from warploom.config import Settings
from warploom.domain.callers import Caller
from warploom.domain.processes import ProcessIdentity

CLIENT, SHELL, OTHER = ProcessIdentity(100, 1), ProcessIdentity(200, 2), ProcessIdentity(300, 3)
OWN = Caller(process=SHELL, ancestors=[SHELL, CLIENT])


@pytest.fixture
def holdings(tmp_path: Path) -> Holdings:
    return Holdings(tmp_path, "local")


def test_a_session_knows_the_latest_lease_of_its_own_claim(holdings: Holdings) -> None:
    holdings.remember("T-1", "L-9", Caller(process=CLIENT))
    holdings.remember("T-1", "L-10", OWN)
    holdings.remember("T-1", "L-11", Caller(process=OTHER))
    holdings.remember("T-2", "L-12", OWN)
    assert holdings.lease_of("T-1", OWN) == "L-10"
    assert holdings.lease_of("T-3", OWN) is None
    assert holdings.task_of("L-11") == "T-1"


def test_a_named_session_is_known_by_its_name_alone(holdings: Holdings) -> None:
    named = Caller(session_key="ann", process=SHELL)
    holdings.remember("T-1", "L-1", named)
    assert holdings.lease_of("T-1", Caller(session_key="ann", process=OTHER)) == "L-1"
    assert holdings.lease_of("T-1", Caller(session_key="bob", process=SHELL)) is None
    assert holdings.lease_of("T-1", OWN) is None


def test_a_process_whose_number_was_used_again_is_another(holdings: Holdings) -> None:
    holdings.remember("T-1", "L-1", Caller(process=ProcessIdentity(200, 1)))
    assert holdings.lease_of("T-1", OWN) is None


def test_what_another_server_gave_is_not_known_here(holdings: Holdings, tmp_path: Path) -> None:
    holdings.remember("T-1", "L-1", OWN)
    assert Holdings(tmp_path, "https://elsewhere.example").lease_of("T-1", OWN) is None


def test_old_claims_are_forgotten_and_odd_files_passed_over(holdings: Holdings, tmp_path: Path) -> None:
    holdings.remember("T-1", "L-1", OWN)
    old = tmp_path / "claims" / "L-1.json"
    os.utime(old, (0, time.time() - 15 * 24 * 3600))
    (tmp_path / "claims" / "L-2.json").write_text("[1]")
    holdings.remember("T-2", "L-3", OWN)
    assert (old.exists(), holdings.lease_of("T-2", OWN)) == (False, "L-3")


def test_a_home_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    (tmp_path / "claims").write_text("in the way")
    holdings = Holdings(tmp_path, "local")
    holdings.remember("T-1", "L-1", OWN)
    assert holdings.lease_of("T-1", OWN) is None


@pytest.mark.parametrize(
    ("content", "claims"),
    [
        ({"task": {"task": "T-1"}, "lease": "L-1", "next": "Go."}, [("T-1", "L-1")]),
        ({"claims": [{"task": {"task": "T-1"}, "lease": "L-1"}, {"task": None}]}, [("T-1", "L-1")]),
        ({"task": None, "reason": "nothing"}, []),
        ({"task": {"task": "T-1"}, "lease": "../../etc"}, []),
        ({"claims": [1, "x", None]}, []),
        ("text", []),
        (None, []),
    ],
)
def test_claims_are_found_in_a_tools_answer(content: Any, claims: list[tuple[str, str]]) -> None:
    assert claims_in(content) == claims


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (None, "local"),
        ("http://127.0.0.1:9999", "local"),
        ("http://localhost", "local"),
        ("https://warp.example", "https://warp.example"),
    ],
)
def test_everything_on_this_machine_is_one_server(tmp_path: Path, url: str | None, name: str) -> None:
    environment = {"WARPLOOM_HOME": str(tmp_path)} | ({"WARPLOOM_URL": url} if url else {})
    assert server_of(Settings.load(environment)) == name
