import asyncio

import pytest

from support.lab import Lab, ticket_of
from support.locks import until
from support.rows import Sql
from warploom.domain.errors import Unreachable
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer
from warploom.services.backstop import Backstop
from warploom.services.changes import EVERYTHING, Changes, ticket_topic


@pytest.fixture
def deaf(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A world in which every hint is lost, and only the test looks."""

    async def look(_: Backstop) -> None:
        return

    monkeypatch.setattr(lab.app.bus, "publish", lambda topics: None)
    monkeypatch.setattr(Backstop, "_look_forever", look)
    return lab


async def queued(lab: Lab, count: int) -> tuple[list[Actor], list[TicketAnswer]]:
    agents = [await lab.agent(f"claude-{number}") for number in range(count)]
    return agents, [await lab.request(agent, "eval") for agent in agents]


async def test_one_look_rings_whom_a_lost_hint_left_waiting_and_nobody_else(deaf: Lab) -> None:
    """Casebook C68."""
    host = await deaf.host(cards=1, interval=600)
    holder = await deaf.agent("holder")
    lease = await deaf.hold(holder)
    agents, tickets = await queued(deaf, 3)
    waits = [
        asyncio.create_task(deaf.app.tickets.wait(agent, ticket_of(ticket), 55))
        for agent, ticket in zip(agents, tickets, strict=True)
    ]

    async def all_listen() -> bool:
        return len(deaf.app.bus.heard()) == 3

    await until(all_listen)
    await deaf.app.leases.release(holder, lease)
    await host.survey()
    await Backstop(Changes(deaf.app.database, deaf.app.bus)).look()
    async with asyncio.timeout(20):
        assert (await waits[0]).state is Standing.OFFERED
    assert [wait.done() for wait in waits[1:]] == [False, False]
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def test_those_who_follow_the_log_are_rung_once_it_has_gone_on(deaf: Lab) -> None:
    """Casebook C68."""
    backstop = Backstop(Changes(deaf.app.database, deaf.app.bus))
    with deaf.app.bus.listen(EVERYTHING) as listener:
        await backstop.look()
        await listener.wait(0)
        await backstop.look()
        assert not await listener.wait(0)
        await deaf.host()
        await backstop.look()
        assert await listener.wait(0)


async def test_a_line_that_commits_late_is_rung_for_when_it_may_be_read(deaf: Lab, sql: Sql, database_url: str) -> None:
    backstop = Backstop(Changes(deaf.app.database, deaf.app.bus))
    with deaf.app.bus.listen(EVERYTHING) as listener:
        await backstop.look()
        await listener.wait(0)
        async with sql.transaction():
            await sql.execute("select pg_current_xact_id()")
            await deaf.host()
            await backstop.look()
            assert not await listener.wait(0)
        await backstop.look()
        assert await listener.wait(0)


async def test_nobody_who_waits_costs_no_look(deaf: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        raise AssertionError("a look at the database for nobody")

    monkeypatch.setattr(deaf.app.database, "connection", never)
    await Backstop(Changes(deaf.app.database, deaf.app.bus)).look()


async def test_a_database_that_is_away_ends_no_looking(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Casebook C69."""
    looks: list[int] = []

    async def look(_: Backstop) -> None:
        looks.append(1)
        raise Unreachable("The database is away.", "Try again.")

    monkeypatch.setattr(Backstop, "look", look)
    monkeypatch.setattr("warploom.services.backstop.POLL_SECONDS", 0.01)
    backstop = Backstop(Changes(lab.app.database, lab.app.bus))
    backstop.start()

    async def looked_again() -> bool:
        return len(looks) > 2

    await until(looked_again)
    await backstop.stop()


async def test_every_topic_of_a_ticket_can_be_read_back(lab: Lab) -> None:
    with lab.app.bus.listen(ticket_topic(ticket_of(TicketAnswer("T-17", "", Standing.QUEUED, "")))):
        await Backstop(Changes(lab.app.database, lab.app.bus)).look()
