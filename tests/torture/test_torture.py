"""Hand-overs while everything around them is killed or cut, and the judge that says whether each was delivered once and in time."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from torture.book import Book, Reach, Trouble, Waiter
from torture.ledger import Ledger, Line, Ticket
from torture.run import draw_troubles, run_torture
from torture.troubles import EVERY
from torture.verdict import PROMPT, SILENT_LAG, Judge, Verdict, due_at
from torture.world import Plan

OFFER_SECONDS = 30.0
CARD = "GPU-a"
ANN, BEN = Waiter("ann", "gpu_wait", 0), Waiter("ben", "long poll", 1)
TICKETS = {
    number: Ticket(agent, datetime.fromtimestamp(number, UTC)) for number, agent in ((1, "ann"), (2, "ben"), (3, "cid"))
}
STORY = [
    Line(0.0, "ticket.queued", 1, 0, CARD),
    Line(0.0, "lease.granted", 1, 11, CARD),
    Line(1.0, "ticket.queued", 2, 0, CARD),
    Line(2.0, "ticket.queued", 3, 0, CARD),
    Line(10.0, "lease.released", 1, 11, CARD),
    Line(11.0, "lease.offered", 2, 12, CARD),
]


def judged(
    lines: list[Line],
    *deliveries: tuple[int, int, Waiter, float],
    tickets: dict[int, Ticket] = TICKETS,
    since: float = -60.0,
) -> Verdict:
    book = Book()
    for lease, ticket, waiter, at in deliveries:
        book.deliver(lease, ticket, waiter, since)
        book.deliveries[-1] = replace(book.deliveries[-1], at=at)
    return Judge(book, Ledger(lines, tickets), OFFER_SECONDS).judge()


def test_an_offer_that_reaches_its_waiter_once_and_soon_is_a_good_hand_over() -> None:
    verdict = judged(STORY, (12, 2, BEN, 11.5))
    assert verdict.is_good
    assert verdict.last_line == "handovers 1, delivered exactly once 1, late 0, idle cards 0"
    assert [each.seconds for each in verdict.handovers] == [1.5]


@pytest.mark.parametrize(
    ("deliveries", "said"),
    [
        ([], "L-12 of T-2 was delivered 0 times"),
        ([(12, 2, BEN, 11.5), (12, 2, BEN, 12.0)], "L-12 of T-2 was delivered 2 times"),
        ([(12, 2, ANN, 11.5)], "L-12 of T-2 (ben) went to T-2 (ann)"),
        ([(12, 2, BEN, 11.5), (13, 2, BEN, 12.0)], "L-13 was delivered and never offered"),
    ],
    ids=["never", "twice", "to another", "without an offer"],
)
def test_an_offer_that_does_not_reach_its_own_waiter_exactly_once_is_wrong(
    deliveries: list[tuple[int, int, Waiter, float]], said: str
) -> None:
    verdict = judged(STORY, *deliveries)
    assert verdict.wrong == [said]
    assert not verdict.is_good


def test_an_offer_that_reaches_its_waiter_after_the_bound_is_late() -> None:
    verdict = judged(STORY, (12, 2, BEN, 11.0 + PROMPT + 1.0))
    assert [line.split(",")[1] for line in verdict.late] == [" which is 1.0 s late; none"]


@pytest.mark.parametrize(("way", "is_late"), [("long poll", True), ("warploom wait", False)])
def test_a_waiter_that_is_a_process_has_the_time_to_start(way: str, is_late: bool) -> None:
    waiter = replace(BEN, way=way)
    verdict = judged(STORY, (12, 2, waiter, 11.0 + PROMPT + 1.0), since=10.5)
    assert bool(verdict.late) is is_late


@pytest.mark.parametrize(
    ("trouble", "seconds"),
    [
        (Trouble("redis paused", 10.0, 90.0, Reach()), PROMPT),
        (Trouble("replica killed", 12.0, 15.0, Reach(5.0, frozenset([1]))), 4.0 + 5.0 + PROMPT),
        (Trouble("replica killed", 12.0, 15.0, Reach(5.0, frozenset([0]))), PROMPT),
        (Trouble("database black-holed", 5.0, 10.0, Reach(SILENT_LAG, frozenset([1]))), SILENT_LAG - 1.0 + PROMPT),
        (Trouble("waiter killed", 12.0, 13.0, Reach(6.0, agents=frozenset(["ben"]))), 2.0 + 6.0 + PROMPT),
        (Trouble("waiter killed", 11.0 + PROMPT + 0.1, 30.0, Reach(6.0, agents=frozenset(["ben"]))), PROMPT),
    ],
    ids=["Redis", "its server", "the other server", "a hole before", "itself", "too late to count"],
)
def test_only_what_takes_away_the_waiter_or_its_server_moves_the_bound(trouble: Trouble, seconds: float) -> None:
    assert due_at(11.0, BEN, [trouble]) == pytest.approx(11.0 + seconds)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([*STORY[:4], Line(5.0, "lease.offered", 2, 12, CARD)], "L-12 was granted on GPU-a while L-11 was live"),
        ([*STORY[:5], Line(11.0, "lease.offered", 3, 12, CARD)], "T-3 was granted GPU-a before T-2, which is older"),
        ([*STORY, Line(12.0, "lease.released", 1, 11, CARD)], "L-11 ended on GPU-a, where it was not live"),
    ],
    ids=["two at once", "overtaken", "ended twice"],
)
def test_what_no_card_may_ever_see_is_wrong(lines: list[Line], said: str) -> None:
    assert said in judged(lines, (12, lines[-1].ticket, BEN, 11.5)).wrong


def test_who_lets_an_offer_lapse_is_passed_over_once_and_keeps_its_age() -> None:
    lapse = [*STORY, Line(41.0, "lease.lapsed", 2, 12, CARD), Line(41.0, "lease.offered", 3, 13, CARD)]
    delivered = [(12, 2, BEN, 11.5), (13, 3, Waiter("cid", "long poll", 0), 41.5)]
    assert judged(lapse, *delivered).is_good
    aged = TICKETS | {2: replace(TICKETS[2], has_its_age=False)}
    assert judged(lapse, *delivered, tickets=aged).wrong == ["T-2 has not kept its age"]


def test_a_card_that_is_wanted_and_free_for_longer_than_an_offer_lasts_is_idle() -> None:
    late = replace(STORY[-1], at=10.0 + OFFER_SECONDS + 1.0)
    verdict = judged([*STORY[:-1], late], (12, 2, BEN, late.at))
    assert verdict.idle == [f"GPU-a lay idle for {OFFER_SECONDS + 1.0:.1f} s before L-12"]


def test_the_same_seed_draws_the_same_troubles_and_each_kind_once_in_a_round() -> None:
    first, again = ([*zip(range(2 * len(EVERY)), draw_troubles(7), strict=False)] for _ in range(2))
    assert first == again
    assert {kind for _, (kind, _, _) in first[: len(EVERY)]} == set(EVERY)


@pytest.mark.timeout(240)
def test_hand_overs_are_delivered_exactly_once_while_everything_around_them_is_killed_or_cut() -> None:
    lines: list[str] = []
    plan = Plan(seed=3, handovers=12, seconds=120, longest_trouble=1.0, longest_quiet=0.5, misbehaving=0.0)
    verdict = run_torture(plan, lines.append)
    assert verdict.is_good, "\n".join(lines)
    assert verdict.offers >= plan.handovers
