"""A demo with a scenario, run for real: the two agents come through what happens to their card."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from warploom.demo.faults import choose_scenario
from warploom.domain.errors import Impossible

pytestmark = pytest.mark.timeout(300)

SCENARIO = """
name: a-visitor
sentence: Somebody else uses the card that both want for a few seconds.
cards: 2
steps:
  - {at: 0s, action: occupy, args: {card: 0, user: bob, command: python notebook.py}}
  - {at: 5s, action: free, args: {card: 0}}
  - {at: 20min, action: lose, args: {card: 1}}
"""


def test_two_agents_share_a_card_that_somebody_else_uses_too(tmp_path: Path) -> None:
    (tmp_path / "visitor.yaml").write_text(SCENARIO, encoding="utf-8")
    command = [sys.executable, "-m", "warploom", "demo", "--json", "--scenario", "visitor.yaml"]

    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown = json.loads(ended.stdout)
    by_cards = [each["text"] for each in shown["timeline"] if each["who"] == "cards"]
    logged = [each["text"] for each in shown["timeline"] if each["kind"] == "event"]
    assert [text.split(" uses ")[0] for text in by_cards[:3]] == [
        "all cards: nothing invented is left",
        "card 0: bob's 'python notebook.py'",
        "card 0: invented processes and ghosts are gone",
    ]
    assert any(text.startswith("local/0 is foreign: python notebook.py (user bob") for text in logged)
    assert [run["card"] for run in shown["runs"]] == ["local/0", "local/0"]


def test_a_scenario_in_which_jobs_fail_is_not_for_the_demo() -> None:
    with pytest.raises(Impossible, match="lets jobs fail"):
        choose_scenario("failures-are-blamed-on-the-card")


def test_a_scenario_with_more_cards_than_the_demo_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(SCENARIO.replace("cards: 2", "cards: 3"), encoding="utf-8")

    with pytest.raises(Impossible, match="needs 3 cards; the demo has 2"):
        choose_scenario(str(path))
