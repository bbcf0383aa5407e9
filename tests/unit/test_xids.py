"""Which of the driver's critical errors speak against a card, and how they are said."""

import pytest

from warploom.domain.xids import HARDWARE, NOTED, hardware_xids, is_hardware, say_xid, say_xids


@pytest.mark.parametrize("xid", [46, 48, 62, 64, 74, 79, 94, 95, 119, 120, 140, 143, 158])
def test_what_takes_the_card_from_the_next_job_too_speaks_against_it(xid: int) -> None:
    """Casebook C08: these need a reset, a restart or another card."""
    assert is_hardware(xid)


@pytest.mark.parametrize("xid", [13, 31, 32, 43, 45, 63, 68, 69, 92, 109, 154, 0, 999_999])
def test_what_a_program_did_or_the_driver_mended_does_not(xid: int) -> None:
    """Casebook C07: a program's own errors, corrected memory errors and numbers that nobody knows are no evidence."""
    assert not is_hardware(xid)


def test_no_number_is_on_both_sides() -> None:
    assert HARDWARE.keys() & NOTED.keys() == set()


def test_each_is_said_once_with_how_often_it_came() -> None:
    assert say_xid(4242) == "Xid 4242"
    assert say_xids([79]) == "Xid 79: the card has fallen off the bus"
    assert say_xids([31, 48, 31]) == (
        "Xid 31: a page fault in the card's memory (2 times); Xid 48: a memory error that could not be corrected"
    )


def test_those_against_the_card_are_picked_in_the_order_in_which_they_came() -> None:
    assert hardware_xids([31, 79, 13, 48]) == [79, 48]
