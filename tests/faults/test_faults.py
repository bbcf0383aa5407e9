"""Faults drawn by chance against a whole running stack, and the judge that says whether a grant was wrong."""

import pytest

from faults.draws import draw_steps
from faults.run import run_faults
from faults.steps import WEIGHTS
from faults.truth import FOREVER, Spell
from faults.verdict import Grant, judge

CARD = "GPU-a"
SURVEY_SECONDS = 1.0


def occupied(since: float, until: float = FOREVER, cause: str = "somebody else's process", **of: str) -> Spell:
    return Spell(CARD, cause, since, until, **of)


def granted_at(at: float, spells: list[Spell]) -> list[str]:
    found = judge([Grant("L-2", (CARD,), at)], spells, SURVEY_SECONDS)
    return [spell.cause for violation in found for spell in violation.spells]


def test_a_grant_onto_a_card_that_somebody_else_uses_is_a_violation() -> None:
    found = judge([Grant("L-2", ("GPU-b", CARD), 10.0)], [occupied(0.0)], SURVEY_SECONDS)
    assert [violation.sentence for violation in found] == [
        "L-2 was granted on GPU-a, which had been taken for 10.00 s: somebody else's process"
    ]


def test_several_causes_that_follow_one_another_without_a_break_are_one() -> None:
    causes = [occupied(0.0, 4.5, "a ghost"), occupied(4.0, 9.5, "blind"), occupied(9.0, 10.0)]
    assert granted_at(10.0, causes) == ["somebody else's process", "blind", "a ghost"]


@pytest.mark.parametrize(
    "spells",
    [
        [],
        [occupied(8.0)],
        [occupied(0.0, 9.9)],
        [occupied(0.0, 8.5), occupied(9.0)],
        [occupied(0.0, lease="L-2")],
        [Spell("GPU-b", "blind", 0.0)],
    ],
    ids=["clear", "taken just now", "clear again", "clear in between", "its own process", "another card"],
)
def test_a_grant_onto_a_card_that_may_have_been_observed_clear_is_none(spells: list[Spell]) -> None:
    assert granted_at(10.0, spells) == []


def test_a_card_that_an_ex_holder_still_uses_is_taken_for_everybody_else() -> None:
    assert granted_at(10.0, [occupied(0.0, lease="L-1")]) == ["somebody else's process"]


def test_the_same_seed_draws_the_same_steps() -> None:
    assert draw_steps(7, 200, WEIGHTS) == draw_steps(7, 200, WEIGHTS)
    assert draw_steps(7, 200, WEIGHTS) != draw_steps(8, 200, WEIGHTS)


@pytest.mark.timeout(240)
def test_faults_by_chance_lead_to_no_grant_onto_an_occupied_card_and_leave_every_card_in_the_pool() -> None:
    lines: list[str] = []
    outcome = run_faults(20, 80, lines.append)
    assert outcome.is_good, "\n".join(lines)
    assert outcome.grants > 0
    assert lines[-1] == f"grants {outcome.grants}, onto occupied cards 0, stuck cards 0"
