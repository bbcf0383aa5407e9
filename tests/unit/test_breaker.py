"""Which failures in a row take a card out of service, and which only make it suspect."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.breaker import (
    BreakerRules,
    CardFailure,
    JobFailure,
    card_failure,
    job_failure,
    read_job_failure,
    weigh,
)
from warploom.domain.errors import MalformedInput
from warploom.domain.failures import FailureClass
from warploom.domain.identifiers import CardId

RULES = BreakerRules()
AT = datetime(2026, 3, 5, 14, 3, tzinfo=UTC)
ECC = job_failure("CUDA error: uncorrectable ECC error encountered")
BUSY = job_failure("all CUDA-capable devices are busy or unavailable")
PLAIN = job_failure("exit status 1 after 3 s")
CARD = CardId(1)


def failed(lease: int, failure: JobFailure = ECC, job: str = "", cards: tuple[int, ...] = (1,)) -> CardFailure:
    return card_failure(failure, lease, job or f"T-{lease}", AT + timedelta(minutes=lease), cards)


def test_one_failure_is_nothing_yet() -> None:
    assert weigh(CARD, [failed(1)], RULES) is None


def test_two_in_the_words_of_the_hardware_are_enough_also_of_one_job() -> None:
    """Casebook C08: the evidence has the leases, the words and the dates."""
    verdict = weigh(CARD, [failed(1, job="T-1"), failed(2, job="T-1")], RULES)
    assert verdict is not None
    assert verdict.is_broken
    assert verdict.evidence == (
        "2 jobs in a row failed in the words of the hardware within 2 min of their start: L-1 at 5 Mar 14:04 UTC (a memory "
        "error that could not be corrected) and L-2 at 5 Mar 14:05 UTC (a memory error that could not be corrected)"
    )


def test_words_that_may_be_the_programs_doing_count_once_for_each_job() -> None:
    """Casebook C07: one broken program takes no card out, however often it is tried."""
    assert weigh(CARD, [failed(lease, BUSY, "train") for lease in range(1, 8)], RULES) is None
    verdict = weigh(CARD, [failed(1, BUSY, "train"), failed(2, BUSY, "eval")], RULES)
    assert verdict is not None
    assert verdict.is_broken


def test_three_different_jobs_that_fail_without_such_words_make_a_card_only_suspect() -> None:
    same = [failed(lease, PLAIN, "train") for lease in range(1, 8)]
    assert weigh(CARD, same, RULES) is None
    verdict = weigh(CARD, [failed(1, PLAIN), failed(2, PLAIN), failed(3, PLAIN)], RULES)
    assert verdict is not None
    assert not verdict.is_broken
    assert "3 jobs in a row failed on it" in verdict.evidence
    assert "exit status 1 after 3 s" in verdict.evidence


def test_of_several_cards_of_a_lease_only_the_one_that_two_failures_share_is_broken() -> None:
    """Casebook C07: the others are not blamed with it."""
    shared, own = failed(1, cards=(1, 2)), failed(2, cards=(1, 3))
    first = weigh(CARD, [shared, own], RULES)
    assert first is not None
    assert first.is_broken
    assert weigh(CardId(2), [shared], RULES) is None


def test_two_cards_that_always_failed_together_are_both_only_suspect() -> None:
    together = [failed(1, cards=(1, 2)), failed(2, cards=(1, 2))]
    for card in (CARD, CardId(2)):
        verdict = weigh(card, together, RULES)
        assert verdict is not None
        assert not verdict.is_broken
        assert "it may be any" in verdict.evidence


@pytest.mark.parametrize("failure", ["user_error", "oom_device", "oom_host", "interrupted"])
def test_what_its_holder_blames_on_something_else_is_not_held_against_a_card(failure: str) -> None:
    assert job_failure("it broke", FailureClass(failure)).blames_no_card
    assert not job_failure("uncorrectable ECC error encountered", FailureClass(failure)).blames_no_card


def test_broken_hardware_is_no_fault_of_the_task() -> None:
    assert ECC.told_class is FailureClass.INFRA
    assert PLAIN.told_class is FailureClass.UNKNOWN
    assert job_failure(ECC.words, FailureClass.USER_ERROR).told_class is FailureClass.USER_ERROR


def test_the_end_of_a_long_text_is_kept_and_all_of_it_read() -> None:
    read = read_job_failure("CUDA error: uncorrectable ECC error encountered\n" + "at line 7 " * 100 + "\nlast", None)
    assert read is not None
    assert (read.words[0], len(read.words), read.words[-4:]) == ("…", 500, "last")
    assert read.signature is not None


def test_nothing_said_is_no_failure_and_a_class_alone_is_refused() -> None:
    assert read_job_failure(None, None) is None
    assert read_job_failure(" \n", "unknown") is None
    with pytest.raises(MalformedInput, match="but no error"):
        read_job_failure(None, "infra")
    with pytest.raises(MalformedInput, match="is not a class of failure"):
        read_job_failure("it broke", "sabotage")


@given(
    st.lists(
        st.tuples(st.sampled_from([ECC, BUSY, PLAIN]), st.sampled_from(["a", "b"]), st.sets(st.integers(1, 3))),
        max_size=8,
    )
)
def test_a_card_is_broken_only_by_failures_that_no_other_card_can_have_caused(
    drawn: list[tuple[JobFailure, str, set[int]]],
) -> None:
    failures = [failed(n, each, job, tuple(cards | {1})) for n, (each, job, cards) in enumerate(drawn, 1)]
    verdict = weigh(CARD, failures, RULES)
    if verdict is not None and verdict.is_broken:
        signed = [set(each.cards) for each in failures if each.signature]
        assert len(signed) >= 2
        assert set[int].intersection(*signed) == {1} or any(not each.is_certain for each in failures if each.signature)
    if verdict is not None:
        assert len(verdict.evidence) <= 500
