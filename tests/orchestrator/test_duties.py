import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from support.databases import Clock
from support.lab import Lab, lease_of
from support.locks import until
from support.rows import Sql
from warploom.app import App
from warploom.domain.cards import CardState
from warploom.domain.health import Word
from warploom.domain.standings import Standing
from warploom.orchestrator.duties import DUTIES, LEAD_TIME, Orchestrator, run_all
from warploom.services.health import LEADER
from warploom.store.leaders import give_lead_up, read_leader, take_lead

OpenApp = Callable[..., Awaitable[App]]


async def test_duties_that_have_nothing_to_do_do_nothing(lab: Lab, sql: Sql) -> None:
    await lab.host()
    await lab.request(await lab.agent())
    events = await sql.fetchval("select count(*) from event")
    assert await run_all(lab.app.duties) == {duty.name: 0 for duty in DUTIES}
    assert await sql.fetchval("select count(*) from event") == events


async def test_every_duty_has_a_name_of_its_own_and_a_pace(lab: Lab) -> None:
    assert len({duty.name for duty in DUTIES}) == len(DUTIES)
    assert all(duty.seconds > 0 for duty in DUTIES)


async def test_two_servers_that_do_every_duty_at_once_do_nothing_twice(
    lab: Lab, open_app: OpenApp, clock: Clock, sql: Sql
) -> None:
    """Casebook C70. Expired leases, lapsed offers, a silent host and a grant to be made, all due at the same moment."""
    other = Lab(await open_app())
    host = await lab.host(cards=4, interval=600)
    far = await lab.host("far", cards=1, interval=2)
    holder = await lab.agent("holder")
    for card in range(3):
        await lab.hold(holder, str(card), purpose=f"hold {card}")
    waiting = [await lab.request(await lab.agent(f"waiter-{number}"), device="0") for number in range(3)]
    await lab.app.leases.release(holder, lease_of((await lab.app.tickets.me(holder, [])).leases[0]))
    await host.survey()
    clock.advance(minutes=11)
    await sql.execute("delete from queue where task_id = $1", int(waiting[2].ticket[2:]))
    done = await asyncio.gather(*(each.duties() for each in (lab, other, lab, other)))
    total = {duty.name: sum(each[duty.name] for each in done) for duty in DUTIES}
    assert (total["lease reaper"], total["offer lapser"], total["host watch"]) == (2, 1, 1)
    counts = dict(await sql.fetch("select kind, count(*) from event group by kind"))
    assert (counts["lease.expired"], counts["lease.lapsed"], counts["host.silent"]) == (2, 1, 1)
    assert counts["lease.offered"] == 2
    assert await sql.fetchval("select count(*) from message") == 3
    assert await sql.fetchval("select count(*) from queue where task_id = $1", int(waiting[2].ticket[2:])) == 1
    assert far.name == "far"


async def test_one_lease_that_cannot_be_ended_keeps_no_other_from_it(lab: Lab, clock: Clock, sql: Sql) -> None:
    """Casebook C73."""
    await lab.host(cards=3, interval=600)
    for card in range(3):
        await lab.request(await lab.agent(f"agent-{card}"), device=str(card))
    await sql.execute(
        """
        create function refuse() returns trigger language plpgsql as 'begin raise exception ''broken''; end';
        create trigger broken before update on lease for each row when (old.id = 1) execute function refuse();
        """
    )
    clock.advance(minutes=11)
    assert (await lab.duties())["lease reaper"] == 2
    assert [row["id"] for row in await sql.fetch("select id from lease where state <> 'ended'")] == [1]


async def test_a_duty_that_fails_keeps_no_other_from_being_done(lab: Lab, clock: Clock, sql: Sql) -> None:
    """Casebook C73."""
    await lab.host("far", cards=1, interval=2)
    await lab.request(await lab.agent(), device="far/0")
    await sql.execute(
        "create function refuse() returns trigger language plpgsql as 'begin raise exception ''broken''; end'"
    )
    await sql.execute("create trigger broken before update on lease for each row execute function refuse()")
    clock.advance(minutes=11)
    orchestrator = asyncio.create_task(Orchestrator(lab.app.duties).run_forever())

    async def is_noted() -> bool:
        return await sql.fetchval("select count(*) from event where kind = 'host.silent'") == 1

    await until(is_noted)
    orchestrator.cancel()
    await asyncio.gather(orchestrator, return_exceptions=True)


async def test_the_orchestrator_passes_offers_on_by_itself(lab: Lab, clock: Clock) -> None:
    host = await lab.host(interval=600)
    holder = await lab.agent("claude-1")
    lease = await lab.hold(holder)
    first = await lab.request(await lab.agent("claude-2"))
    second = await lab.request(await lab.agent("claude-3"))
    await lab.app.leases.release(holder, lease)
    await host.survey()
    assert (await lab.explain(holder, first)).state is Standing.OFFERED
    orchestrator = asyncio.create_task(Orchestrator(lab.app.duties).run_forever())
    clock.advance(seconds=181)

    async def is_passed_on() -> bool:
        return (await lab.explain(holder, second)).state is Standing.OFFERED

    await until(is_passed_on)
    orchestrator.cancel()
    await asyncio.gather(orchestrator, return_exceptions=True)


async def test_one_of_two_servers_leads_and_the_other_takes_over_when_it_stops(
    lab: Lab, open_app: OpenApp, sql: Sql
) -> None:
    other = await open_app()
    first = asyncio.create_task(Orchestrator(lab.app.duties).run_forever())

    async def leader() -> str | None:
        return await sql.fetchval("select holder from leader where expires_at > clock_now()")

    one = await until(leader)
    second = asyncio.create_task(Orchestrator(other.duties).run_forever())
    assert await leader() == one
    assert [check.word for check in await other.health.doctor() if check.name == "leader"] == [Word.OK]
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    async def is_another() -> bool:
        return await leader() not in (None, one)

    await until(is_another)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)


async def test_a_leader_that_died_is_followed_once_its_time_is_up(lab: Lab, clock: Clock) -> None:
    async with lab.app.database.connection() as conn:
        assert await take_lead(conn, LEADER, "one", LEAD_TIME)
        assert await take_lead(conn, LEADER, "one", LEAD_TIME)
        assert not await take_lead(conn, LEADER, "two", LEAD_TIME)
        clock.advance(seconds=LEAD_TIME.total_seconds() + 1)
        assert await take_lead(conn, LEADER, "two", LEAD_TIME)
        assert not await take_lead(conn, LEADER, "one", LEAD_TIME)
        await give_lead_up(conn, LEADER, "one")
        assert not await take_lead(conn, LEADER, "one", LEAD_TIME)
        await give_lead_up(conn, LEADER, "two")
        assert await take_lead(conn, LEADER, "one", LEAD_TIME)
        leader = await read_leader(conn, LEADER)
    assert leader is not None
    assert (leader.holder, leader.is_current) == ("one", True)


async def test_a_leader_that_died_before_the_clock_was_set_back_is_followed_at_once(lab: Lab, clock: Clock) -> None:
    """Casebook C32."""
    async with lab.app.database.connection() as conn:
        assert await take_lead(conn, LEADER, "one", LEAD_TIME)
        clock.advance(seconds=-5)
        assert not await take_lead(conn, LEADER, "two", LEAD_TIME)
        clock.advance(hours=-1)
        assert await take_lead(conn, LEADER, "two", LEAD_TIME)


async def test_twenty_servers_that_want_to_lead_at_once_have_one_leader(lab: Lab) -> None:
    async def try_to_lead(name: str) -> bool:
        async with lab.app.database.connection() as conn:
            return await take_lead(conn, LEADER, name, timedelta(seconds=60))

    assert sum(await asyncio.gather(*(try_to_lead(f"server {number}") for number in range(20)))) == 1


async def test_a_binary_older_than_the_schema_does_no_duty(lab: Lab, clock: Clock, sql: Sql) -> None:
    await lab.host(interval=600)
    await lab.request(await lab.agent())
    clock.advance(minutes=11)
    await sql.execute("update alembic_version set version_num = '0999'")
    orchestrator = asyncio.create_task(Orchestrator(lab.app.duties).run_forever())
    looks = iter(range(50))

    async def has_looked_for_a_while() -> bool:
        return next(looks, None) is None

    await until(has_looked_for_a_while)
    orchestrator.cancel()
    await asyncio.gather(orchestrator, return_exceptions=True)
    assert await sql.fetchval("select count(*) from leader") == 0
    assert await sql.fetchval("select count(*) from lease where state = 'ended'") == 0


async def test_events_past_their_time_are_forgotten_and_others_kept(lab: Lab, clock: Clock, sql: Sql) -> None:
    await lab.host(interval=600)
    clock.advance(days=91)
    await lab.agent()
    assert (await lab.duties())["pruner"] >= 3
    kinds = {row["kind"] for row in await sql.fetch("select kind from event")}
    assert kinds == {"session.started", "host.silent"}


async def test_the_grant_maker_makes_grants_that_nobody_else_made(lab: Lab, sql: Sql) -> None:
    host = await lab.host()
    waiting = await lab.request(await lab.agent("claude-2"), device="any", cards=2)
    assert waiting.state is Standing.ACTIVE
    await lab.app.leases.release(await lab.agent("claude-2"), lease_of(waiting))
    again = await lab.request(await lab.agent("claude-3"), device="0")
    assert again.state is Standing.QUEUED
    await sql.execute("update card set condition = 'clear'")
    assert (await lab.duties())["grant maker"] == 1
    assert (await lab.explain(await lab.agent("claude-3"), again)).state is Standing.OFFERED
    assert (await lab.app.cards.survey()).hosts[0].cards[0].state is CardState.OFFERED
    assert host.name == "local"
