from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.etas import UNKNOWN, EtaWord, Span, after, at
from warploom.domain.identifiers import CardId, HostId, TaskId
from warploom.domain.queues import Slot, Waiting, decide, forecast

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOST = HostId(1)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def clear(card: int, host: int = 1, weight: float = 1.0) -> Slot:
    return Slot(CardId(card), HostId(host), is_grantable=True, weight=weight)


def held(card: int, until: float | None, host: int = 1) -> Slot:
    free = UNKNOWN if until is None else Span(EtaWord.DECLARED, NOW + minutes(until), NOW + minutes(until))
    return Slot(CardId(card), HostId(host), is_grantable=False, free=free)


def wants(task: int, cards: set[int], count: int = 1, run: float | None = None) -> Waiting:
    return Waiting(TaskId(task), count, frozenset(map(CardId, cards)), None if run is None else minutes(run))


def grants(slots: list[Slot], tickets: list[Waiting]) -> dict[int, tuple[int, ...]]:
    return {grant.task: grant.cards for grant in decide(slots, tickets, NOW)}


def test_the_first_ticket_gets_the_card_and_the_second_waits() -> None:
    assert grants([clear(1)], [wants(7, {1}), wants(8, {1})]) == {7: (1,)}


def test_an_occupied_card_is_granted_to_nobody() -> None:
    assert grants([held(1, 10)], [wants(7, {1})]) == {}


def test_two_tickets_that_take_any_card_get_one_each() -> None:
    assert grants([clear(1), clear(2)], [wants(7, {1, 2}), wants(8, {1, 2})]) == {7: (1,), 8: (2,)}


def test_two_cards_are_granted_together_or_not_at_all() -> None:
    assert grants([clear(1), held(2, 10)], [wants(7, {1, 2}, 2)]) == {}
    assert grants([clear(1), clear(2)], [wants(7, {1, 2}, 2)]) == {7: (1, 2)}


def test_two_cards_of_different_hosts_are_not_granted_together() -> None:
    assert grants([clear(1, 1), clear(2, 2)], [wants(7, {1, 2}, 2)]) == {}


def test_the_host_with_the_fewest_spare_cards_is_used_first() -> None:
    slots = [clear(1, 1), clear(2, 1), clear(3, 2)]
    assert grants(slots, [wants(7, {1, 2, 3})]) == {7: (3,)}


def test_the_heaviest_free_card_is_taken_first() -> None:
    slots = [clear(1), clear(2, weight=2.0), clear(3, weight=0.5)]
    assert grants(slots, [wants(7, {1, 2, 3}), wants(8, {1, 2, 3}), wants(9, {1, 2, 3})]) == {7: (2,), 8: (1,), 9: (3,)}
    assert grants(slots, [wants(7, {1, 2, 3}, 2)]) == {7: (1, 2)}
    assert grants(slots, [wants(7, {1, 3})]) == {7: (1,)}


def test_of_hosts_with_as_few_spare_cards_the_one_with_heavier_cards_is_used() -> None:
    slots = [clear(1, 1), clear(2, 2, weight=4.0)]
    assert grants(slots, [wants(7, {1, 2})]) == {7: (2,)}
    assert grants([*slots, clear(3, 2, weight=9.0)], [wants(7, {1, 2, 3})]) == {7: (1,)}


def test_the_head_holds_the_clear_card_it_needs_together_with_another() -> None:
    slots = [clear(1), held(2, 30)]
    assert grants(slots, [wants(7, {1, 2}, 2), wants(8, {1})]) == {}


def test_a_run_that_ends_before_the_head_could_start_may_use_a_held_card() -> None:
    slots = [clear(1), held(2, 30)]
    assert grants(slots, [wants(7, {1, 2}, 2), wants(8, {1}, run=30)]) == {8: (1,)}
    assert grants(slots, [wants(7, {1, 2}, 2), wants(8, {1}, run=31)]) == {}


def test_nothing_may_use_a_held_card_when_nobody_knows_when_the_head_could_start() -> None:
    slots = [clear(1), held(2, None)]
    assert grants(slots, [wants(7, {1, 2}, 2), wants(8, {1}, run=1)]) == {}


def test_a_short_run_passes_a_long_one_that_must_wait_for_the_head_anyway() -> None:
    slots = [clear(1), held(2, 30)]
    tickets = [wants(7, {1, 2}, 2), wants(8, {1}), wants(9, {1}, run=5)]
    assert grants(slots, tickets) == {9: (1,)}


def test_a_card_the_head_does_not_need_is_not_held() -> None:
    slots = [clear(1), held(2, 30), clear(3)]
    assert grants(slots, [wants(7, {1, 2}, 2), wants(8, {1, 3})]) == {8: (3,)}


def test_nothing_may_use_a_held_card_when_another_card_could_be_free_at_any_moment() -> None:
    slots = [clear(1), held(2, None), held(3, 30)]
    assert grants(slots, [wants(7, {1, 2, 3}, 2), wants(8, {1}, run=5)]) == {}


def test_a_ticket_for_which_too_few_cards_are_in_service_holds_none() -> None:
    assert grants([clear(1)], [wants(7, {1, 2}, 2), wants(8, {1})]) == {8: (1,)}


def test_two_tickets_for_two_cards_each_never_block_one_another() -> None:
    tickets = [wants(7, {1, 2}, 2), wants(8, {1, 2}, 2)]
    assert grants([clear(1), clear(2)], tickets) == {7: (1, 2)}
    assert grants([clear(1), clear(2)], tickets[1:]) == {8: (1, 2)}


def test_a_ticket_starts_now_on_a_clear_card() -> None:
    assert forecast([clear(1)], [wants(7, {1})], NOW) == {7: at(NOW)}


def test_a_ticket_starts_when_the_holder_ends_and_says_how_that_is_known() -> None:
    measured = Slot(CardId(1), HOST, False, Span(EtaWord.MEASURED, NOW + minutes(44), NOW + minutes(52)))
    starts = forecast([measured], [wants(7, {1}, run=20), wants(8, {1}), wants(9, {1})], NOW)
    assert starts[TaskId(7)] == Span(EtaWord.MEASURED, NOW + minutes(44), NOW + minutes(52))
    assert starts[TaskId(8)] == Span(EtaWord.DECLARED, NOW + minutes(64), NOW + minutes(72))
    assert starts[TaskId(9)] == UNKNOWN


def test_a_ticket_for_two_cards_starts_when_the_later_one_is_free() -> None:
    starts = forecast([held(1, 10), held(2, 30), held(3, 60)], [wants(7, {1, 2, 3}, 2)], NOW)
    assert starts[TaskId(7)] == Span(EtaWord.DECLARED, NOW + minutes(30), NOW + minutes(30))


def test_a_ticket_that_takes_any_card_starts_on_the_one_that_is_free_first_whatever_its_host() -> None:
    starts = forecast([held(1, None, 1), held(2, 30, 2), held(3, 10, 3)], [wants(7, {1, 2, 3})], NOW)
    assert starts[TaskId(7)] == Span(EtaWord.DECLARED, NOW + minutes(10), NOW + minutes(10))


ends = st.none() | st.integers(1, 240)
card_states = st.one_of(st.just("clear"), ends)


@st.composite
def racks(draw: st.DrawFn) -> list[Slot]:
    hosts = draw(st.lists(st.lists(card_states, min_size=1, max_size=3), min_size=1, max_size=3))
    slots: list[Slot] = []
    for host, states in enumerate(hosts, 1):
        for state in states:
            card = len(slots) + 1
            slots.append(clear(card, host) if state == "clear" else held(card, state, host))  # type: ignore[arg-type]
    return slots


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[Slot], list[Waiting]]:
    slots = draw(racks())
    hosts = {slot.host for slot in slots}
    tickets: list[Waiting] = []
    for task in range(1, draw(st.integers(1, 8)) + 1):
        chosen = draw(st.sampled_from([None, *sorted(hosts)]))
        possible = [slot.card for slot in slots if chosen is None or slot.host == chosen]
        candidates = draw(st.sets(st.sampled_from(possible), min_size=1))
        tickets.append(wants(task, set(candidates), draw(st.integers(1, 3)), draw(st.none() | st.integers(1, 240))))
    return slots, tickets


Scene = tuple[list[Slot], list[Waiting]]


@given(scenes())
def test_a_grant_is_whole_of_one_host_clear_and_wanted(scene: Scene) -> None:
    slots, tickets = scene
    by_card = {slot.card: slot for slot in slots}
    wanted = {ticket.task: ticket for ticket in tickets}
    decided = decide(slots, tickets, NOW)
    cards = [card for grant in decided for card in grant.cards]
    assert len(cards) == len(set(cards))
    assert len(decided) == len({grant.task for grant in decided})
    for grant in decided:
        assert len(grant.cards) == wanted[grant.task].count
        assert set(grant.cards) <= wanted[grant.task].candidates
        assert all(by_card[card].is_grantable for card in grant.cards)
        assert len({by_card[card].host for card in grant.cards}) == 1
        assert list(grant.cards) == sorted(grant.cards)


@given(scenes())
def test_a_card_is_left_clear_only_when_its_first_ticket_cannot_have_it(scene: Scene) -> None:
    slots, tickets = scene
    granted = {grant.task for grant in decide(slots, tickets, NOW)}
    head = tickets[0]
    rooms = [sum(s.is_grantable and s.host == h and s.card in head.candidates for s in slots) for h in _hosts(slots)]
    assert (head.task in granted) == (max(rooms) >= head.count)


@given(scenes())
def test_among_equal_needs_the_first_to_come_is_the_first_to_be_served(scene: Scene) -> None:
    slots, tickets = scene
    granted = {grant.task for grant in decide(slots, tickets, NOW)}
    for place, later in enumerate(tickets):
        if later.task in granted:
            equals = [t for t in tickets[:place] if _need(t) == _need(later)]
            assert all(earlier.task in granted for earlier in equals)


@given(scenes())
def test_no_later_grant_delays_the_first_ticket_that_must_wait(scene: Scene) -> None:
    slots, tickets = scene
    decided = decide(slots, tickets, NOW)
    granted = {grant.task for grant in decided}
    places = {ticket.task: place for place, ticket in enumerate(tickets)}
    head = next((ticket for ticket in tickets if ticket.task not in granted), None)
    if head is None:
        return
    start = _could_start(slots, head)
    wanted = [{s.card for s in slots if s.host == host and s.card in head.candidates} for host in _hosts(slots)]
    useful = {card for room in wanted if len(room) >= head.count for card in room}
    for grant in decided:
        if places[grant.task] > places[head.task] and useful & set(grant.cards):
            run = tickets[places[grant.task]].run
            assert start is None or (run is not None and NOW + run <= start)


@given(scenes())
def test_a_forecast_knows_every_ticket_and_none_starts_in_the_past(scene: Scene) -> None:
    slots, tickets = scene
    starts = forecast(slots, tickets, NOW)
    assert starts.keys() == {ticket.task for ticket in tickets}
    for start in starts.values():
        assert (start.word is EtaWord.UNKNOWN) == (start.latest is None)
        if start.soonest is not None and start.latest is not None:
            assert NOW <= start.soonest <= start.latest


@given(scenes())
def test_on_one_card_each_ticket_starts_when_the_one_before_it_ends(scene: Scene) -> None:
    slots, tickets = scene
    queue = [wants(ticket.task, {1}, 1, None if ticket.run is None else ticket.run.seconds / 60) for ticket in tickets]
    starts = forecast(slots, queue, NOW)
    for one, other in pairwise(queue):
        assert starts[other.task] == after(starts[one.task], one.length)


def _hosts(slots: list[Slot]) -> set[HostId]:
    return {slot.host for slot in slots}


def _need(ticket: Waiting) -> tuple[int, frozenset[CardId], timedelta | None]:
    return ticket.count, ticket.candidates, ticket.run


def _could_start(slots: list[Slot], head: Waiting) -> datetime | None:
    """The first moment at which enough cards of one host could be free, with what is unknown free at any moment."""
    starts: list[datetime] = []
    for host in _hosts(slots):
        own = [slot for slot in slots if slot.host == host and slot.card in head.candidates]
        frees = sorted((slot.free.soonest if slot.free else None) or NOW for slot in own)
        if len(frees) >= head.count:
            starts.append(frees[head.count - 1])
    return min(starts, default=None)
