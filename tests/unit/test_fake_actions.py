"""Actions on fake cards are read whole, and times as people write them."""

from pathlib import Path

import pytest

from warploom.host.fake_actions import ACTIONS, Blind, Occupy, Reset, Unclear, read_action
from warploom.host.fake_cards import FakeCards, FakeScript
from warploom.host.fake_times import read_seconds


@pytest.fixture
def cards(tmp_path: Path) -> FakeCards:
    cards = FakeCards(tmp_path)
    cards.set_count(2)
    return cards


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2s", 2),
        ("500ms", 0.5),
        ("1.5min", 90),
        ("2m", 120),
        ("1 h", 3600),
        (7, 7),
        (0.25, 0.25),
        ("0", 0),
        (" 3s ", 3),
    ],
)
def test_a_time_is_read_as_people_write_it(written: object, seconds: float) -> None:
    assert read_seconds(written) == seconds


@pytest.mark.parametrize("written", ["", "s", "-1s", "1d", "1e3", "nan", -1, True, None, [1], "9999h", "٣s"])
def test_what_is_no_time_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="a time is"):
        read_seconds(written)


def test_an_action_is_read_with_its_defaults() -> None:
    assert read_action("occupy", {"card": 1, "user": "bob", "for": "30s"}) == Occupy(card=1, user="bob", stay=30.0)  # pyright: ignore[reportArgumentType]
    assert read_action("blind", {}) == Blind()


def test_everything_that_is_wrong_with_an_action_is_named_at_once() -> None:
    with pytest.raises(Unclear) as refused:
        read_action("occupy", {"cards": 0, "mib": -1, "for": "soon"})

    unknown, memory, stay, missing = sorted(refused.value.problems, key=lambda told: "card" in told and "needs" in told)
    assert unknown == "occupy has no 'cards', only card, mib, user, command, kind, lease, for"
    assert memory.startswith("mib is -1: ")
    assert stay.startswith("for is 'soon': a time is written as 2s")
    assert missing == "occupy needs 'card'"


def test_an_action_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(Unclear, match="there is no action 'explode'; there are occupy, free, "):
        read_action("explode", {})


@pytest.mark.parametrize("arguments", [{"card": "0"}, {"card": True}, {"card": -1}, {"card": 1.5}, {"card": 10**6}])
def test_a_card_is_a_number(arguments: dict[str, object]) -> None:
    with pytest.raises(Unclear, match="card is "):
        read_action("free", arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("lose", {"card": 2}, "there is no card 2; the last of the 2 is 1"),
        ("shuffle", {"order": [0, 0]}, "order must have each of 0 and 1 once"),
        ("shuffle", {"order": [0]}, "order must have each of 0 and 1 once"),
        ("na", {"card": 0, "fields": ["memory"]}, "'memory' is no reading; there are used_mib, "),
    ],
)
def test_what_cannot_be_done_to_these_cards_is_said(name: str, arguments: dict[str, object], problem: str) -> None:
    assert (read_action(name, arguments).problem(2) or "").startswith(problem)


def test_every_action_says_what_it_is_for_and_what_it_changed(cards: FakeCards) -> None:
    needed = {"mig": {"instances": 2}}
    for name, kind in ACTIONS.items():
        assert (kind.__doc__ or "").split(".")[0]
        takes_card = "card" in kind.__struct_fields__
        said = read_action(name, ({"card": 0} if takes_card else {}) | needed.get(name, {})).apply(cards)
        assert said.startswith(("card 0: ", "all cards: "))


def test_a_reset_undoes_everything_on_every_card(cards: FakeCards) -> None:
    for name, kind in ACTIONS.items():
        takes_card = "card" in kind.__struct_fields__
        read_action(name, ({"card": 1} if takes_card else {}) | ({"instances": 2} if name == "mig" else {})).apply(
            cards
        )
    Blind(reason="the driver is gone").apply(cards)

    Reset().apply(cards)

    assert [cards.script(card) for card in (0, 1)] == [FakeScript(), FakeScript()]
    assert cards.driver_problem() is None
