import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import asyncpg
import pytest

from support.databases import Clock
from support.lab import Lab, lease_of, ticket_of
from support.locks import somebody_waits
from support.rows import Sql, whole_database
from warploom.app import App
from warploom.domain.errors import LeaseLost, WarploomError
from warploom.domain.leases import LeaseState
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer

OpenApp = Callable[..., Awaitable[App]]


async def test_fifty_agents_that_want_one_card_have_one_winner_and_the_losers_learn_its_name(
    lab: Lab, sql: Sql
) -> None:
    """Casebook C21."""
    await lab.host(cards=1)
    agents = [await lab.agent(f"agent-{number}") for number in range(50)]
    async with sql.transaction():
        await sql.execute("select id from card for no key update")
        races = [asyncio.create_task(lab.request(agent)) for agent in agents]
        await somebody_waits(sql, many=5)
    answers = await asyncio.gather(*races)
    winners = [answer for answer in answers if answer.state is Standing.ACTIVE]
    losers = [answer for answer in answers if answer.state is Standing.QUEUED]
    assert len(winners) == 1
    assert len(losers) == 49
    told = f"local/0 is held by {winners[0].lease} 'train' ({winners[0].agent}), free at an unknown time"
    assert {answer.reason for answer in losers} == {told}
    looks = [await lab.explain(agents[0], answer) for answer in losers]
    assert sorted(look.place or 0 for look in looks) == list(range(1, 50))
    assert await sql.fetchval("select count(*) from lease") == 1


async def test_fifty_agents_on_two_servers_that_take_any_of_four_cards_hold_four(
    lab: Lab, open_app: OpenApp, sql: Sql
) -> None:
    """Casebook C21, on two servers."""
    await lab.host(cards=4)
    labs = [lab, Lab(await open_app())]
    agents = [await lab.agent(f"agent-{number}") for number in range(50)]
    answers = await asyncio.gather(
        *(labs[place % 2].request(agent, device="any") for place, agent in enumerate(agents))
    )
    assert sum(answer.state is Standing.ACTIVE for answer in answers) == 4
    cards = [row["card_id"] for row in await sql.fetch("select card_id from lease_card where live")]
    assert sorted(cards) == [1, 2, 3, 4]


async def test_a_release_and_a_request_at_once_leave_the_card_with_the_longest_waiter(lab: Lab, sql: Sql) -> None:
    host = await lab.host(cards=1)
    holder = await lab.agent("claude-1")
    lease = await lab.hold(holder)
    first = await lab.request(await lab.agent("claude-2"))
    newcomer = await lab.agent("claude-3")
    async with sql.transaction():
        await sql.execute("select id from card for no key update")
        racing = [
            asyncio.create_task(work)
            for work in (lab.app.leases.release(holder, lease), lab.request(newcomer), host.survey(), host.survey())
        ]
        await somebody_waits(sql, many=3)
    await asyncio.gather(*racing)
    await host.survey()
    assert (await lab.explain(holder, first)).state is Standing.OFFERED


async def test_an_acceptance_and_a_lapse_at_once_have_one_outcome(lab: Lab, clock: Clock, sql: Sql) -> None:
    mine, offer = await an_offer(lab)
    async with sql.transaction():
        await sql.execute("select id from lease where id = 2 for update")
        acceptance = asyncio.create_task(settled(lab.app.leases.accept(mine, lease_of(offer))))
        await somebody_waits(sql)
        clock.advance(seconds=181)
        lapse = asyncio.create_task(lab.app.leases.lapse(lease_of(offer)))
        await somebody_waits(sql, many=2)
    assert isinstance(await acceptance, LeaseLost) == await lapse
    assert await sql.fetchval("select count(*) from lease where state <> 'ended'") == 1


async def test_two_releases_and_an_expiry_at_once_end_a_lease_once(lab: Lab, clock: Clock, sql: Sql) -> None:
    """Casebook C24."""
    await lab.host()
    holder = await lab.agent()
    lease = await lab.hold(holder)
    clock.advance(minutes=11)
    async with sql.transaction():
        await sql.execute("select id from card for no key update")
        racing = [
            asyncio.create_task(settled(work))
            for work in (
                lab.app.leases.release(holder, lease),
                lab.app.leases.release(holder, lease),
                lab.app.leases.expire(lease),
            )
        ]
        await somebody_waits(sql, many=3)
    await asyncio.gather(*racing)
    assert await sql.fetchval("select count(*) from event where kind in ('lease.released', 'lease.expired')") == 1
    assert await sql.fetchval("select count(*) from task where finished_at is not null") == 1


async def test_a_heartbeat_that_comes_just_before_the_expiry_keeps_the_lease(lab: Lab, clock: Clock, sql: Sql) -> None:
    """Casebook C23. The reaper has chosen the lease already and waits for it while the heartbeat commits."""
    await lab.host()
    holder = await lab.agent()
    lease = await lab.hold(holder)
    clock.advance(minutes=11)
    async with sql.transaction():
        await sql.execute("update lease set expires_at = clock_now() + interval '10 minutes' where id = 1")
        expiry = asyncio.create_task(lab.app.leases.expire(lease))
        await somebody_waits(sql)
    assert not await expiry
    assert (await lab.app.leases.accept(holder, lease)).state is LeaseState.ACTIVE


@pytest.mark.parametrize("with_session", [True, False])
async def test_a_report_that_meets_the_release_of_its_lease_changes_nothing_once_that_is_lost(
    lab: Lab, sql: Sql, with_session: bool
) -> None:
    await lab.host()
    holder = await lab.agent()
    lease = await lab.hold(holder)
    await lab.app.leases.report(lease, 3, 10, holder)
    actor = holder if with_session else None
    async with sql.transaction():
        await sql.execute("select lease_id from progress for update")
        await sql.execute("select id from lease for update")
        report = asyncio.create_task(settled(lab.app.leases.report(lease, 7, 10, actor)))
        await somebody_waits(sql)
        release = asyncio.create_task(lab.app.leases.release(holder, lease))
        await somebody_waits(sql, many=2)
    await release
    outcome = await report
    step = await sql.fetchval("select step from progress where lease_id = 1")
    assert step == (3 if isinstance(outcome, LeaseLost) else 7)


async def test_a_lost_lease_is_lost_even_to_a_report_that_had_begun(lab: Lab, sql: Sql, database_url: str) -> None:
    """Casebook C22."""
    await lab.host()
    holder = await lab.agent()
    lease = await lab.hold(holder)
    await lab.app.leases.report(lease, 3, 10)
    other = await asyncpg.connect(database_url)
    try:
        async with sql.transaction():
            await sql.execute("select lease_id from progress for update")
            report = asyncio.create_task(settled(lab.app.leases.report(lease, 7, 10)))
            await somebody_waits(other)
            release = asyncio.create_task(lab.app.leases.release(holder, lease))
            await somebody_waits(other, many=2)
        assert not isinstance(await report, WarploomError)
        await release
        ended = await sql.fetchval("select ended_at from lease where id = 1")
        assert await sql.fetchval("select reported_at from progress where lease_id = 1") <= ended
    finally:
        await other.close()


async def test_surveys_of_two_hosts_at_once_grant_a_ticket_that_takes_any_once(lab: Lab, sql: Sql) -> None:
    hosts = [await lab.host("rack-a", 1), await lab.host("rack-b", 1)]
    holders = [await lab.agent("claude-1"), await lab.agent("claude-2")]
    leases = [await lab.hold(holder, "any") for holder in holders]
    waiting = await lab.request(await lab.agent("claude-3"), device="any")
    for holder, lease in zip(holders, leases, strict=True):
        await lab.app.leases.release(holder, lease)
    async with sql.transaction():
        await sql.execute("select id from session for update")
        surveys = [asyncio.create_task(host.survey()) for host in hosts]
        await somebody_waits(sql)
        await asyncio.wait(surveys, return_when=asyncio.FIRST_COMPLETED, timeout=20)
    await asyncio.gather(*surveys)
    assert (await lab.explain(holders[0], waiting)).state is Standing.OFFERED
    assert await sql.fetchval("select count(*) from lease where state <> 'ended'") == 1


async def test_a_card_that_is_found_while_a_request_is_made_serves_it_in_the_end(lab: Lab, sql: Sql) -> None:
    host = await lab.host(cards=1)
    await lab.hold(await lab.agent("claude-1"))
    mine = await lab.agent("claude-2")
    async with sql.transaction():
        await sql.execute("select id from session for update")
        request = asyncio.create_task(lab.request(mine, device="any"))
        await somebody_waits(sql)
        host.cards.append(replace(host.cards[0], uuid="GPU-new", index=1))
        await host.survey()
    waiting = await request
    await lab.duties()
    assert (await lab.explain(mine, waiting)).cards == ["local/1"]


async def test_leaving_the_queue_while_being_granted_ends_in_one_of_both(lab: Lab, sql: Sql) -> None:
    host = await lab.host(cards=1)
    holder, mine = await lab.agent("claude-1"), await lab.agent("claude-2")
    lease = await lab.hold(holder)
    waiting = await lab.request(mine)
    await lab.app.leases.release(holder, lease)
    async with sql.transaction():
        await sql.execute("select id from card for no key update")
        racing = [
            asyncio.create_task(settled(work))
            for work in (lab.app.tickets.leave(mine, ticket_of(waiting)), host.survey())
        ]
        await somebody_waits(sql, many=2)
    await asyncio.gather(*racing)
    assert (await lab.explain(mine, waiting)).state is Standing.ENDED
    assert await sql.fetchval("select count(*) from lease where state <> 'ended'") == 0
    assert await sql.fetchval("select count(*) from queue") == 0


async def test_everything_at_once_never_deadlocks_and_leaves_a_whole_database(
    lab: Lab, open_app: OpenApp, sql: Sql
) -> None:
    labs = [lab, Lab(await open_app())]
    host = await lab.host(cards=3)
    agents = [await lab.agent(f"agent-{number}") for number in range(8)]

    async def life(place: int) -> None:
        own, agent = labs[place % 2], agents[place]
        for turn, device in enumerate(["0", "any", "0,1", "1,2", "2"]):
            answer = await own.request(agent, f"job {turn}", device, minutes=5)
            if answer.state is Standing.QUEUED:
                await own.app.tickets.leave(agent, ticket_of(answer))
            elif answer.state in (Standing.ACTIVE, Standing.OFFERED):
                await own.app.leases.report(lease_of(answer), turn, 10, agent)
                await own.app.leases.release(agent, lease_of(answer))

    async def look() -> None:
        for _ in range(12):
            await host.survey()
            await lab.duties()

    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(*(life(place) for place in range(8)), look(), look(), return_exceptions=True)
    assert [outcome for outcome in outcomes if outcome is not None and not isinstance(outcome, LeaseLost)] == []
    assert await sql.fetchval("select count(*) from lease where state <> 'ended'") == 0
    assert (await whole_database(sql))["queue"] == []


async def an_offer(lab: Lab) -> tuple[Actor, TicketAnswer]:
    host = await lab.host(interval=600)
    holder, mine = await lab.agent("claude-1"), await lab.agent("claude-2")
    lease = await lab.hold(holder)
    waiting = await lab.request(mine)
    await lab.app.leases.release(holder, lease)
    await host.survey()
    return mine, await lab.explain(mine, waiting)


async def settled(work: Awaitable[object]) -> object:
    """Return what a call returns, or the refusal it raises."""
    try:
        return await work
    except WarploomError as error:
        return error
