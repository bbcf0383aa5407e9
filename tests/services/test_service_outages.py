import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from support.graphs import make, state_of
from support.lab import Lab, lease_of, ticket_of
from support.locks import somebody_waits, until
from support.rows import Sql
from support.servers import temporary_home
from warploom.app import App, build_app
from warploom.config import Settings
from warploom.domain.errors import Busy, Unreachable
from warploom.domain.health import Word
from warploom.domain.leases import LeaseState
from warploom.domain.standings import Standing
from warploom.domain.tasks import TaskState
from warploom.embedded.postgres import Postgres
from warploom.store import database as database_module
from warploom.store.database import Database


@pytest.fixture(scope="module")
def spare() -> Generator[Postgres]:
    """A Postgres that the tests of this file may stop, kill and start."""
    with ExitStack() as stack:
        postgres = Postgres(temporary_home(stack))
        postgres.start()
        stack.callback(postgres.stop)
        yield postgres


@pytest.fixture
async def spare_app(spare: Postgres, tmp_path: Path) -> AsyncGenerator[App]:
    app = build_app(
        Settings.load(
            {"WARPLOOM_HOME": str(tmp_path), "WARPLOOM_DATABASE_URL": spare.start(), "WARPLOOM_REDIS_URL": "none"}
        )
    )
    await app.start()
    yield app
    await app.stop()


async def restart(postgres: Postgres) -> None:
    await asyncio.to_thread(postgres.stop)
    await asyncio.to_thread(postgres.start)


async def recovered(app: App) -> None:
    """Return once the database serves again; every refusal on the way is one that says to try again."""
    refusals: list[str] = []

    async def serves() -> bool:
        try:
            await app.cards.survey()
        except (Unreachable, Busy) as error:
            refusals.append(error.next_step.lower())
            return False
        return True

    await until(serves)
    assert all("try again" in refusal for refusal in refusals)


async def test_a_restart_of_postgres_in_mid_flow_loses_nothing(spare: Postgres, spare_app: App) -> None:
    lab = Lab(spare_app)
    host = await lab.host("mid-flow", cards=1)
    first, second = await lab.agent("mid-1"), await lab.agent("mid-2")
    lease = await lab.hold(first, "mid-flow/0")
    waiting = await lab.request(second, "eval", "mid-flow/0")
    await restart(spare)
    await recovered(spare_app)
    assert (await lab.app.leases.report(lease, 1, 10, first)).state is LeaseState.ACTIVE
    await lab.app.leases.release(first, lease)
    await restart(spare)
    await recovered(spare_app)
    await host.survey()
    assert (await lab.explain(second, waiting)).state is Standing.OFFERED


async def test_a_change_that_postgres_dies_under_leaves_nothing_of_it(spare: Postgres, spare_app: App) -> None:
    lab = Lab(spare_app)
    await lab.host("dies", cards=1)
    agent = await lab.agent("dies-1")
    with pytest.raises((Unreachable, Busy)):  # noqa: PT012 - the block is the transaction that dies
        async with spare_app.database.transaction() as conn, spare_app.database.connection() as watcher:
            await conn.execute("select id from card for no key update")
            request = asyncio.create_task(lab.request(agent, "train", "dies/0"))
            await somebody_waits(watcher)
            await restart(spare)
            with pytest.raises((Unreachable, Busy)):
                await request
            await conn.fetchval("select 1")
    await recovered(spare_app)
    assert (await lab.app.tickets.me(agent, [])).tickets == []
    assert (await lab.request(agent, "train", "dies/0")).state is Standing.ACTIVE


async def test_a_finish_that_postgres_dies_under_leaves_the_task_with_its_holder_and_what_is_behind_it_waiting(
    spare: Postgres, spare_app: App
) -> None:
    lab = Lab(spare_app)
    ada = await lab.agent("finishes")
    first = await make(lab, ada, "first")
    behind = await make(lab, ada, "behind", first)
    await lab.app.claims.claim(ada, first)
    with pytest.raises((Unreachable, Busy)):  # noqa: PT012 - the block is the transaction that dies
        async with spare_app.database.transaction() as conn, spare_app.database.connection() as watcher:
            await conn.execute("select id from task where id = $1 for update", behind)
            finish = asyncio.create_task(lab.app.claims.done(ada, first, None, {"loss": 1.9}))
            await somebody_waits(watcher)
            await restart(spare)
            with pytest.raises((Unreachable, Busy)):
                await finish
            await conn.fetchval("select 1")
    await recovered(spare_app)
    assert (await state_of(lab, ada, first), await state_of(lab, ada, behind)) == (TaskState.CLAIMED, TaskState.PENDING)
    await lab.app.claims.done(ada, first, None, {"loss": 1.9})
    assert (await state_of(lab, ada, first), await state_of(lab, ada, behind)) == (TaskState.DONE, TaskState.READY)


async def test_a_waiter_that_postgres_leaves_is_told_to_try_again_and_finds_its_ticket(
    spare: Postgres, spare_app: App
) -> None:
    lab = Lab(spare_app)
    await lab.host("leaves", cards=1)
    await lab.hold(await lab.agent("leaves-1"), "leaves/0")
    mine = await lab.agent("leaves-2")
    ticket = await lab.request(mine, "eval", "leaves/0")
    waiter = asyncio.create_task(lab.app.tickets.wait(mine, ticket_of(ticket), 55))

    async def listens() -> bool:
        return spare_app.bus.health().listeners == 1

    await until(listens)
    await asyncio.to_thread(spare.stop)
    spare_app.bus.publish([f"ticket:{ticket_of(ticket)}"])
    with pytest.raises(Unreachable, match="not reachable"):
        await waiter
    await asyncio.to_thread(spare.start)
    await recovered(spare_app)
    assert (await lab.app.tickets.wait(mine, ticket_of(ticket), 0)).state is Standing.QUEUED


async def test_the_doctor_says_that_postgres_is_away(spare: Postgres, spare_app: App) -> None:
    await asyncio.to_thread(spare.stop)

    async def is_told() -> Any:
        return next((check for check in await spare_app.health.doctor() if check.word is Word.BAD), None)

    check = await until(is_told)
    assert (check.name, check.text) == ("postgres", "The database is not reachable at the moment.")
    await asyncio.to_thread(spare.start)
    await recovered(spare_app)


async def test_a_server_that_starts_before_its_database_waits_for_it(spare: Postgres, tmp_path: Path) -> None:
    await asyncio.to_thread(spare.stop)
    app = build_app(
        Settings.load(
            {"WARPLOOM_HOME": str(tmp_path), "WARPLOOM_DATABASE_URL": spare.url, "WARPLOOM_REDIS_URL": "none"}
        )
    )
    start = asyncio.create_task(app.start(patience=60))
    await asyncio.sleep(0)
    await asyncio.to_thread(spare.start)
    await start
    await app.cards.survey()
    await app.stop()


async def test_a_server_whose_database_never_comes_gives_up(tmp_path: Path) -> None:
    app = build_app(
        Settings.load({"WARPLOOM_HOME": str(tmp_path), "WARPLOOM_DATABASE_URL": f"postgresql://x@/x?host={tmp_path}"})
    )
    with pytest.raises(Unreachable):
        await app.start(patience=0)


async def test_an_exhausted_pool_is_busy_within_its_deadline_and_recovers(
    open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "ACQUIRE_SECONDS", 0.05)
    lab = Lab(await open_app(pool_size=2))
    await lab.host()
    agent = await lab.agent()
    async with lab.app.database.connection(), lab.app.database.connection():
        with pytest.raises(Busy, match="Every database connection is in use") as refusal:
            await lab.request(agent)
        assert "Try again in 2 seconds" in refusal.value.next_step
    assert (await lab.request(agent)).state is Standing.ACTIVE


def test_the_deadline_of_an_acquire_leaves_a_tool_its_two_seconds() -> None:
    assert database_module.ACQUIRE_SECONDS <= 2.0


async def test_a_cancelled_caller_gives_its_connection_back(open_app: Any, sql: Sql) -> None:
    lab = Lab(await open_app(pool_size=2))
    await lab.host()
    agent = await lab.agent()
    for _ in range(5):
        async with sql.transaction():
            await sql.execute("select id from card for no key update")
            request = asyncio.create_task(lab.request(agent))
            await somebody_waits(sql)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
    held = await lab.request(agent)
    assert held.state is Standing.ACTIVE
    await lab.app.leases.release(agent, lease_of(held))


async def test_a_statement_that_takes_too_long_is_busy(
    open_app: Any, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "STATEMENT_SECONDS", 0.2)
    lab = Lab(await open_app())
    await lab.host()
    agent = await lab.agent()
    async with sql.transaction():
        await sql.execute("select id from card for no key update")
        with pytest.raises(Busy, match="too long"):
            await lab.request(agent)
    assert (await lab.request(agent)).state is Standing.ACTIVE


async def test_a_server_without_connections_to_spare_is_busy(database_url: str, sql: Sql) -> None:
    await sql.execute("create role few login password 'few' connection limit 1")
    try:
        parts = urlsplit(database_url)
        url = urlunsplit(parts._replace(netloc=f"few:few@{parts.netloc.rpartition('@')[2]}"))
        database = Database(url, size=3)
        await database.open()
        async with database.connection():
            with pytest.raises(Busy):
                async with database.connection():
                    pass
        await database.close()
    finally:
        await sql.execute("drop role few")


async def test_a_deadlock_is_busy_and_changes_nothing(open_app: Any, sql: Sql) -> None:
    lab = Lab(await open_app())
    await lab.host()
    await sql.execute("set deadlock_timeout = '10min'")
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("select id from card where id = 2 for update")

    async def other() -> None:
        async with lab.app.database.transaction() as conn:
            await conn.execute("set local deadlock_timeout = '10ms'")
            await conn.execute("select id from card where id = 1 for update")
            await conn.execute("select id from card where id = 2 for update")

    victim = asyncio.create_task(other())
    await somebody_waits(sql)
    crossing = asyncio.create_task(sql.execute("select id from card where id = 1 for update"))
    with pytest.raises(Busy, match="Two changes met"):
        await victim
    await crossing
    await transaction.rollback()
