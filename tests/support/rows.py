"""Rows written past every service, for tests of what the schema itself holds."""

from typing import Any, TypeAlias

Sql: TypeAlias = Any
"""An asyncpg connection; its rows and values are whatever the statement gives."""


async def add_host(sql: Sql, name: str = "local") -> int:
    return await sql.fetchval(
        "insert into host (name, provider, version, survey_seconds, surveyed_at) values ($1, 'lab', '0', 2, clock_now()) returning id",
        name,
    )


async def add_card(sql: Sql, host: int, index: int = 0) -> int:
    return await sql.fetchval(
        """
        insert into card (host_id, uuid, index, model, memory_mib, condition, condition_since, observed_at)
        values ($1, $2, $3, 'H200', 144384, 'clear', clock_now(), clock_now())
        returning id
        """,
        host,
        f"GPU-{host}-{index}",
        index,
    )


async def add_session(sql: Sql, name: str = "claude-1") -> tuple[int, int]:
    """Return the agent and its session."""
    agent = await sql.fetchval("insert into agent (name) values ($1) returning id", name)
    session = await sql.fetchval(
        "insert into session (agent_id, project_id, key) values ($1, 1, $2) returning id", agent, f"named:{name}"
    )
    return agent, session


async def add_ticket(sql: Sql, **facts: Any) -> int:
    """Insert a ready ticket for one card; keywords replace columns."""
    row: dict[str, Any] = {"project_id": 1, "kind": "gpu", "state": "ready", "title": "train", "need_count": 1} | facts
    if row["state"] == "ready":
        now = await sql.fetchval("select clock_now()")
        row = {"ready_at": now, "order_key": now} | row
    columns = ", ".join(row)
    values = ", ".join(f"${place}" for place in range(1, len(row) + 1))
    return await sql.fetchval(f"insert into task ({columns}) values ({values}) returning id", *row.values())


async def add_work(sql: Sql, title: str = "work", project: int = 1) -> int:
    """Insert a ready task that needs no card."""
    return await add_ticket(sql, kind="work", title=title, need_count=0, project_id=project)


async def claim(sql: Sql, task: int, cards: list[int], *, state: str = "active") -> int:
    """Give a ready task a live lease on cards, in one transaction."""
    async with sql.transaction():
        lease = await add_lease(sql, task, state=state)
        for card in cards:
            await sql.execute("insert into lease_card (lease_id, card_id) values ($1, $2)", lease, card)
        await sql.execute("update task set state = 'claimed', lease_id = $2 where id = $1", task, lease)
    return lease


async def add_lease(sql: Sql, task: int, *, state: str = "active") -> int:
    """Insert a lease alone, as the first session of the first agent."""
    agent, session = await sql.fetchrow("select agent_id, id from session order by id limit 1")
    return await sql.fetchval(
        """
        insert into lease (task_id, session_id, agent_id, state, accepted_at, expires_at)
        values ($1, $2, $3, $4::text::lease_state, case when $4 = 'active' then clock_now() end, clock_now() + interval '10 minutes')
        returning id
        """,
        task,
        session,
        agent,
        state,
    )


async def add_edge(sql: Sql, task: int, upstream: int) -> None:
    """Let a task wait for another."""
    await sql.execute("insert into dependency (task_id, upstream_id) values ($1, $2)", task, upstream)


async def whole_database(sql: Sql) -> dict[str, list[Any]]:
    """Return every row of every table but those that only say somebody was heard, to compare before and after."""
    tables = await sql.fetch(
        """
        select relname from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where relkind = 'r' and nspname = 'public' and relname not in ('heartbeat', 'moved_clock')
        order by relname
        """
    )
    return {
        table["relname"]: await sql.fetch(f"select * from {table['relname']} order by {table['relname']}::text")
        for table in tables
    }
