from datetime import timedelta

import pytest

from support.databases import Clock
from support.lab import Lab, LabHost, lease_of, ticket_of
from support.rows import Sql, whole_database
from warploom.domain.cards import CardState
from warploom.domain.errors import LeaseLost, NotYours
from warploom.domain.identifiers import LeaseId
from warploom.domain.leases import LeaseState
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer

PAST_THE_OFFER = {"seconds": 181}


async def an_offer(lab: Lab, name: str = "claude-2") -> tuple[LabHost, Actor, TicketAnswer]:
    """One agent held the card and released it; another, who was away, is offered it."""
    host = await lab.host(interval=600)
    holder = await lab.agent("claude-1")
    lease = await lab.hold(holder)
    mine = await lab.agent(name)
    waiting = await lab.request(mine, "eval", minutes=20)
    await lab.app.leases.release(holder, lease)
    await host.survey()
    return host, mine, await lab.explain(mine, waiting)


async def test_a_grant_to_somebody_who_was_away_is_an_offer_with_a_deadline(lab: Lab, sql: Sql) -> None:
    _, _, offer = await an_offer(lab)
    assert (offer.state, offer.lease, offer.cards) == (Standing.OFFERED, "L-2", ["local/0"])
    assert offer.export is not None
    assert offer.export["WARPLOOM_LEASE"] == "L-2"
    assert offer.expires_at is not None
    left = offer.expires_at - await sql.fetchval("select clock_now()")
    assert timedelta(seconds=170) < left <= timedelta(seconds=180)
    lane = (await lab.app.cards.survey()).hosts[0].cards[0]
    assert lane.state is CardState.OFFERED
    assert lane.say.startswith("local/0 is offered to claude-2 for 'eval' (L-2) until ")


@pytest.mark.parametrize("call", ["accept", "extend", "report"])
async def test_the_first_call_that_names_it_accepts_it(lab: Lab, sql: Sql, call: str) -> None:
    _, mine, offer = await an_offer(lab)
    lease = lease_of(offer)
    leases = lab.app.leases
    answer = await {
        "accept": lambda: leases.accept(mine, lease),
        "extend": lambda: leases.extend(mine, lease, 5, "slow start"),
        "report": lambda: leases.report(lease, 1, 10, mine),
    }[call]()
    assert answer.state is LeaseState.ACTIVE
    assert (await lab.explain(mine, offer)).state is Standing.ACTIVE
    row = await sql.fetchrow(
        "select expires_at - accepted_at as life, expected_end - accepted_at as run from lease where id = 2"
    )
    assert row["life"] == timedelta(minutes=10)
    assert row["run"] == timedelta(minutes=25 if call == "extend" else 20)


async def test_accepting_twice_is_success(lab: Lab, sql: Sql) -> None:
    _, mine, offer = await an_offer(lab)
    for _ in range(2):
        assert (await lab.app.leases.accept(mine, lease_of(offer))).state is LeaseState.ACTIVE
    assert await sql.fetchval("select count(*) from event where kind = 'lease.accepted'") == 1


async def test_a_process_on_the_card_accepts_it(lab: Lab, sql: Sql) -> None:
    host, mine, offer = await an_offer(lab)
    host.run(0, lease="L-2")
    await host.survey()
    assert (await lab.explain(mine, offer)).state is Standing.ACTIVE
    assert await sql.fetchval("select count(*) from event where kind = 'lease.accepted'") == 1


async def test_a_process_that_was_there_in_time_accepts_it_even_when_it_is_seen_late(lab: Lab, clock: Clock) -> None:
    host, mine, offer = await an_offer(lab)
    host.run(0, lease="L-2")
    clock.advance(**PAST_THE_OFFER)
    await host.survey()
    await lab.duties()
    assert (await lab.explain(mine, offer)).state is Standing.ACTIVE


async def test_a_report_of_the_job_itself_accepts_it(lab: Lab) -> None:
    _, mine, offer = await an_offer(lab)
    await lab.app.leases.report(lease_of(offer), 1, 10)
    assert (await lab.explain(mine, offer)).state is Standing.ACTIVE


async def test_looking_at_it_and_waiting_for_it_do_not_accept_it(lab: Lab) -> None:
    _, mine, offer = await an_offer(lab)
    assert (await lab.app.tickets.wait(mine, ticket_of(offer), 1)).state is Standing.OFFERED
    await lab.app.tickets.me(mine, [])
    assert [each.lease for each in (await lab.app.deliveries.news(mine)).grants] == ["L-2"]
    assert (await lab.explain(mine, offer)).state is Standing.OFFERED


async def test_nobody_else_can_accept_it(lab: Lab, sql: Sql) -> None:
    _, _, offer = await an_offer(lab)
    thief = await lab.agent("codex-1")
    before = await whole_database(sql)
    with pytest.raises(NotYours, match="L-2 belongs to claude-2, not to codex-1"):
        await lab.app.leases.accept(thief, lease_of(offer))
    assert await whole_database(sql) == before


async def test_an_offer_that_lapses_puts_the_ticket_back_at_its_original_age(lab: Lab, clock: Clock, sql: Sql) -> None:
    """Casebook C26."""
    _, mine, offer = await an_offer(lab)
    before = await sql.fetchrow("select ready_at, order_key from task where id = 2")
    other = await lab.request(await lab.agent("claude-3"), "repro")
    clock.advance(**PAST_THE_OFFER)
    assert (await lab.duties())["offer lapser"] == 1
    back = await lab.explain(mine, offer)
    assert (back.state, back.place) == (Standing.QUEUED, 1)
    assert await sql.fetchrow("select ready_at, order_key from task where id = 2") == before
    assert (await lab.explain(mine, other)).state is Standing.OFFERED


async def test_a_lapsed_offer_passes_the_card_to_the_next_in_the_queue(lab: Lab, clock: Clock) -> None:
    _, mine, _ = await an_offer(lab)
    second = await lab.request(await lab.agent("claude-3"), "repro")
    third = await lab.request(await lab.agent("claude-4"), "third")
    clock.advance(**PAST_THE_OFFER)
    await lab.duties()
    assert (await lab.explain(mine, second)).state is Standing.OFFERED
    assert (await lab.explain(mine, third)).state is Standing.QUEUED


async def test_a_missed_offer_is_told_once_at_the_next_contact(lab: Lab, clock: Clock) -> None:
    await an_offer(lab)
    clock.advance(**PAST_THE_OFFER)
    await lab.duties()
    mine = await lab.agent("claude-2")
    assert mine.has_unread
    notices = await lab.app.sessions.take_notices(mine)
    assert len(notices) == 1
    assert "from warploom: you missed the offer L-2 on local/0 for T-2 'eval'" in notices[0]
    assert "back in the queue at its original age" in notices[0]
    again = await lab.agent("claude-2")
    assert not again.has_unread
    assert await lab.app.sessions.take_notices(again) == []


@pytest.mark.parametrize("call", ["accept", "extend", "report", "release"])
async def test_an_offer_past_its_deadline_is_lost_to_a_late_call_that_changes_nothing(
    lab: Lab, clock: Clock, sql: Sql, call: str
) -> None:
    _, mine, offer = await an_offer(lab)
    lease = lease_of(offer)
    await lab.request(await lab.agent("claude-3"), "repro")
    clock.advance(**PAST_THE_OFFER)
    await lab.duties()
    before = await whole_database(sql)
    leases = lab.app.leases
    with pytest.raises(LeaseLost) as lost:
        await {
            "accept": lambda: leases.accept(mine, lease),
            "extend": lambda: leases.extend(mine, lease, 5, "late"),
            "report": lambda: leases.report(lease, 1, 10, mine),
            "release": lambda: leases.release(mine, lease),
        }[call]()
    assert "the offer was not accepted in time; local/0 is now held by L-3 (claude-3)" in lost.value.cause
    assert "T-2 is back in the queue at place 1, at its original age" in lost.value.next_step
    assert await whole_database(sql) == before


async def test_a_late_call_before_the_orchestrator_came_round_is_told_that_the_offer_ran_out(
    lab: Lab, clock: Clock, sql: Sql
) -> None:
    _, mine, offer = await an_offer(lab)
    clock.advance(**PAST_THE_OFFER)
    before = await whole_database(sql)
    with pytest.raises(LeaseLost, match="The offer L-2 ran out at") as lost:
        await lab.app.leases.accept(mine, lease_of(offer))
    assert "warploom wait T-2" in lost.value.next_step
    assert await whole_database(sql) == before


async def test_a_waiter_is_not_handed_an_offer_that_has_run_out(lab: Lab, clock: Clock) -> None:
    _, mine, offer = await an_offer(lab)
    clock.advance(**PAST_THE_OFFER)
    answer = await lab.app.tickets.wait(mine, ticket_of(offer), 0)
    assert answer.state is Standing.QUEUED or answer.lease != offer.lease


async def test_three_missed_offers_park_the_ticket_and_say_how_to_go_on(lab: Lab, clock: Clock) -> None:
    """Casebook C46: what nobody takes on is parked, and granted into the void no longer."""
    _, mine, offer = await an_offer(lab)
    for _ in range(3):
        assert (await lab.explain(mine, offer)).state is Standing.OFFERED
        clock.advance(**PAST_THE_OFFER)
        await lab.duties()
    parked = await lab.explain(mine, offer)
    assert parked.state is Standing.PARKED
    assert parked.reason == "parked after 3 missed offers"
    assert "warploom wait T-2" in parked.next
    assert (await lab.app.tickets.me(mine, [])).tickets[0].state is Standing.PARKED
    assert (await lab.app.cards.survey()).hosts[0].cards[0].waiting == 0


async def test_the_number_of_missed_offers_that_park_is_a_setting(open_app, clock: Clock) -> None:  # type: ignore[no-untyped-def]
    lab = Lab(await open_app(missed_offers=1))
    _, mine, offer = await an_offer(lab)
    clock.advance(**PAST_THE_OFFER)
    await lab.duties()
    assert (await lab.explain(mine, offer)).state is Standing.PARKED


async def a_parked_ticket(lab: Lab, clock: Clock) -> tuple[LabHost, Actor, TicketAnswer]:
    host, mine, offer = await an_offer(lab)
    for _ in range(3):
        clock.advance(**PAST_THE_OFFER)
        await lab.duties()
    assert (await lab.explain(mine, offer)).state is Standing.PARKED
    return host, mine, offer


async def test_waiting_again_puts_a_parked_ticket_back_at_its_original_age(lab: Lab, clock: Clock) -> None:
    host, mine, offer = await a_parked_ticket(lab, clock)
    await lab.hold(await lab.agent("claude-5"))
    younger = await lab.request(await lab.agent("claude-3"), "younger")
    answer = await lab.app.tickets.wait(mine, ticket_of(offer), 0)
    assert (answer.state, answer.place) == (Standing.QUEUED, 1)
    assert (await lab.explain(mine, younger)).place == 2
    await lab.app.leases.release(await lab.agent("claude-5"), LeaseId(5))
    await host.survey()
    assert (await lab.explain(mine, offer)).state is Standing.OFFERED


async def test_asking_again_puts_a_parked_ticket_back_and_may_grant_it_at_once(lab: Lab, clock: Clock) -> None:
    _, mine, offer = await a_parked_ticket(lab, clock)
    answer = await lab.request(mine, "eval", minutes=20)
    assert (answer.ticket, answer.deduplicated, answer.state) == (offer.ticket, True, Standing.OFFERED)


async def test_a_ticket_that_was_put_back_has_all_its_offers_again(lab: Lab, clock: Clock) -> None:
    _, mine, offer = await a_parked_ticket(lab, clock)
    await lab.app.tickets.wait(mine, ticket_of(offer), 0)
    for _ in range(2):
        clock.advance(**PAST_THE_OFFER)
        await lab.duties()
    assert (await lab.explain(mine, offer)).state is Standing.OFFERED


async def test_nobody_else_puts_a_parked_ticket_back(lab: Lab, clock: Clock) -> None:
    _, mine, offer = await a_parked_ticket(lab, clock)
    with pytest.raises(NotYours):
        await lab.app.tickets.wait(await lab.agent("codex-1"), ticket_of(offer), 0)
    assert (await lab.explain(mine, offer)).state is Standing.PARKED


async def test_an_offer_may_be_given_back_and_passes_on_at_once(lab: Lab) -> None:
    _, mine, offer = await an_offer(lab)
    next_one = await lab.request(await lab.agent("claude-3"), "repro")
    left = await lab.app.tickets.leave(mine, ticket_of(offer))
    assert left.state is Standing.ENDED
    assert (await lab.explain(mine, next_one)).state is Standing.OFFERED


async def test_an_offer_may_be_released_without_having_been_used(lab: Lab) -> None:
    host, mine, offer = await an_offer(lab)
    next_one = await lab.request(await lab.agent("claude-3"), "repro")
    await lab.app.leases.release(mine, lease_of(offer))
    await host.survey()
    assert (await lab.explain(mine, next_one)).state is Standing.OFFERED


async def test_a_promise_of_an_offer_is_kept_to_its_last_moment(lab: Lab, clock: Clock) -> None:
    """Casebook C36."""
    _, mine, offer = await an_offer(lab)
    clock.advance(seconds=150)
    await lab.duties()
    assert (await lab.app.leases.accept(mine, lease_of(offer))).state is LeaseState.ACTIVE
