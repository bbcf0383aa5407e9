"""What the people of a host say of its cards."""

from pathlib import Path

import pytest

from warploom.domain.card_rules import MOST_RULES, NO_RULES, CardRules, read_card_tables
from warploom.domain.errors import MalformedInput

PATH = Path("config.toml")
UUID = "GPU-1a2b3c4d-0000"


class TestWhichRulesHold:
    def test_a_card_that_no_table_names_has_weight_1_and_ignores_nobody(self):
        assert read_card_tables({"1": {"weight": 2}}, PATH).rules_for(0, UUID) == NO_RULES

    def test_the_nearest_table_says_the_weight_and_what_is_ignored_adds_up(self):
        written = {
            "*": {"weight": 1.5, "ignore": ["dcgm-exporter", "user:root"]},
            "0": {"weight": 3, "ignore": ["user:root", "command:Xorg*"]},
            "GPU-1a2b": {"weight": 0.5},
        }
        tables = read_card_tables(written, PATH)

        assert tables.rules_for(0, "GPU-9") == CardRules(3.0, ["user:root", "command:Xorg*", "dcgm-exporter"])
        assert tables.rules_for(0, UUID).weight == 0.5
        assert tables.rules_for(7, "GPU-9").weight == 1.5

    def test_the_longer_beginning_of_a_uuid_is_nearer(self):
        tables = read_card_tables({"GPU-1a": {"weight": 2}, "GPU-1a2b3c": {"weight": 3}}, PATH)

        assert tables.rules_for(0, UUID).weight == 3

    def test_a_table_without_a_weight_leaves_it_to_the_next(self):
        tables = read_card_tables({"0": {"ignore": []}, "*": {"weight": 2}}, PATH)

        assert tables.rules_for(0, UUID) == CardRules(2.0, [])

    def test_there_are_never_more_rules_than_a_survey_may_tell(self):
        full = {"ignore": [f"user:{number}" for number in range(32)]}
        other = {"ignore": [f"command:{number}" for number in range(32)]}
        written = {"*": full, "0": other, **{UUID[:size]: {"ignore": [f"a{size}"] * 32} for size in range(4, 17)}}

        assert len(read_card_tables(written, PATH).rules_for(0, UUID).ignore) <= MOST_RULES

    def test_rules_are_told_in_one_line(self):
        assert str(CardRules(2.0, ["user:root", "Xorg"])) == "weight 2, ignores user:root and Xorg"
        assert str(NO_RULES) == "weight 1, ignores nobody"


class TestWhomARuleCovers:
    @pytest.mark.parametrize(
        ("rule", "user", "command"),
        [
            ("user:root", "root", "python train.py"),
            ("user:root", "root", None),
            ("command:Xorg", "ada", "Xorg :0"),
            ("command:Xorg*", "ada", "Xorg.bin"),
            ("command:python serve*", "ada", "python serve.py"),
            ("dcgm-exporter", None, "dcgm-exporter"),
            ("dcgm-exporter", "root", "dcgm-exporter -f"),
        ],
    )
    def test_it_covers_that_user_program_or_line(self, rule, user, command):
        assert CardRules(ignore=[rule]).ignores(user, command)

    @pytest.mark.parametrize(
        ("rule", "user", "command"),
        [
            ("user:root", "Root", "python"),
            ("user:roo", "root", "python"),
            ("user:root", None, "root"),
            ("command:Xorg", "ada", "python Xorg"),
            ("command:*", "ada", None),
            ("dcgm", "root", "dcgm-exporter"),
            ("exporter", "root", "python exporter"),
        ],
    )
    def test_it_covers_nobody_else_and_nobody_who_cannot_be_read(self, rule, user, command):
        assert not CardRules(ignore=[rule]).ignores(user, command)


class TestWhatIsNoTable:
    @pytest.mark.parametrize(
        ("written", "named"),
        [
            (5, "cards in "),
            ({"0": 5}, "cards.0 in "),
            ({"first": {}}, "cards.first in "),
            ({"local/0": {}}, "cards.local/0 in "),
            ({"00": {}}, "cards.00 in "),
            ({"-1": {}}, "cards.-1 in "),
            ({"9" * 5000: {}}, "cards.999"),
            ({"GPU-" + "a" * 90: {}}, "cards.GPU-"),
            ({"0": {"wait": 1}}, "cards.0.wait in "),
            ({"0": {"weight": "fast"}}, "cards.0.weight in "),
            ({"0": {"weight": True}}, "cards.0.weight in "),
            ({"0": {"weight": 0}}, "cards.0.weight in "),
            ({"0": {"weight": 1001}}, "cards.0.weight in "),
            ({"0": {"weight": float("nan")}}, "cards.0.weight in "),
            ({"0": {"weight": float("inf")}}, "cards.0.weight in "),
            ({"*": {"ignore": "user:root"}}, "cards.*.ignore in "),
            ({"*": {"ignore": ["a"] * 33}}, "cards.*.ignore in "),
            ({"0": {"ignore": [5]}}, "cards.0.ignore in "),
            ({"0": {"ignore": [""]}}, "cards.0.ignore in "),
            ({"0": {"ignore": ["user:"]}}, "cards.0.ignore in "),
            ({"0": {"ignore": ["user: root"]}}, "cards.0.ignore in "),
            ({"0": {"ignore": ["usr:root"]}}, "cards.0.ignore in "),
            ({"0": {"ignore": ["two words"]}}, "cards.0.ignore in "),
            ({"0": {"ignore": ["a\nb"]}}, "cards.0.ignore in "),
            ({"0": {"ignore": ["x" * 81]}}, "cards.0.ignore in "),
            ({str(number): {} for number in range(300)}, "config.toml has 300 tables"),
        ],
    )
    def test_a_mistake_is_told_by_its_key_in_one_sentence(self, written, named):
        with pytest.raises(MalformedInput) as refusal:
            read_card_tables(written, PATH)

        assert named in refusal.value.cause
        assert refusal.value.next_step
        assert len(refusal.value.cause) < 200
