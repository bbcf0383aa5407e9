"""`warploom fake` changes fake cards, says what it changed, and refuses where the cards are real."""

import json
from pathlib import Path

import pytest
from scripted_server import Command

from warploom.host.fake import FakeProbe
from warploom.host.fake_cards import FakeCards
from warploom.host.processes import ProcessBook

PAIR = {"WARPLOOM_FAKE_GPUS": "2"}
SCENARIO = """
name: mine
sentence: A ghost comes to the first card.
cards: 2
steps:
  - {at: 10ms, action: ghost, args: {card: 0, mib: 4096}}
"""


@pytest.fixture
def cards(environment: dict[str, str]) -> FakeCards:
    return FakeCards(environment["WARPLOOM_HOME"])


@pytest.fixture
def served(cards: FakeCards) -> FakeProbe:
    return FakeProbe(cards, 2, ProcessBook())


def test_a_home_without_fake_cards_is_refused_with_what_to_do(warploom: Command, cards: FakeCards) -> None:
    done = warploom("fake", "lose", "0")

    assert done.returncode == 3
    assert "No fake cards are served in " in done.stderr
    assert "real ones are never touched" in done.stderr
    assert "WARPLOOM_FAKE_GPUS=2" in done.stderr
    assert not cards.folder.exists()


def test_cards_that_were_fake_once_are_not_when_nobody_serves_them(warploom: Command, cards: FakeCards) -> None:
    cards.set_count(2)

    assert warploom("fake", "show").returncode == 3


@pytest.mark.usefixtures("served")
def test_cards_that_a_host_agent_serves_are_found_without_any_setting(warploom: Command, cards: FakeCards) -> None:
    done = warploom("fake", "occupy", "1", "--user", "bob", "--mib", "40960", "--for", "1min")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "card 1: bob's 'python other.py' uses 40 GiB as pid 5000000, for 1 min\n"
    assert [(process.user, process.memory_mib) for process in cards.script(1).processes] == [("bob", 40_960)]


def test_cards_that_nobody_serves_yet_can_be_made_ready(warploom: Command, cards: FakeCards) -> None:
    done = warploom("fake", "blind", "--all", "--reason", "upgraded", **PAIR)

    assert done.stdout == "all cards: it cannot be read (upgraded)\n"
    assert "No host agent serves these cards now" in done.stderr
    assert cards.driver_problem() == "upgraded"


@pytest.mark.usefixtures("served")
def test_a_card_is_named_by_number_as_the_rack_calls_it_or_by_uuid(warploom: Command, cards: FakeCards) -> None:
    warploom("fake", "shuffle")
    for name, wanted in (("0", 0), ("local/0", 1), (cards.uuid(1), 1), ("GPU-fake0000", 0)):
        answer = json.loads(warploom("fake", "ghost", name, "--json").stdout)
        assert [card["number"] for card in answer["cards"]] == [wanted]
    done = warploom("fake", "ghost", "7")
    assert (done.returncode, done.stderr) == (3, "'7' is no fake card of this home.\nThe cards are 0 and 1.\n")


@pytest.mark.usefixtures("served")
def test_showing_says_what_each_card_is_made_to_do(warploom: Command, cards: FakeCards) -> None:
    cards.set_ghost(0, 2048)
    cards.set_instances(1, 2)
    cards.set_driver_problem("upgraded")

    lines = warploom("fake", "show").stdout.splitlines()
    view = json.loads(warploom("fake", "show", "--json").stdout)

    assert lines == [
        "driver  cannot be read: upgraded",
        "card 0  local/0  GPU-fake0000  2 GiB is held by no process",
        "card 1  local/200  GPU-fake0001  2 MIG instances",
    ]
    assert (view["is_served"], view["problem"]) == (True, "upgraded")
    assert [card["instances"] for card in view["cards"]] == [[], ["local/200", "local/201"]]


@pytest.mark.usefixtures("served")
def test_all_that_is_wrong_with_an_action_is_said_and_nothing_changes(warploom: Command, cards: FakeCards) -> None:
    done = warploom("fake", "occupy", "0", "--mib", "-1", "--for", "soon")

    assert done.returncode == 3
    assert "mib is -1" in done.stderr
    assert "for is 'soon'" in done.stderr
    assert cards.script(0).processes == []
    assert "must be named" in warploom("fake", "find").stderr
    assert "has no" not in warploom("fake", "na", "0", "memory").stderr
    assert "'memory' is no reading" in warploom("fake", "na", "0", "memory").stderr


@pytest.mark.usefixtures("served")
def test_every_action_has_its_command_and_a_reset_ends_them_all(warploom: Command, cards: FakeCards) -> None:
    doings = (
        ("occupy", "0", "--graphics"),
        ("free", "0"),
        ("ghost", "0"),
        ("drain-slowly", "0"),
        ("linger", "0", "--seconds", "2min"),
        ("lose", "0", "--silently"),
        ("find", "0"),
        ("blind", "0"),
        ("hang", "0"),
        ("shuffle", "1", "0"),
        ("na", "0", "utilisation"),
        ("ecc", "0"),
        ("mig", "0", "-i", "2"),
        ("busy", "0", "-p", "2"),
        ("baseline", "0"),
        ("reset",),
    )
    for doing in doings:
        done = warploom("fake", *doing)
        assert (done.returncode, done.stderr) == (0, ""), doing
    shown = json.loads(warploom("fake", "show", "--json").stdout)
    assert [card["behaviour"] for card in shown["cards"]] == [[], []]
    assert cards.driver_problem() is None


@pytest.mark.usefixtures("served")
def test_a_scenario_is_played_step_by_step(warploom: Command, cards: FakeCards, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SCENARIO, encoding="utf-8")

    lines = warploom("fake", "play", str(path)).stdout.splitlines()
    steps = [json.loads(line) for line in warploom("fake", "play", "mine.yaml", "--json").stdout.splitlines()]

    assert lines == [
        "A ghost comes to the first card.",
        "   0.0 s  all cards: nothing invented is left",
        "   0.0 s  card 0: 4 GiB is held by no process",
    ]
    assert [(step["at"], step["action"]) for step in steps] == [(0, "reset"), (0.01, "ghost")]
    assert cards.script(0).ghost_mib == 4096


def test_a_scenario_that_needs_more_cards_is_refused(warploom: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(SCENARIO, encoding="utf-8")

    done = warploom("fake", "play", "mine.yaml", WARPLOOM_FAKE_GPUS="1")

    assert (done.returncode, done.stderr.splitlines()[0]) == (3, "mine needs 2 cards; this home has 1.")


def test_a_scenario_is_checked_anywhere(warploom: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(SCENARIO.replace("ghost,", "haunt,"), encoding="utf-8")

    done = warploom("fake", "play", "--check", "mine.yaml")

    assert (done.returncode, warploom("fake", "play", "--check", "somebody-else-uses-a-card").returncode) == (3, 0)
    assert "step 1: there is no action 'haunt'" in done.stderr


def test_the_scenarios_that_ship_are_listed(warploom: Command) -> None:
    facts = json.loads(warploom("fake", "scenarios", "--json").stdout)

    assert "one-lost-card-leaves-the-others-alone" in [fact["name"] for fact in facts]
    assert warploom("fake", "scenarios").stdout.count("\n") == len(facts)
