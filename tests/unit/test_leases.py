from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from warploom.domain.errors import MalformedInput
from warploom.domain.leases import (
    END_SENTENCES,
    MOVES,
    EnvStyle,
    HeldCard,
    LeaseEnd,
    LeaseFate,
    LeaseState,
    ProcessCount,
    check_step,
    export_line,
    exports,
    lease_lost,
    run_length,
    three_clocks,
    unnumbered,
)

NOW = datetime(2026, 3, 1, 14, 23, 10, tzinfo=UTC)
CARDS = [HeldCard("local/3", "GPU-ccc", 3, 3), HeldCard("local/1", "GPU-aaa", 1, 1)]


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_exports_name_cards_by_uuid_in_the_order_of_the_bus() -> None:
    assert exports(57, CARDS, EnvStyle.UUID, "http://127.0.0.1:8765") == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-aaa,GPU-ccc",
        "WARPLOOM_LEASE": "L-57",
        "WARPLOOM_URL": "http://127.0.0.1:8765",
    }


def test_exports_name_cards_by_index_on_request() -> None:
    variables = exports(57, CARDS, EnvStyle.INDEX, None)
    assert export_line(variables) == "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,3 WARPLOOM_LEASE=L-57"


def test_numbers_that_are_uncertain_are_never_exported() -> None:
    """Casebook C03: a program that counts from a wrong number would use somebody else's card."""
    cards = [CARDS[0], replace(CARDS[1], number=None)]
    assert exports(57, cards, EnvStyle.INDEX, None)["CUDA_VISIBLE_DEVICES"] == "GPU-aaa,GPU-ccc"
    assert "which number CUDA gives local/1 is uncertain" in (unnumbered(cards, EnvStyle.INDEX) or "")
    assert unnumbered(CARDS, EnvStyle.INDEX) is unnumbered(cards, EnvStyle.UUID) is None


def test_a_lost_lease_says_when_why_who_holds_the_card_and_where_the_ticket_stands() -> None:
    lost = lease_lost(LeaseFate(57, NOW, LeaseEnd.LAPSED, ["local/0"], ["L-58 (codex-1)"], "T-18", 1))
    assert lost.cause == (
        "L-57 ended at 14:23:10 UTC: the offer was not accepted in time; local/0 is now held by L-58 (codex-1)."
    )
    assert "T-18 is back in the queue at place 1, at its original age" in lost.next_step
    assert "warploom wait T-18" in lost.next_step


def test_a_lost_lease_whose_card_nobody_holds_says_to_ask_again() -> None:
    lost = lease_lost(LeaseFate(57, NOW, LeaseEnd.EXPIRED, ["local/0"], [], "T-18", None))
    assert lost.cause == "L-57 ended at 14:23:10 UTC: its holder was silent for a whole lease time."
    assert "gpu_request" in lost.next_step


def test_a_lost_claim_says_who_has_the_task_and_to_stop() -> None:
    fate = LeaseFate(57, NOW, LeaseEnd.EXPIRED, [], [], "T-18", None, is_task=True, successor="L-58 (codex-1)")
    lost = lease_lost(fate)
    assert lost.cause == (
        "L-57 ended at 14:23:10 UTC: its holder was silent for a whole lease time; T-18 is now held by L-58 (codex-1)."
    )
    assert lost.next_step == "Nothing was changed; stop working on T-18, and take another with loom_claim."


def test_a_lost_claim_names_who_has_its_cards_and_its_task_once() -> None:
    holder = "L-58 (codex-1)"
    fate = LeaseFate(57, NOW, LeaseEnd.RESET, ["local/0"], [holder], "T-18", None, is_task=True, successor=holder)
    assert lease_lost(fate).cause.count(holder) == 1


def test_every_end_has_its_sentence_and_every_state_its_moves() -> None:
    assert END_SENTENCES.keys() == set(LeaseEnd)
    assert MOVES.keys() == set(LeaseState)
    assert MOVES[LeaseState.ENDED] == ()


@pytest.mark.parametrize(
    ("step", "total"), [(-1, None), (2**53 + 1, None), (10**400, None), (0, 0), (0, -5), (0, 2**63)]
)
def test_steps_out_of_range_are_refused(step: int, total: int | None) -> None:
    with pytest.raises(MalformedInput, match="out of range"):
        check_step(step, total)


def test_steps_in_range_pass() -> None:
    check_step(0, None)
    check_step(2**53, 1)


def test_a_declared_length_is_minutes() -> None:
    assert run_length(None) is None
    assert run_length(0.5) == timedelta(seconds=30)
    assert run_length(86_400) == timedelta(days=60)


def test_three_clocks_run_while_session_process_and_steps_do() -> None:
    clocks = three_clocks(NOW, ago(5), ProcessCount(1), ago(3), 3.91)
    assert [clock.is_running for clock in clocks] == [True, True, True]
    assert [clock.text for clock in clocks] == ["session alive", "process alive", "stepping, 3.91 /s"]


def test_three_clocks_stop_each_by_itself() -> None:
    clocks = three_clocks(NOW, ago(61), ProcessCount(0), ago(600), 3.91)
    assert [clock.is_running for clock in clocks] == [False, False, False]
    assert [clock.text for clock in clocks] == [
        "session silent for 1 min",
        "no process on the card",
        "no step for 10 min",
    ]


def test_a_process_that_could_not_be_looked_for_since_is_told_with_its_age() -> None:
    assert three_clocks(NOW, NOW, ProcessCount(1, ago(90)), None, None)[1].text == "process seen 2 min ago"


def test_a_slow_job_is_still_stepping_between_two_of_its_steps() -> None:
    slow = three_clocks(NOW, NOW, ProcessCount(1), ago(1_800), 1 / 600)
    assert slow[2].is_running


def test_no_report_is_no_progress_but_also_no_fault() -> None:
    assert three_clocks(NOW, NOW, ProcessCount(0), None, None)[2].text == "no steps reported"
