from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.etas import (
    UNKNOWN,
    EtaWord,
    Pace,
    Span,
    after,
    at,
    measured_end,
    minutes_until,
    next_pace,
    run_end,
    show_eta,
    spoken_eta,
    weakest,
)
from warploom.domain.histories import declared
from warploom.domain.leases import LARGEST_STEP

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def after_minutes(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def span(low: float, high: float, word: EtaWord = EtaWord.MEASURED) -> Span:
    return Span(word, after_minutes(low), after_minutes(high))


steps = st.integers(0, LARGEST_STEP)
totals = st.none() | st.integers(1, LARGEST_STEP)
pauses = st.floats(0, 60 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
words = st.sampled_from(list(EtaWord))


@given(st.lists(st.tuples(steps, totals, pauses), min_size=1, max_size=12))
def test_any_series_of_reports_leaves_a_pace_that_can_be_said(reports: list[tuple[int, int | None, timedelta]]) -> None:
    pace, now = None, NOW
    for step, total, pause in reports:
        now += pause
        pace = next_pace(pace, step, total, now)
        assert pace.rate is None or pace.rate > 0
        assert 0 <= pace.spread <= 1
        end = measured_end(pace, now)
        if end.soonest is not None and end.latest is not None:
            assert now <= end.soonest <= end.latest
        show_eta(end, now)


def test_one_report_measures_nothing() -> None:
    pace = next_pace(None, 100, 1000, NOW)
    assert pace.rate is None
    assert measured_end(pace, NOW) == UNKNOWN


def test_two_reports_measure_the_rate_and_the_end() -> None:
    pace = next_pace(next_pace(None, 0, 600, NOW), 60, 600, after_minutes(1))
    assert pace.rate == pytest.approx(1.0)
    assert measured_end(pace, after_minutes(1)) == span(1 + 9 * 0.9, 1 + 9 * 1.1)


def test_a_rate_is_averaged_with_weight_three_tenths_and_its_spread_widens_the_end() -> None:
    pace = Pace(100, 1000, 1.0, 0.1, NOW)
    pace = next_pace(pace, 220, 1000, after_minutes(1))
    assert pace.rate == pytest.approx(0.7 * 1.0 + 0.3 * 2.0)
    assert pace.spread == pytest.approx(0.7 * 0.1 + 0.3 * 1.0)


def test_a_step_that_goes_backwards_starts_the_measuring_again() -> None:
    pace = next_pace(Pace(500, 1000, 3.0, 0.2, NOW), 10, 1000, after_minutes(1))
    assert pace == Pace(10, 1000, None, 0.0, after_minutes(1))


def test_the_same_step_again_is_no_progress_but_may_tell_a_new_total() -> None:
    before = Pace(500, None, 3.0, 0.2, NOW)
    assert next_pace(before, 500, 900, after_minutes(1)) == Pace(500, 900, 3.0, 0.2, NOW)


def test_an_end_without_a_total_is_unknown() -> None:
    assert measured_end(Pace(5, None, 1.0, 0.1, NOW), NOW) == UNKNOWN


def test_an_end_too_far_away_to_be_meant_is_unknown() -> None:
    assert measured_end(Pace(1, LARGEST_STEP, 0.001, 0.1, NOW), NOW) == UNKNOWN


def test_a_run_that_is_past_its_last_step_ends_now() -> None:
    assert measured_end(Pace(12, 10, 1.0, 0.1, NOW), after_minutes(5)) == at(after_minutes(5))


def test_measured_steps_come_before_a_declared_end_and_a_passed_one_says_nothing() -> None:
    declared = after_minutes(20)
    pace = Pace(0, 600, 1.0, 0.1, NOW)
    assert run_end(pace, declared, NOW).word is EtaWord.MEASURED
    assert run_end(Pace(0, None, 1.0, 0.1, NOW), declared, NOW) == Span(EtaWord.DECLARED, declared, declared)
    assert run_end(None, declared, NOW) == Span(EtaWord.DECLARED, declared, declared)
    assert run_end(None, declared, after_minutes(21)) == UNKNOWN
    assert run_end(None, None, NOW) == UNKNOWN


@given(st.lists(words))
def test_a_chain_is_as_good_as_its_weakest_link(links: list[EtaWord]) -> None:
    order = [EtaWord.MEASURED, EtaWord.HISTORY, EtaWord.DECLARED, EtaWord.UNKNOWN]
    assert weakest(links) is order[max((order.index(link) for link in links), default=0)]


def test_a_run_that_starts_measured_and_declares_its_length_ends_declared() -> None:
    assert after(span(10, 20), declared(timedelta(minutes=5))) == span(15, 25, EtaWord.DECLARED)
    assert after(span(10, 20), None) == UNKNOWN
    assert after(UNKNOWN, declared(timedelta(minutes=5))) == UNKNOWN


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-5, 0, "now"),
        (0, 0, "now"),
        (0, 0.4, "under a minute"),
        (44, 52, "44–52 min"),
        (48, 48, "~48 min"),
        (110, 130, "~2 h"),
        (150, 160, "~2.6 h"),
    ],
)
def test_a_span_is_said_as_a_range_or_as_about(low: float, high: float, said: str) -> None:
    assert spoken_eta(span(low, high), NOW) == said


def test_an_unknown_span_says_so_and_has_no_minutes() -> None:
    view = show_eta(UNKNOWN, NOW)
    assert (view.text, view.word, view.source, view.minutes) == ("unknown", EtaWord.UNKNOWN, "nobody can say", None)


@given(words, st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_minutes_are_never_negative_and_in_order(word: EtaWord, start: float, width: float) -> None:
    minutes = minutes_until(span(start, start + width, word), NOW)
    assert minutes is not None
    assert 0 <= minutes[0] <= minutes[1]
