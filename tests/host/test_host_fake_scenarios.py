"""Scenarios are read whole, and each that ships shows on the fake cards what it is named for, and mends it."""

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from trainings import Training

from warploom.domain.errors import MalformedInput, NotFound
from warploom.domain.hosts import CardFact, CardFault, ProcessKind
from warploom.host.fake import FakeProbe
from warploom.host.fake_actions import Action
from warploom.host.fake_cards import FakeCards, FakeScript
from warploom.host.fake_scenarios import Player, Scenario, find_scenario, play_beside, read_scenario, shipped_scenarios
from warploom.host.processes import ProcessBook
from warploom.host.roster import Roster
from warploom.host.survey import Surveyor

SHIPPED = {scenario.name: scenario for scenario in shipped_scenarios()}
Look = Callable[[], list[CardFact]]
Train = Callable[..., Training]


class Stage:
    """Fake cards on which the steps of a scenario are done one by one, with looks between."""

    def __init__(self, cards: FakeCards, name: str) -> None:
        self.cards = cards
        self._steps = list(SHIPPED[name].steps)
        probe = FakeProbe(cards, SHIPPED[name].cards, ProcessBook(), timedelta(seconds=1))
        self._surveyor = Surveyor(probe, timedelta(seconds=2), Roster(patience=1))
        self.look()

    def look(self) -> list[CardFact]:
        """Survey the cards."""
        return self._surveyor.look().cards

    def hear(self) -> None:
        """Let the server have heard what was told so far."""
        self._surveyor.untold.clear()

    def go_on(self, steps: int = 1) -> list[CardFact]:
        """Do the next steps and look."""
        for _ in range(steps):
            self._steps.pop(0).action.apply(self.cards)
        return self.look()


@pytest.fixture
def stage(cards: FakeCards) -> Callable[[str], Stage]:
    return lambda name: Stage(cards, name)


@pytest.mark.parametrize("scenario", SHIPPED.values(), ids=SHIPPED)
def test_a_scenario_that_ships_is_named_as_its_file_and_mends_what_it_did(cards: FakeCards, scenario: Scenario) -> None:
    cards.set_count(scenario.cards)
    for step in scenario.steps:
        step.action.apply(cards)

    assert find_scenario(scenario.name) == scenario
    assert cards.driver_problem() is None
    for card in range(scenario.cards):
        cards.set_index(card, None) if cards.script(card).index == card else None
        left = [each for each in cards.script(card).processes if each.until is None]
        assert (left, cards.script(card).fault, cards.script(card).index) == ([], None, None)
        cards.vacate(card)
        assert cards.script(card) == FakeScript()


class TestFaults:
    """What the rows of faults in public reports have in common: the card says so, and no other suffers."""

    def test_indices_change_after_a_restart(self, stage, cards):
        shuffled = stage("indices-change-after-a-restart").go_on()

        assert {fact.uuid: fact.index for fact in shuffled} == {cards.uuid(0): 1, cards.uuid(1): 0}

    def test_mig_instances_are_cards_of_their_own(self, stage, cards):
        facts = [fact for fact in stage("mig-instances-are-cards-of-their-own").go_on() if fact.fault is None]

        assert [(fact.index, fact.parent_uuid) for fact in facts] == [
            (0, None),
            *((200 + number, cards.uuid(1)) for number in range(3)),
        ]
        assert len({fact.uuid for fact in facts}) == 4
        assert [fact.memory_mib for fact in facts[1:]] == [47 * 1024] * 3

    def test_one_lost_card_leaves_the_others_alone(self, stage):
        playing = stage("one-lost-card-leaves-the-others-alone")

        assert [fact.fault for fact in playing.go_on()] == [CardFault.LOST, None]
        assert [fact.fault for fact in playing.go_on()] == [None, None]

    def test_a_card_that_is_not_listed_is_lost(self, stage):
        playing = stage("a-card-that-is-not-listed-is-lost")

        assert [fact.fault for fact in playing.go_on()] == [None, CardFault.LOST]
        assert [fact.fault for fact in playing.go_on()] == [None, None]

    @pytest.mark.parametrize(
        "name",
        ["failures-are-blamed-on-the-card", "a-card-with-memory-errors-is-kept-out", "a-repaired-card-comes-back"],
    )
    def test_a_card_with_memory_errors_counts_them(self, stage, name):
        first, *others = stage(name).go_on()

        assert (first.ecc_errors or 0) > 0
        assert [fact.ecc_errors for fact in others] == [0] * len(others)

    def test_a_job_on_a_card_with_memory_errors_fails_in_the_words_of_cuda(self, stage, train: Train, capfd):
        playing = stage("failures-are-blamed-on-the-card")
        playing.go_on()

        assert train(device=0).uuid == ""
        assert "CUDA error: uncorrectable ECC error encountered" in capfd.readouterr().err
        assert train(device=1).uuid == playing.cards.uuid(1)
        playing.go_on()
        assert train(device=0).uuid == playing.cards.uuid(0)

    def test_an_xid_of_the_hardware_keeps_a_card_out(self, stage):
        playing = stage("an-xid-of-the-hardware-keeps-a-card-out")

        assert [fact.xids for fact in playing.go_on()] == [[31], []]
        playing.hear()
        assert [fact.xids for fact in playing.go_on()] == [[79], []]
        playing.hear()
        assert [fact.xids for fact in playing.look()] == [[], []]

    def test_an_upgraded_driver_blinds_every_card(self, stage):
        playing = stage("an-upgraded-driver-blinds-every-card")

        blind = playing.go_on()

        assert [fact.fault for fact in blind] == [CardFault.BLIND] * 2
        assert "upgraded" in (blind[0].problem or "")
        assert [fact.fault for fact in playing.go_on()] == [None, None]

    def test_a_hanging_card_delays_no_other(self, stage):
        hanging, other = stage("a-hanging-card-delays-no-other").go_on()

        assert (hanging.fault, other.fault) == (CardFault.BLIND, None)

    def test_not_reported_is_never_zero(self, stage):
        (fact,) = stage("not-reported-is-never-zero").go_on(2)

        assert (fact.utilisation, [process.memory_mib for process in fact.processes]) == (None, [None])
        assert fact.used_mib == 9000

    def test_an_empty_process_list_is_no_empty_card(self, stage):
        (fact,) = stage("an-empty-process-list-is-no-empty-card").go_on(2)

        assert (fact.processes, fact.used_mib) == ([], 30_000)

    def test_memory_held_by_no_process_is_a_ghost(self, stage):
        playing = stage("memory-held-by-no-process-is-a-ghost")

        assert [(fact.processes, fact.used_mib) for fact in playing.go_on()] == [([], 20_480)]
        assert playing.go_on()[0].used_mib == 0

    def test_memory_drains_slowly_after_a_job(self, stage, train: Train):
        playing = stage("memory-drains-slowly-after-a-job")
        playing.go_on()
        training = train(9000)
        playing.look()
        training.end()

        (draining,) = playing.look()

        assert draining.processes == []
        assert 0 < (draining.used_mib or 0) <= 9000

    @pytest.mark.parametrize("name", ["children-outlive-their-job", "an-ex-holder-stays-on-the-card"])
    def test_a_child_with_the_lease_of_its_parent_stays_on_the_card(self, stage, train: Train, name):
        playing = stage(name)
        playing.go_on()
        training = train(9000, WARPLOOM_LEASE="L-42")
        playing.look()
        training.end()

        (left,) = playing.look()
        ((child,), (mended,)) = left.processes, playing.go_on()

        assert (child.lease, child.memory_mib, left.used_mib) == ("L-42", 9000, 9000)
        assert child.pid != training.pid
        assert (mended.processes, mended.used_mib) == ([], 0)

    def test_a_process_that_gave_its_card_back_leaves_a_child_and_draining_memory_too(self, stage, train: Train):
        playing = stage("children-outlive-their-job")
        playing.cards.set_drain(0, 3600)
        playing.go_on()
        training = train(9000)
        playing.look()
        training.vacate()

        ((child,), _) = playing.look()[0].processes, playing.cards.set_linger(0, 0)
        (draining,) = playing.look()
        playing.cards.set_drain(0, 0)

        assert child.memory_mib == 9000
        assert (draining.processes, 0 < (draining.used_mib or 0) <= 9000) == ([], True)
        assert playing.look()[0].used_mib == 0

    def test_somebody_else_uses_a_card(self, stage):
        playing = stage("somebody-else-uses-a-card")

        used, free = playing.go_on()

        assert [(process.user, process.memory_mib) for process in used.processes] == [("bob", 40_000)]
        assert free.processes == []
        assert playing.go_on(2)[0].processes == []

    def test_a_screen_is_no_intruder(self, stage):
        (fact,) = stage("a-screen-is-no-intruder").go_on(2)

        assert [process.kind for process in fact.processes] == [ProcessKind.GRAPHICS]
        assert fact.used_mib == 950

    def test_a_holder_hardly_uses_its_card(self, stage, train: Train):
        playing = stage("a-holder-hardly-uses-its-card")
        playing.go_on()
        train(9000)

        (fact,) = playing.look()

        assert (fact.utilisation, fact.used_mib) == (1, 9000)


class TestInvented:
    def test_a_process_with_a_time_leaves_by_itself(self, cards):
        probe = FakeProbe(cards, 1, ProcessBook(), timedelta(seconds=20))
        scenario = read_scenario(_written("{at: 0s, action: occupy, args: {card: 0, for: 0s}}"), "a file")
        scenario.steps[0].action.apply(cards)

        assert probe.read().cards[0].processes == []

    def test_a_process_uses_one_mig_instance_and_not_its_parent(self, cards, train: Train):
        probe = FakeProbe(cards, 1, ProcessBook(), timedelta(seconds=20))
        cards.set_instances(0, 2)
        training = train(CUDA_VISIBLE_DEVICES=cards.instance_uuid(0, 1))

        assert training.uuid == cards.instance_uuid(0, 1)
        assert [fact.used_mib for fact in probe.read().cards] == [0, 9000]


class TestFiles:
    def test_everything_that_is_wrong_is_named_at_once(self):
        text = """
name: Not a name
cards: 2
step: nothing
steps:
  - {at: 1 fortnight, action: lose, args: {card: 2}}
  - {action: explode}
  - {action: na, args: {card: 0, fields: [memory]}, when: now}
  - 3
"""
        with pytest.raises(MalformedInput) as refused:
            read_scenario(text, "mine.yaml")

        for problem in (
            "mine.yaml is no scenario: it has no 'step'",
            "name must be lower-case words",
            "sentence must say",
            "step 1: at is '1 fortnight'",
            "step 1: there is no card 2",
            "step 2: there is no action 'explode'",
            "step 3 has no 'when'",
            "step 3: 'memory' is no reading",
            "step 4 must be a table",
        ):
            assert problem in refused.value.cause

    @pytest.mark.parametrize(
        "text", ["", "[]", "x: [", "name: a\n\tb", "!!python/object/apply:os.getpid []", "- " * 9000]
    )
    def test_what_is_no_scenario_is_refused_in_a_sentence(self, text):
        with pytest.raises(MalformedInput, match=r"mine.yaml is (no scenario|not YAML)"):
            read_scenario(text, "mine.yaml")

    def test_a_long_list_of_problems_is_cut(self):
        with pytest.raises(MalformedInput, match=r"and 88 more\."):
            read_scenario(_written(*["{action: explode}"] * 100), "mine.yaml")

    def test_a_file_is_found_by_its_ending_and_a_name_among_those_that_ship(self, tmp_path: Path):
        path = tmp_path / "mine.yaml"
        path.write_text(_written("{action: reset}"), encoding="utf-8")

        assert find_scenario(str(path)).name == "mine"
        with pytest.raises(NotFound, match="'mine'"):
            find_scenario("mine")
        with pytest.raises(NotFound, match="cannot be read"):
            find_scenario(str(tmp_path / "other.yaml"))

    def test_steps_are_taken_in_the_order_of_their_times(self):
        late, early = "{at: 2s, action: hang, args: {card: 0}}", "{at: 1s, action: lose, args: {card: 0}}"

        assert [step.action.name for step in read_scenario(_written(late, early), "a file").steps] == ["lose", "hang"]


class TestPlaying:
    def test_cards_behave_well_at_first_and_each_step_is_told(self, cards):
        cards.set_count(1)
        cards.set_lost(0)
        told: list[tuple[float, str, FakeScript]] = []

        def tell(at: float, action: Action, _text: str) -> None:
            told.append((at, action.name, cards.script(0)))

        scenario = read_scenario(_written("{at: 10ms, action: ghost, args: {card: 0, mib: 7}}"), "a file")
        Player(scenario, cards, tell).play()

        assert told == [(0, "reset", FakeScript()), (0.01, "ghost", FakeScript(ghost_mib=7))]

    def test_one_that_is_stopped_takes_no_further_step(self, cards):
        cards.set_count(1)
        lose, late = "{action: lose, args: {card: 0}}", "{at: 1h, action: find, args: {card: 0}}"
        player = Player(read_scenario(_written(lose, late), "a file"), cards, lambda *_: None)
        player.stop()
        player.play()

        assert cards.script(0) == FakeScript()

    def test_one_that_is_played_beside_is_logged(self, cards, caplog):
        cards.set_count(1)
        with caplog.at_level(logging.INFO):
            play_beside(read_scenario(_written("{action: ghost, args: {card: 0, mib: 7}}"), "a file"), cards).join(20)

        assert "scenario mine, 0 s: card 0: 7 MiB is held by no process" in caplog.text


def _written(*steps: str) -> str:
    lines = "".join(f"  - {step}\n" for step in steps)
    return f"name: mine\nsentence: Something happens to a card.\ncards: 1\nsteps:\n{lines}"
