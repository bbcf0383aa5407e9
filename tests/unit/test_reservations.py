"""Casebook C41 and C36: what a reservation means to the queue of its card."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.errors import Impossible, MalformedInput, Taken
from warploom.domain.etas import UNKNOWN, EtaWord, Span, at
from warploom.domain.identifiers import AgentId, CardId, HostId, ReservationId, TaskId, parse_reservation
from warploom.domain.queues import Slot, Waiting, decide, forecast, is_put_back
from warploom.domain.reservations import (
    Booking,
    ReservationRules,
    ReservationWish,
    Window,
    barrier,
    read_window,
    refuse_overlap,
    say_barrier,
    spoken_window,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ADA, BOB, EVE = AgentId(1), AgentId(2), AgentId(3)
NAMES = {ADA: "ada", BOB: "bob", EVE: "eve"}
RULES = ReservationRules(timedelta(days=7), timedelta(hours=24), 10)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def booked(start: float, end: float, agent: AgentId = ADA, number: int = 3) -> Booking:
    window = NOW + minutes(start), NOW + minutes(end)
    return Booking(ReservationId(number), agent, NAMES[agent], None, *window)


def card(number: int, *bookings: Booking, host: int = 1, free: float | None = 0) -> Slot:
    """A card that is clear (0), held until then, or held nobody knows how long (None)."""
    held = UNKNOWN if free is None else Span(EtaWord.DECLARED, NOW + minutes(free), NOW + minutes(free))
    return Slot(CardId(number), HostId(host), free == 0, None if free == 0 else held, bookings)


def wants(
    task: int, agent: AgentId, cards: set[int], run: float | None = None, count: int = 1, lead: float = 0
) -> Waiting:
    length = None if run is None else minutes(run)
    return Waiting(TaskId(task), count, frozenset(map(CardId, cards)), length, agent, minutes(lead))


def grants(slots: list[Slot], tickets: list[Waiting], now: datetime = NOW) -> dict[int, tuple[int, ...]]:
    return {grant.task: grant.cards for grant in decide(slots, tickets, now)}


def test_in_its_window_a_card_is_granted_to_its_owner_alone() -> None:
    slots = [card(1, booked(-10, 60))]
    assert grants(slots, [wants(7, BOB, {1}), wants(8, BOB, {1}, run=5)]) == {}
    assert grants(slots, [wants(7, BOB, {1}), wants(8, ADA, {1})]) == {8: (1,)}


def test_before_a_window_only_a_declared_run_that_ends_by_its_start_goes_first() -> None:
    slots = [card(1, booked(60, 120))]
    assert grants(slots, [wants(7, BOB, {1})]) == {}
    assert grants(slots, [wants(7, BOB, {1}, run=61)]) == {}
    assert grants(slots, [wants(7, BOB, {1}, run=60)]) == {7: (1,)}
    assert grants(slots, [wants(7, BOB, {1}), wants(8, EVE, {1}, run=30)]) == {8: (1,)}


def test_an_offer_counts_the_time_until_it_may_be_taken_up() -> None:
    late = wants(7, BOB, {1}, run=58, lead=3)
    assert grants([card(1, booked(60, 120))], [late]) == {}
    assert grants([card(1, booked(61, 120))], [late]) == {7: (1,)}
    assert grants([card(1, booked(60, 120))], [late, wants(8, EVE, {1}, run=56, lead=3)]) == {8: (1,)}


def test_the_owner_is_not_hindered_by_its_own_window() -> None:
    slots = [card(1, booked(60, 120))]
    assert grants(slots, [wants(7, ADA, {1})]) == {7: (1,)}
    assert grants(slots, [wants(7, BOB, {1}), wants(8, ADA, {1}, run=90)]) == {8: (1,)}


def test_whoever_waits_for_the_end_of_a_window_comes_before_the_owner_until_it_begins() -> None:
    tickets = [wants(7, BOB, {1}), wants(8, ADA, {1})]
    slots = [card(1, booked(60, 120))]
    assert grants(slots, tickets) == {}
    assert grants(slots, tickets, NOW + minutes(60)) == {8: (1,)}
    assert grants(slots, tickets, NOW + minutes(120)) == {7: (1,)}


def test_a_head_that_may_not_use_a_reserved_card_does_not_hold_it() -> None:
    slots = [card(1, booked(-10, 60)), card(2, free=30)]
    assert grants(slots, [wants(7, BOB, {1, 2}, count=2), wants(8, ADA, {1})]) == {8: (1,)}


def test_the_owner_takes_the_reserved_card_of_those_that_fit() -> None:
    assert grants([card(1), card(2, booked(-10, 60))], [wants(7, ADA, {1, 2}), wants(8, BOB, {1, 2})]) == {
        7: (2,),
        8: (1,),
    }


def test_the_owner_takes_the_host_with_its_reserved_card_even_where_more_cards_are_spare() -> None:
    slots = [card(1, host=1), card(2, host=2), card(3, booked(-10, 60), host=2)]
    assert grants(slots, [wants(7, ADA, {1, 2, 3})]) == {7: (3,)}
    assert grants(slots, [wants(7, BOB, {1, 2, 3})]) == {7: (1,)}


def test_the_owner_s_tickets_stand_before_all_others_in_the_window() -> None:
    assert [is_put_back(each, [booked(-5, 5)], NOW) for each in (BOB, ADA)] == [True, False]
    assert not any(is_put_back(each, [booked(5, 50)], NOW) for each in (BOB, ADA))


def test_a_start_that_would_run_into_a_window_is_pushed_behind_it() -> None:
    starts = forecast(
        [card(1, booked(60, 120), free=10)], [wants(7, BOB, {1}, run=51), wants(8, BOB, {1}, run=20)], NOW
    )
    assert starts[TaskId(7)] == Span(EtaWord.DECLARED, NOW + minutes(120), NOW + minutes(120))
    assert starts[TaskId(8)] == Span(EtaWord.DECLARED, NOW + minutes(10), NOW + minutes(10))


def test_an_unbounded_run_starts_behind_a_window_and_nothing_is_known_behind_it() -> None:
    starts = forecast([card(1, booked(60, 120))], [wants(7, BOB, {1}), wants(8, EVE, {1}), wants(9, EVE, {1}, 5)], NOW)
    assert starts == {
        7: Span(EtaWord.DECLARED, NOW + minutes(120), NOW + minutes(120)),
        8: UNKNOWN,
        9: at(NOW),
    }


def test_the_owner_counts_from_the_start_of_the_window_it_waits_for() -> None:
    starts = forecast([card(1, booked(60, 120))], [wants(7, BOB, {1}), wants(8, ADA, {1})], NOW)
    assert starts[TaskId(8)] == Span(EtaWord.DECLARED, NOW + minutes(60), NOW + minutes(60))
    assert forecast([card(1, booked(60, 120))], [wants(8, ADA, {1})], NOW) == {8: at(NOW)}


def test_who_runs_into_a_window_lets_the_owner_wait_first_in_line() -> None:
    slots = [card(1, booked(-10, 60), free=20)]
    starts = forecast(slots, [wants(7, BOB, {1}, run=5), wants(8, ADA, {1})], NOW)
    assert starts[TaskId(8)] == Span(EtaWord.DECLARED, NOW + minutes(20), NOW + minutes(20))
    assert starts[TaskId(7)] == Span(EtaWord.DECLARED, NOW + minutes(60), NOW + minutes(60))


@st.composite
def bookings(draw: st.DrawFn) -> tuple[Booking, ...]:
    """Windows of one card that do not overlap, the first of which may have begun."""
    edges = sorted(draw(st.sets(st.integers(-60, 600), max_size=6)))
    pairs = zip(edges[::2], edges[1::2], strict=False)
    return tuple(
        booked(start, end, draw(st.sampled_from([ADA, BOB, EVE])), number)
        for number, (start, end) in enumerate(pairs, 1)
        if end > 0
    )


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[Slot], list[Waiting]]:
    slots = [
        card(number, *draw(bookings()), host=1 + number % 2, free=draw(st.sampled_from([0, 0, 0, 30, None])))
        for number in range(1, draw(st.integers(1, 5)) + 1)
    ]
    tickets = [
        wants(
            task,
            draw(st.sampled_from([ADA, BOB, EVE])),
            draw(st.sets(st.integers(1, len(slots)), min_size=1)),
            draw(st.none() | st.integers(1, 400)),
            draw(st.integers(1, 2)),
            draw(st.sampled_from([0, 3])),
        )
        for task in range(1, draw(st.integers(1, 6)) + 1)
    ]
    return slots, tickets


Scene = tuple[list[Slot], list[Waiting]]


@given(scenes())
def test_nobody_but_the_owner_is_granted_a_card_inside_a_window_or_runs_into_one(scene: Scene) -> None:
    slots, tickets = scene
    by_card, by_task = {slot.card: slot for slot in slots}, {ticket.task: ticket for ticket in tickets}
    for grant in decide(slots, tickets, NOW):
        ticket = by_task[grant.task]
        for booking in (each for number in grant.cards for each in by_card[number].bookings):
            if booking.agent != ticket.agent:
                assert not booking.is_current(NOW)
                assert ticket.run is not None
                assert NOW + ticket.lead + ticket.run <= booking.starts_at


@given(scenes())
def test_a_run_that_fits_before_every_window_passes_those_ahead_that_do_not(scene: Scene) -> None:
    slots, tickets = scene
    one = card(1, *slots[0].bookings)
    ahead = [wants(task, EVE, {1}, *_run(ticket)) for task, ticket in enumerate(tickets, 1)]
    barred = [each for each in ahead if barrier(one.bookings, EVE, NOW, each.taken) is not None]
    short = wants(99, BOB, {1}, run=1)
    if barrier(one.bookings, BOB, NOW, short.run) is None:
        assert grants([one], [*barred, short])[99] == (1,)


def _run(ticket: Waiting) -> tuple[float | None, int, float]:
    run = None if ticket.run is None else ticket.run.total_seconds() / 60
    return run, 1, ticket.lead.total_seconds() / 60


@given(scenes())
def test_in_a_window_the_owner_s_first_single_ticket_is_served(scene: Scene) -> None:
    slots, tickets = scene
    mine = wants(99, ADA, {1})
    owned = [card(1, booked(-5, 500, ADA)), *slots[1:]]
    others = [ticket for ticket in tickets if ticket.agent != ADA]
    assert grants(owned, [*others, mine])[99] == (1,)


@given(scenes())
def test_without_reservations_it_does_not_matter_who_asks(scene: Scene) -> None:
    plain = [Slot(slot.card, slot.host, slot.is_grantable, slot.free) for slot in scene[0]]
    nameless = [Waiting(each.task, each.count, each.candidates, each.run) for each in scene[1]]
    assert decide(plain, scene[1], NOW) == decide(plain, nameless, NOW)
    assert forecast(plain, scene[1], NOW) == forecast(plain, nameless, NOW)


@given(scenes())
def test_a_forecast_never_starts_anybody_in_somebody_else_s_window(scene: Scene) -> None:
    slots, tickets = scene
    starts = forecast(slots, tickets, NOW)
    assert starts.keys() == {ticket.task for ticket in tickets}
    for ticket in tickets:
        start = starts[ticket.task]
        if len(ticket.candidates) > 1 or start.latest is None or start.soonest is None:
            continue
        assert NOW <= start.soonest <= start.latest
        slot = next(slot for slot in slots if slot.card in ticket.candidates)
        assert barrier(slot.bookings, ticket.agent, start.latest, ticket.run) is None


@given(scenes())
def test_two_tickets_for_two_cards_each_never_block_one_another(scene: Scene) -> None:
    """Once every window is over, the first of them has both cards, and then the other."""
    slots = [card(number, *slot.bookings) for number, slot in enumerate(scene[0][:2], 1)]
    slots = [*slots, card(2)] if len(slots) < 2 else slots
    pair = [wants(7, BOB, {1, 2}, count=2), wants(8, EVE, {1, 2}, count=2)]
    for moment in range(0, 700, 7):
        granted = grants(slots, pair, NOW + minutes(moment))
        assert set(granted) <= {7, 8}
        assert len(granted) <= 1
    assert grants(slots, pair, NOW + minutes(700)) == {7: (1, 2)}
    assert grants(slots, pair[1:], NOW + minutes(700)) == {8: (1, 2)}


def wish(start: float | None = 60, length: float = 120, **facts: object) -> ReservationWish:
    starts_at = None if start is None else NOW + minutes(start)
    return ReservationWish(**({"card": "0", "minutes": length, "starts_at": starts_at} | facts))  # type: ignore[arg-type]


def test_a_window_begins_when_it_was_asked_for_or_now() -> None:
    assert read_window(wish(title=" sweep\n"), RULES, NOW) == Window(NOW + minutes(60), NOW + minutes(180), "sweep")
    assert read_window(wish(None), RULES, NOW) == Window(NOW, NOW + minutes(120), None)
    assert read_window(wish(-0.5), RULES, NOW).starts_at == NOW


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (wish(-2), Impossible, r"2026-03-01 11:58 UTC is past\. It is 12:00 UTC"),
        (wish(8 * 24 * 60), Impossible, "2026-03-09 12:00 UTC is more than 7 d away"),
        (wish(length=24 * 60 + 1), Impossible, "at most 24 h"),
        (wish(length=float("inf")), Impossible, "too long"),
        (wish(length=0.5), MalformedInput, "too short"),
        (wish(length=float("nan")), MalformedInput, "too short"),
        (wish(starts_at=datetime(2026, 3, 1, 18, 0)), MalformedInput, "no time zone"),
        (wish(title="x" * 201), MalformedInput, "201 characters"),
    ],
)
def test_a_window_that_cannot_be_is_refused(given: ReservationWish, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        read_window(given, RULES, NOW)


def test_a_window_that_overlaps_names_the_other_one_and_the_next_gap() -> None:
    taken = [booked(60, 120), booked(150, 240, BOB, 4)]
    with pytest.raises(Taken) as refused:
        refuse_overlap("local/0", taken, Window(NOW + minutes(30), NOW + minutes(75), None), NOW)
    assert refused.value.cause == "local/0 is reserved for ada from 13:00 to 14:00 UTC (R-3)."
    assert refused.value.next_step == "The next gap for 45 min there begins at 16:00 UTC."
    refuse_overlap("local/0", taken, Window(NOW + minutes(120), NOW + minutes(150), None), NOW)


def test_a_window_is_said_with_its_zone_and_with_its_day_unless_that_is_today() -> None:
    assert spoken_window(booked(60, 120), NOW) == "from 13:00 to 14:00 UTC"
    assert spoken_window(booked(-60, 120), NOW) == "until 14:00 UTC"
    assert spoken_window(booked(24 * 60, 25 * 60), NOW) == "from Mon 2 Mar 12:00 to 13:00 UTC"
    assert spoken_window(booked(11 * 60, 13 * 60), NOW) == "from 23:00 to Mon 2 Mar 01:00 UTC"


def test_a_ticket_is_told_which_window_keeps_it_waiting_and_what_to_do() -> None:
    assert say_barrier("local/0", booked(60, 120), None, NOW) == (
        "local/0 is reserved for ada from 13:00 to 14:00 UTC (R-3); say how long you need with --minutes to go before it"
    )
    assert say_barrier("local/0", booked(60, 120), minutes(90), NOW).endswith("(R-3), and 1 h 30 min would run into it")
    assert say_barrier("local/0", booked(-5, 120), None, NOW) == "local/0 is reserved for ada until 14:00 UTC (R-3)"


def test_a_reservation_is_called_by_its_letter() -> None:
    assert parse_reservation(" r-3 ") == 3
    with pytest.raises(MalformedInput, match="is not a reservation"):
        parse_reservation("T-3")
