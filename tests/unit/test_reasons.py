from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from warploom.domain.cards import CardState, Condition, KnownCard, KnownHolder, Service
from warploom.domain.etas import UNKNOWN, EtaWord, Pace, Span, at
from warploom.domain.identifiers import AgentId, CardId, HostId, ReservationId, TaskId
from warploom.domain.leases import LeaseState
from warploom.domain.queues import Waiting
from warploom.domain.reasons import (
    Ahead,
    blocker,
    card_state,
    free_span,
    say_card,
    state_since,
    tell_ahead,
    waiting_chain,
)
from warploom.domain.reservations import Booking

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FREE = KnownCard(
    card=CardId(1),
    host_id=HostId(1),
    host="local",
    index=0,
    uuid="GPU-1",
    model="H200",
    memory_mib=144_384,
    service=Service.IN_SERVICE,
    service_reason=None,
    service_since=NOW - timedelta(minutes=9),
    condition=Condition.CLEAR,
    condition_since=NOW - timedelta(minutes=8),
    condition_detail=None,
    observed_at=NOW - timedelta(seconds=1),
    is_fresh=True,
    used_mib=0,
    utilisation=0,
    processes=[],
    holder=None,
)
HOLDER = KnownHolder(
    lease=42,
    task=17,
    title="train bert",
    agent="claude-1",
    session=3,
    client=None,
    directory=None,
    state=LeaseState.ACTIVE,
    granted_at=NOW - timedelta(minutes=30),
    expires_at=NOW + timedelta(minutes=3),
    expected_end=NOW + timedelta(minutes=48),
    seen_at=NOW,
    pace=None,
)


BOOKING = Booking(
    ReservationId(3), AgentId(9), "ada", "sweep", NOW - timedelta(minutes=10), NOW + timedelta(minutes=110)
)
LATER = replace(BOOKING, starts_at=NOW + timedelta(minutes=60), title=None)


def waits(count: int = 1) -> Waiting:
    return Waiting(TaskId(1), count, frozenset())


def card(number: int = 1, **facts: Any) -> KnownCard:
    return replace(FREE, card=CardId(number), index=number - 1, **facts)


def holder(**facts: Any) -> KnownHolder:
    return replace(HOLDER, **facts)


OVERDUE = holder(expected_end=NOW - timedelta(minutes=5))
OFFERED = holder(state=LeaseState.OFFERED)


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, CardState.FREE),
        ({"holder": HOLDER}, CardState.LEASED),
        ({"holder": OFFERED}, CardState.OFFERED),
        ({"holder": OVERDUE}, CardState.OVERDUE),
        ({"holder": HOLDER, "condition": Condition.LOST}, CardState.LOST),
        ({"holder": HOLDER, "condition": Condition.BLIND, "is_fresh": False}, CardState.BLIND),
        ({"holder": HOLDER, "service": Service.DRAINING}, CardState.LEASED),
        ({"is_fresh": False, "service": Service.DRAINED}, CardState.UNSEEN),
        ({"service": Service.QUARANTINED, "condition": Condition.FOREIGN}, CardState.QUARANTINED),
        ({"service": Service.DRAINED, "condition": Condition.FOREIGN}, CardState.DRAINED),
        ({"condition": Condition.FOREIGN}, CardState.FOREIGN),
        ({"condition": Condition.SETTLING}, CardState.SETTLING),
        ({"condition": Condition.OCCUPIED}, CardState.OCCUPIED),
        ({"condition": Condition.GHOST}, CardState.GHOST),
        ({"bookings": (BOOKING,)}, CardState.RESERVED),
        ({"bookings": (BOOKING,), "condition": Condition.FOREIGN}, CardState.FOREIGN),
        ({"bookings": (BOOKING,), "holder": HOLDER}, CardState.LEASED),
        ({"bookings": (LATER,)}, CardState.FREE),
    ],
)
def test_a_card_is_summed_up_in_one_word(facts: dict[str, Any], state: CardState) -> None:
    assert card_state(card(**facts), NOW) is state


@pytest.mark.parametrize(
    ("facts", "minutes"),
    [
        ({}, 8),
        ({"holder": HOLDER}, 30),
        ({"holder": OVERDUE}, 5),
        ({"service": Service.DRAINED}, 9),
        ({"condition": Condition.FOREIGN}, 8),
        ({"bookings": (BOOKING,)}, 10),
    ],
)
def test_a_state_says_since_when(facts: dict[str, Any], minutes: float) -> None:
    known = card(**facts)
    assert state_since(known, card_state(known, NOW)) == NOW - timedelta(minutes=minutes)


def test_every_card_that_cannot_be_granted_says_why_in_one_line() -> None:
    for service, condition, is_fresh, held in product(
        Service, Condition, (True, False), (None, HOLDER, OVERDUE, OFFERED)
    ):
        known = card(service=service, condition=condition, is_fresh=is_fresh, holder=held)
        said = blocker(known, NOW)
        assert (said is None) == known.is_grantable
        assert say_card(known, NOW).endswith((".", "`."))
        assert said is None or (said.startswith("local/0 ") and said.isprintable())


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"holder": HOLDER},
            "local/0 is held by L-42 'train bert' (claude-1), free in ~48 min, declared from its holder's own estimate",
        ),
        (
            {"holder": holder(expected_end=None)},
            "local/0 is held by L-42 'train bert' (claude-1), free at an unknown time",
        ),
        (
            {"holder": HOLDER, "service": Service.DRAINING},
            "local/0 is held by L-42 'train bert' (claude-1), free in ~48 min, declared from its holder's own estimate, "
            "then drained by an operator",
        ),
        (
            {"holder": OVERDUE},
            "local/0 is held by L-42 'train bert' (claude-1), 5 min past the end it declared, free at an unknown time",
        ),
        (
            {"holder": holder(pace=Pace(10, 10, 1.0, 0.1, NOW))},
            "local/0 is held by L-42 'train bert' (claude-1), free now, measured from its step rate",
        ),
        ({"holder": OFFERED}, "local/0 is offered to claude-1 for 'train bert' (L-42) until 12:03:00 UTC"),
        ({"service": Service.DRAINED, "service_reason": "new fan"}, "local/0 is drained by an operator: new fan"),
        (
            {"condition": Condition.SETTLING, "condition_detail": "2 GiB still in use"},
            "local/0 is waiting to be observed clear: 2 GiB still in use",
        ),
        (
            {"condition": Condition.FOREIGN, "condition_detail": "sd (user eve)"},
            "local/0 is used by somebody else since 11:52 UTC: sd (user eve)",
        ),
        (
            {"is_fresh": False, "observed_at": NOW - timedelta(seconds=40)},
            "local/0 has not been surveyed for 40 s: its host agent is silent, so nothing is granted there",
        ),
        (
            {"condition": Condition.LOST, "condition_detail": "it is missing"},
            "local/0 is lost: it is missing",
        ),
    ],
)
def test_a_reason_names_who_and_until_when(facts: dict[str, Any], said: str) -> None:
    assert blocker(card(**facts), NOW) == said


def test_a_card_is_free_now_at_its_holders_end_or_at_an_unknown_time() -> None:
    end = NOW + timedelta(minutes=48)
    assert free_span(card(), NOW) == at(NOW)
    assert free_span(card(holder=HOLDER), NOW) == Span(EtaWord.DECLARED, end, end)
    assert free_span(card(holder=OVERDUE), NOW) == UNKNOWN
    assert free_span(card(condition=Condition.FOREIGN), NOW) == UNKNOWN


AHEAD = [
    Ahead(18, "eval-sweep", "claude-2", NOW - timedelta(minutes=41)),
    Ahead(91, "hotfix", "codex-1", NOW - timedelta(minutes=3)),
]


def test_a_card_says_for_whom_it_is_reserved_until_when_and_what_goes_before() -> None:
    """Casebook C41."""
    assert say_card(card(bookings=(BOOKING,)), NOW) == (
        "Observed clear, and reserved for ada until 13:50 UTC (R-3) for 'sweep': until then only ada is granted it."
    )
    assert say_card(card(bookings=(LATER,)), NOW).endswith(
        "say how many minutes you need: it is reserved for ada from 13:00 to 13:50 UTC (R-3), and only a run that ends "
        "before that goes first."
    )
    assert say_card(card(bookings=(BOOKING,), holder=HOLDER), NOW).startswith(
        "local/0 is held by L-42 'train bert' (claude-1), running into R-3 of ada (until 13:50 UTC), free in"
    )
    assert free_span(card(bookings=(BOOKING,)), NOW).latest == BOOKING.ends_at


def test_a_held_card_that_is_reserved_later_names_both_reasons() -> None:
    """Casebook C41."""
    chain = waiting_chain([card(holder=HOLDER, bookings=(LATER,))], waits(), [], 0, NOW)
    assert chain[0].startswith("local/0 is held by L-42")
    assert chain[1].startswith("local/0 is reserved for ada from 13:00 to 13:50 UTC (R-3); say how long you need")


def test_a_named_card_that_is_held_is_the_dominant_reason() -> None:
    chain = waiting_chain([card(holder=HOLDER)], waits(1), AHEAD, 2, NOW)
    assert chain[0].startswith("local/0 is held by L-42")
    assert chain[1] == "ahead of you: T-18 'eval-sweep' and T-91 'hotfix'"
    assert chain[2] == "T-18 'eval-sweep' (claude-2), waiting 41 min"


def test_of_several_cards_that_fit_the_one_that_is_free_first_is_told() -> None:
    later = holder(lease=43, expected_end=NOW + timedelta(minutes=90))
    chain = waiting_chain(
        [card(1, holder=later), card(2, holder=HOLDER), card(3, holder=OVERDUE)], waits(1), [], 0, NOW
    )
    assert chain == [
        "no fitting card is free: local/1 is held by L-42 'train bert' (claude-1), free in ~48 min, "
        "declared from its holder's own estimate; 2 more are in use too"
    ]


def test_a_clear_card_with_others_ahead_says_who_they_are() -> None:
    assert waiting_chain([card()], waits(1), AHEAD[:1], 1, NOW)[0] == "ahead of you: T-18 'eval-sweep'"


def test_more_than_three_ahead_are_counted() -> None:
    assert waiting_chain([card()], waits(1), [*AHEAD, *AHEAD], 7, NOW)[0].endswith("and 4 more")


def test_every_named_card_that_is_missing_is_told() -> None:
    chain = waiting_chain([card(1, holder=HOLDER), card(2, service=Service.DRAINED)], waits(2), [], 0, NOW)
    assert [line[:7] for line in chain] == ["local/0", "local/1"]


def test_a_ticket_that_no_card_fits_any_more_says_so() -> None:
    assert waiting_chain([], waits(1), [], 0, NOW) == ["no card that is known fits it any more"]


def test_a_ticket_ahead_is_named_with_its_wait() -> None:
    assert tell_ahead(AHEAD[1], NOW) == "T-91 'hotfix' (codex-1), waiting 3 min"
