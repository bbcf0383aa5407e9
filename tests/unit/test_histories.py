"""How long earlier runs took, and what that says of the next one."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.histories import LEAST_RUNS, Length, PastRun, alike, length_of

lengths = st.lists(st.integers(0, 10**6).map(lambda seconds: timedelta(seconds=seconds)), min_size=1, max_size=20)


def minutes(*numbers: float) -> list[timedelta]:
    return [timedelta(minutes=number) for number in numbers]


@given(lengths, st.integers(0, 10**6).map(lambda seconds: timedelta(seconds=seconds)))
def test_what_is_said_of_a_run_is_in_order_and_longer_than_it_has_lasted(
    past: list[timedelta], lasted: timedelta
) -> None:
    length = length_of(past, lasted)
    if length is not None:
        assert lasted < length.soonest <= length.p50 <= length.p90
        assert 1 <= length.runs <= len(past)


@given(lengths)
def test_the_order_of_earlier_runs_says_nothing(past: list[timedelta]) -> None:
    assert length_of(past) == length_of(reversed(past))


def test_fewer_than_three_earlier_runs_say_nothing() -> None:
    assert length_of(minutes(20, 20)) is None
    assert length_of(minutes(20, 20, 20)) == Length(*minutes(20, 20, 20), runs=LEAST_RUNS)


def test_a_run_that_has_outlasted_all_earlier_ones_is_unknown() -> None:
    assert length_of(minutes(10, 20, 30), timedelta(minutes=30)) is None


def test_a_run_that_goes_on_is_judged_by_those_that_took_longer() -> None:
    past = minutes(5, 5, 5, 5, 40, 50, 60)
    fresh, old = length_of(past), length_of(past, timedelta(minutes=6))
    assert fresh is not None
    assert old is not None
    assert fresh.p50 == timedelta(minutes=5)
    assert (old.p50, old.runs) == (timedelta(minutes=50), 3)


@pytest.mark.parametrize("count", [3, 5, 9, 20])
def test_the_next_run_ends_by_the_p50_half_of_the_time_and_by_the_p90_nearly_nine_times_in_ten(count: int) -> None:
    random = Random(7)
    early = on_time = 0
    for _ in range(4000):
        *past, following = (timedelta(minutes=random.lognormvariate(3, 0.5)) for _ in range(count + 1))
        length = length_of(past)
        assert length is not None
        early += following <= length.p50
        on_time += following <= length.p90
    assert 0.47 <= early / 4000 <= 0.53
    assert 0.8 <= on_time / 4000 <= 0.93


def test_runs_on_such_cards_count_alone_where_there_are_enough() -> None:
    runs = [PastRun(length, "H200") for length in minutes(10, 11, 12)] + [PastRun(timedelta(minutes=60), "A100")]
    assert alike(runs, ["H200"]) == minutes(10, 11, 12)
    assert alike(runs, ["A100"]) == minutes(10, 11, 12, 60)
