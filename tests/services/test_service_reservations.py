"""Casebook C41 (a specific card for a time) and C36 (a reservation never lapses before its stated time)."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import asyncpg
import pytest

from support.databases import Clock
from support.lab import Lab, lease_of
from support.locks import somebody_waits
from support.rows import Sql, add_card, add_host, add_session
from warploom.domain.cards import CardLane, CardState
from warploom.domain.errors import Impossible, NotFound, NotReady, NotYours, Taken
from warploom.domain.etas import EtaWord
from warploom.domain.identifiers import ReservationId, parse_reservation
from warploom.domain.reservations import ReservationAnswer, ReservationWish
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing


async def reserve(
    lab: Lab, actor: Actor, start: float | None = None, minutes: float = 120, card: str = "0", title: str | None = None
) -> ReservationAnswer:
    """Reserve a card from so many minutes ahead of the database's clock on."""
    now: datetime = (await lab.app.cards.survey()).at
    starts_at = None if start is None else now + timedelta(minutes=start)
    return await lab.app.reservations.reserve(actor, ReservationWish(card, minutes, starts_at, title), "local")


def number_of(answer: ReservationAnswer) -> ReservationId:
    return parse_reservation(answer.reservation.reservation)


async def lane(lab: Lab, index: int = 0) -> CardLane:
    return (await lab.app.cards.survey()).hosts[0].cards[index]


async def told(lab: Lab, name: str) -> list[str]:
    return [notice for notice in await lab.app.sessions.take_notices(await lab.agent(name)) if "R-" in notice]


async def kinds(sql: Sql) -> list[str]:
    return [
        row["kind"] for row in await sql.fetch("select kind from event where kind like 'reservation.%' order by id")
    ]


async def test_in_its_window_a_reserved_card_is_its_owner_s_alone(lab: Lab) -> None:
    """Casebook C41."""
    await lab.host(interval=600)
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    answer = await reserve(lab, ada, title="sweep")
    assert (answer.done, answer.reservation.reservation, answer.reservation.card) == (True, "R-1", "local/0")
    refused = await lab.request(bob, minutes=1)
    assert refused.state is Standing.QUEUED
    assert refused.reason is not None
    assert refused.reason.startswith("local/0 is reserved for ada until ")
    assert refused.reason.endswith(" UTC (R-1)")
    assert refused.also_free == ["local/1"]
    await reserve(lab, await lab.agent("eve"), 0.5, card="1")
    assert (await lab.explain(bob, refused)).also_free == []
    shown = await lane(lab)
    assert (shown.state, shown.free.word) == (CardState.RESERVED, EtaWord.DECLARED)
    assert shown.say.startswith("Observed clear, and reserved for ada until ")
    assert shown.say.endswith("(R-1) for 'sweep': until then only ada is granted it.")
    assert [each.reservation for each in shown.reservations] == ["R-1"]
    assert (await lab.request(ada)).state is Standing.ACTIVE
    assert [each.reservation for each in (await lab.app.tickets.me(ada, [])).reservations] == ["R-1"]
    assert (await lab.app.tickets.me(bob, [])).reservations == []


async def test_any_session_of_the_owner_goes_first_on_its_card(lab: Lab) -> None:
    """Casebook C41: also past those who wait longer, and of whom there are many."""
    host = await lab.host(cards=1, interval=3_600)
    holder, ada = await lab.agent("holder"), await lab.agent("ada")
    lease = await lab.hold(holder)
    early = await lab.request(await lab.agent("bob"))
    await reserve(lab, ada)
    ticket = await lab.request(ada)
    assert (ticket.place, (await lab.explain(holder, early)).place) == (1, 2)
    assert [place.agent for place in (await lane(lab)).queue] == ["ada", "bob"]
    assert "ahead of you: T-3 'train'" in (await lab.explain(holder, early)).chain
    await lab.app.leases.release(holder, lease)
    await host.survey()
    assert (await lab.explain(ada, ticket)).state is Standing.OFFERED
    assert (await lab.explain(ada, early)).state is Standing.QUEUED


async def test_the_owner_is_found_behind_two_hundred_others(lab: Lab, sql: Sql) -> None:
    """Casebook C41."""
    host = await lab.host(cards=1, interval=3_600)
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    await lab.hold(bob)
    await sql.execute(
        """
        insert into task (project_id, kind, state, title, purpose, agent_id, session_id, need_count, need_cards, ready_at, order_key)
        select 1, 'gpu', 'ready', 'new ' || n, 'new ' || n, $1, $2, 1, '{1}', clock_now(), clock_now()
        from generate_series(1, 250) as n
        """,
        bob.agent,
        bob.session,
    )
    await sql.execute(
        "insert into queue (card_id, order_key, task_id) select 1, order_key, id from task where state = 'ready'"
    )
    ticket = await lab.request(ada)
    assert ticket.place == 251
    await reserve(lab, ada)
    assert (await lab.explain(ada, ticket)).place == 1
    await sql.execute("update lease set expires_at = clock_now() - interval '1 day'")
    await lab.duties()
    await host.survey()
    assert (await lab.explain(ada, ticket)).state is Standing.OFFERED


async def test_before_the_window_only_a_bounded_run_goes_first(lab: Lab) -> None:
    """Casebook C41: backfill by bounded runs; the others are told what to do."""
    await lab.host(cards=1, interval=3_600)
    ada, bob, eve = await lab.agent("ada"), await lab.agent("bob"), await lab.agent("eve")
    await reserve(lab, ada, 60)
    unbounded = await lab.request(bob)
    assert unbounded.reason is not None
    assert unbounded.reason.startswith("local/0 is reserved for ada from ")
    assert unbounded.reason.endswith("(R-1); say how long you need with --minutes to go before it")
    assert unbounded.starts is not None
    assert (unbounded.starts.text, unbounded.starts.word) == ("~3 h", EtaWord.DECLARED)
    long = await lab.request(bob, "long", minutes=90)
    assert long.state is Standing.QUEUED
    assert any("1 h 30 min would run into it" in link for link in long.chain)
    short = await lab.request(eve, "short", minutes=50)
    assert short.state is Standing.ACTIVE
    assert (await lane(lab)).state is CardState.LEASED


async def test_an_offer_that_could_begin_late_is_not_made_right_before_a_window(lab: Lab) -> None:
    """Casebook C41: an offer waits three minutes, and its run must be over by then all the same."""
    host = await lab.host(cards=1, interval=3_600)
    holder, bob = await lab.agent("holder"), await lab.agent("bob")
    lease = await lab.hold(holder)
    await reserve(lab, await lab.agent("ada"), 60)
    waiting = {minutes: await lab.request(bob, f"run {minutes}", minutes=minutes) for minutes in (58, 56)}
    await lab.app.leases.release(holder, lease)
    await host.survey()
    assert (await lab.explain(bob, waiting[58])).state is Standing.QUEUED
    assert (await lab.explain(bob, waiting[56])).state is Standing.OFFERED


async def test_who_runs_into_a_window_goes_on_is_told_once_and_shown(lab: Lab, clock: Clock) -> None:
    """Casebook C41: no preemption; the owner waits first in line."""
    host = await lab.host(cards=1, interval=3_600)
    bob, ada = await lab.agent("bob"), await lab.agent("ada")
    lease = await lab.hold(bob, minutes=30)
    answer = await reserve(lab, ada, 60)
    assert answer.consequences == ["L-1 'train' (bob) runs there now and expects to be done before."]
    extended = await lab.app.leases.extend(bob, lease, 60, "slower than I thought")
    assert "It runs into R-1 (ada, from " in extended.next
    clock.advance(minutes=61)
    await lab.app.leases.report(lease, 1, None, bob)
    assert (await lab.duties())["reservation watch"] == 1
    assert (await lab.duties())["reservation watch"] == 0
    (message,) = await told(lab, "bob")
    assert "local/0, which you hold with L-1 'train', is reserved for ada until " in message
    assert "Nothing is taken from you" in message
    shown = await lane(lab)
    assert shown.holder is not None
    assert shown.holder.runs_into == "R-1"
    assert ", running into R-1 of ada (until " in shown.say
    ticket = await lab.request(ada)
    assert (ticket.state, ticket.place) == (Standing.QUEUED, 1)
    await lab.app.leases.release(bob, lease)
    await host.survey()
    assert (await lab.explain(ada, ticket)).state is Standing.OFFERED


async def test_the_beginning_and_the_end_of_a_window_grant_what_they_make_possible(
    lab: Lab, clock: Clock, sql: Sql
) -> None:
    """Casebook C41: by a duty of its own, not only by chance."""
    await lab.host(cards=1, interval=3_600)
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    await reserve(lab, ada, 60, 60)
    other = await lab.request(bob)
    own = await lab.request(ada)
    assert (own.state, own.starts.text if own.starts else "") == (Standing.QUEUED, "~60 min")
    clock.advance(minutes=60)
    assert await lab.app.reservations.turn() == 1
    own = await lab.explain(ada, own)
    assert own.state is Standing.OFFERED
    await lab.app.leases.accept(ada, lease_of(own))
    await lab.app.leases.release(ada, lease_of(own))
    await sql.execute("update card set condition = 'clear', observed_at = clock_now()")
    await lab.app.tickets.grant_everywhere()
    assert (await lab.explain(bob, other)).state is Standing.QUEUED
    clock.advance(minutes=60)
    assert await lab.app.reservations.turn() == 1
    assert (await lab.explain(bob, other)).state is Standing.OFFERED
    assert await kinds(sql) == ["reservation.made", "reservation.begun", "reservation.over"]


async def test_a_reservation_never_lapses_before_its_stated_time(lab: Lab, clock: Clock) -> None:
    """Casebook C36: not while its owner is silent, uses nothing, releases, or the servers were away."""
    host = await lab.host(cards=1, interval=3_600)
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    answer = await reserve(lab, ada, minutes=600)
    waiting = await lab.request(bob, minutes=1)
    for _ in range(9):
        clock.advance(minutes=66)
        await host.survey()
        await lab.duties()
        assert (await lab.explain(bob, waiting)).state is Standing.QUEUED
        assert (await lane(lab)).state is CardState.RESERVED
    assert [each.ends_at for each in await lab.app.reservations.upcoming()] == [answer.reservation.ends_at]
    clock.advance(minutes=7)
    await lab.duties()
    assert (await lab.explain(bob, waiting)).state is Standing.OFFERED


async def test_only_its_owner_or_an_operator_gives_a_reservation_up(lab: Lab, sql: Sql) -> None:
    """Casebook C36: changed only by an event, and its owner is told."""
    await lab.host(cards=1, interval=600)
    ada, bob, operator = await lab.agent("ada-1"), await lab.agent("bob"), await lab.operator()
    one = await reserve(lab, ada)
    waiting = await lab.request(bob)
    with pytest.raises(NotYours, match=r"R-1 belongs to ada-1, not to bob\."):
        await lab.app.reservations.give_up(bob, number_of(one), preview=False)
    preview = await lab.app.reservations.give_up(operator, number_of(one), preview=True)
    assert (preview.done, preview.is_own) == (False, False)
    assert preview.consequences == [
        "Anybody may be granted local/0 now; 1 ticket waits for it.",
        "ada-1 is told.",
    ]
    assert (await lab.explain(bob, waiting)).state is Standing.QUEUED
    assert (await lab.app.reservations.give_up(operator, number_of(one), preview=False)).done
    assert (await lab.explain(bob, waiting)).state is Standing.OFFERED
    (message,) = await told(lab, "ada-1")
    assert "ada gave up your reservation R-1 of local/0" in message
    again = await lab.app.reservations.give_up(ada, number_of(one), preview=False)
    assert again.consequences == ["R-1 was given up already."]
    assert await kinds(sql) == ["reservation.made", "reservation.given_up"]


async def test_what_is_over_cannot_be_given_up_and_what_is_not_there_is_not_found(lab: Lab, clock: Clock) -> None:
    await lab.host(interval=3_600)
    ada = await lab.agent("ada")
    one = await reserve(lab, ada, minutes=5)
    clock.advance(minutes=6)
    with pytest.raises(NotReady, match=r"R-1 is over\."):
        await lab.app.reservations.give_up(ada, number_of(one), preview=False)
    with pytest.raises(NotFound, match=r"There is no reservation R-99\."):
        await lab.app.reservations.give_up(ada, ReservationId(99), preview=False)


async def test_a_window_that_overlaps_is_refused_and_one_that_touches_is_not(lab: Lab) -> None:
    """Casebook C41."""
    await lab.host(cards=2, interval=600)
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    one = await reserve(lab, ada, 60, 60)
    with pytest.raises(Taken, match=r"local/0 is reserved for ada from .* \(R-1\)\. The next gap for 2 h there begins"):
        await reserve(lab, bob, 0, 120)
    wish = ReservationWish("0", 60, one.reservation.ends_at)
    assert (await lab.app.reservations.reserve(bob, wish)).reservation.reservation == "R-2"
    assert (await reserve(lab, bob, 60, 60, "1")).done
    await lab.app.reservations.give_up(ada, number_of(one), preview=False)
    assert (await reserve(lab, bob, 30, 80)).done


async def test_of_twenty_that_want_the_same_window_exactly_one_gets_it(lab: Lab, sql: Sql) -> None:
    """Casebook C41: one winner in any race, and the others learn who."""
    await lab.host(cards=1, interval=600)
    agents = [await lab.agent(f"agent-{number}") for number in range(20)]
    async with sql.transaction():
        await sql.execute("select id from card for no key update")
        races = [asyncio.create_task(reserve(lab, agent)) for agent in agents]
        await somebody_waits(sql, many=5)
    answers = await asyncio.gather(*races, return_exceptions=True)
    made = [answer for answer in answers if isinstance(answer, ReservationAnswer)]
    assert len(made) == 1
    lost = [answer for answer in answers if isinstance(answer, Taken)]
    assert len(lost) == 19
    assert all(f"is reserved for {made[0].reservation.agent} " in each.cause for each in lost)
    assert await sql.fetchval("select count(*) from reservation") == 1


async def test_the_schema_itself_keeps_two_promises_for_one_card_apart(sql: Sql) -> None:
    """Casebook C41."""
    agent, _ = await add_session(sql)
    card = await add_card(sql, await add_host(sql))
    made = "insert into reservation (card_id, agent_id, starts_at, ends_at) values ($1, $2, now() + $3::interval, now() + $4::interval)"
    await sql.execute(made, card, agent, timedelta(hours=1), timedelta(hours=2))
    with pytest.raises(asyncpg.ExclusionViolationError):
        await sql.execute(made, card, agent, timedelta(hours=1.5), timedelta(hours=3))
    for start, end in ((2, 1), (1, 1), (3, 27.1)):
        with pytest.raises(asyncpg.CheckViolationError):
            await sql.execute(made, card, agent, timedelta(hours=start), timedelta(hours=end))
    await sql.execute("update reservation set given_up_at = now(), given_up_by = agent_id")
    await sql.execute(made, card, agent, timedelta(hours=1.5), timedelta(hours=3))


async def test_an_agent_may_have_only_so_many(open_app) -> None:  # type: ignore[no-untyped-def]
    lab = Lab(await open_app(reservations_open=2, reservation_hours=3, reservation_days=1))
    await lab.host(interval=600)
    ada = await lab.agent("ada")
    await reserve(lab, ada, 0, 10)
    await reserve(lab, ada, 20, 10)
    with pytest.raises(Impossible, match="ada has 2 open reservations, the most that one may have"):
        await reserve(lab, ada, 40, 10)
    with pytest.raises(Impossible, match="at most 3 h"):
        await reserve(lab, ada, 40, 181)
    with pytest.raises(Impossible, match="more than 24 h away"):
        await reserve(lab, ada, 24 * 60 + 5)
    with pytest.raises(Impossible, match="is past"):
        await reserve(lab, ada, -5)


async def test_a_lost_card_is_not_promised_and_a_drained_one_only_with_a_word(lab: Lab) -> None:
    """Casebook C41."""
    host = await lab.host(interval=600)
    ada = await lab.agent("ada")
    await lab.app.cards.drain(await lab.operator(), "local/1", "new fan", preview=False)
    answer = await reserve(lab, ada, 60, card="1")
    assert answer.consequences == [
        "local/1 is drained by an operator: new fan. R-1 holds all the same, and is of use once it is back."
    ]
    host.hidden.add(0)
    for _ in range(4):
        await host.survey()
    assert (await lane(lab)).state is CardState.LOST
    with pytest.raises(Impossible, match="local/0 is lost"):
        await reserve(lab, ada, 60)


async def test_a_gpu_that_is_divided_is_reserved_in_its_instances(lab: Lab) -> None:
    """Casebook C41, C04."""
    host = await lab.host(cards=1, interval=600)
    whole = host.cards[0]
    host.hidden.add(0)
    host.cards.append(replace(whole, uuid="MIG-0-0", index=100, parent_uuid=whole.uuid))
    await host.survey()
    with pytest.raises(Impossible, match="local/0 cannot be leased: it is divided into"):
        await reserve(lab, await lab.agent("ada"), 60)
    assert (await reserve(lab, await lab.agent("ada"), 60, card="100")).reservation.card == "local/100"


async def test_a_window_that_nobody_saw_begin_or_end_is_only_noted(lab: Lab, clock: Clock, sql: Sql) -> None:
    """Casebook C36: the servers were away for all of it."""
    await lab.host(cards=1, interval=3_600)
    await lab.hold(await lab.agent("bob"))
    await reserve(lab, await lab.agent("ada"), 10, 10)
    clock.advance(minutes=60)
    assert await lab.app.reservations.turn() == 1
    assert await kinds(sql) == ["reservation.made", "reservation.over"]
    assert await told(lab, "bob") == []


async def test_making_one_says_who_may_run_into_it_and_whom_it_pushes_back(lab: Lab) -> None:
    """Casebook C41: it appears in ETAs."""
    await lab.host(cards=1, interval=600)
    bob, ada = await lab.agent("bob"), await lab.agent("ada")
    await lab.hold(bob, minutes=90)
    waiting = await lab.request(await lab.agent("eve"), "eval", minutes=20)
    answer = await reserve(lab, ada, 60)
    assert answer.consequences == [
        "L-1 'train' (bob) runs there and may run into it: nothing is taken from it, and your request goes next.",
        "It pushes back T-2 'eval' (eve).",
    ]
    starts = (await lab.explain(bob, waiting)).starts
    assert starts is not None
    assert starts.text == "~3 h"
    chain = (await lab.explain(bob, waiting)).chain
    assert any("local/0 is reserved for ada from" in link and "20 min would run into it" in link for link in chain)


async def test_a_reservation_follows_its_card_whatever_it_is_called(lab: Lab) -> None:
    """Casebook C41: by UUID, pinned when it is made."""
    host = await lab.host(cards=2, interval=600)
    await reserve(lab, await lab.agent("ada"), card="0")
    host.report(0, index=1)
    host.report(1, index=0)
    await host.survey()
    first, second = (await lab.app.cards.survey()).hosts[0].cards
    assert (first.state, second.state) == (CardState.FREE, CardState.RESERVED)
    assert [each.card for each in await lab.app.reservations.upcoming()] == ["local/1"]


async def test_asking_again_with_minutes_lets_a_waiting_ticket_go_before_a_window(lab: Lab) -> None:
    """Casebook C41: what the reason tells to do works, at the ticket's own age."""
    await lab.host(cards=1, interval=600)
    bob = await lab.agent("bob")
    await reserve(lab, await lab.agent("ada"), 60)
    waiting = await lab.request(bob)
    again = await lab.request(bob, minutes=30)
    assert (again.ticket, again.deduplicated, again.state) == (waiting.ticket, True, Standing.ACTIVE)


async def test_a_session_with_a_reservation_may_be_forgotten_and_the_reservation_stays(
    lab: Lab, sql: Sql, clock: Clock
) -> None:
    """Casebook C36."""
    await lab.host(interval=600)
    await reserve(lab, await lab.agent("ada"), 6 * 24 * 60)
    await sql.execute("delete from session")
    assert [each.agent for each in await lab.app.reservations.upcoming()] == ["ada"]
    clock.advance(days=100)
    await lab.duties()
    assert await sql.fetchval("select count(*) from reservation") == 0
