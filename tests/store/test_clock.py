from datetime import timedelta

from support.databases import Clock
from support.rows import Sql


async def test_the_clock_is_the_transactions_and_stands_still_within_it(schema: Sql) -> None:
    async with schema.transaction():
        first = await schema.fetchval("select clock_now()")
        assert first == await schema.fetchval("select now()")
        await schema.execute("select pg_sleep(0.002)")
        assert await schema.fetchval("select clock_now()") == first


async def test_a_session_may_move_its_own_clock(schema: Sql) -> None:
    await schema.execute("set warploom.clock_offset = '2 hours'")
    assert await schema.fetchval("select clock_now() - now()") == timedelta(hours=2)
    await schema.execute("reset warploom.clock_offset")
    assert await schema.fetchval("select clock_now() - now()") == timedelta(0)


async def test_a_moved_clock_is_moved_for_connections_that_are_open_already(sql: Sql, clock: Clock) -> None:
    clock.advance(minutes=3)
    clock.advance(seconds=5)
    assert await sql.fetchval("select clock_now() - now()") == timedelta(minutes=3, seconds=5)


async def test_the_clock_keeps_index_conditions(schema: Sql) -> None:
    await schema.execute("set enable_seqscan = off")
    plan = await schema.fetch("explain select id from event where at < clock_now() - interval '1 day'")
    assert "Index Cond" in "\n".join(row[0] for row in plan)
