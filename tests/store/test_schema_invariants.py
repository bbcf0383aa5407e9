import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from support.rows import Sql, add_card, add_edge, add_host, add_lease, add_session, add_ticket, add_work, claim
from warploom.domain.cards import Condition, Service
from warploom.domain.deliveries import DeliveryWay
from warploom.domain.errands import ErrandKind
from warploom.domain.etas import EtaWord
from warploom.domain.failures import FailureClass
from warploom.domain.leases import EnvStyle, LeaseEnd, LeaseState
from warploom.domain.proposals import ProposalKind, ProposalState
from warploom.domain.tasks import Priority, TaskKind, TaskState

FINISHED = ["done", "failed", "cancelled", "dead_letter"]


@pytest.fixture
async def card(sql: Sql) -> int:
    await add_session(sql)
    return await add_card(sql, await add_host(sql))


@pytest.mark.parametrize(
    ("type_name", "values"),
    [
        ("task_state", TaskState),
        ("task_kind", TaskKind),
        ("lease_state", LeaseState),
        ("lease_end", LeaseEnd),
        ("failure_class", FailureClass),
        ("env_style", EnvStyle),
        ("errand_kind", ErrandKind),
        ("proposal_kind", ProposalKind),
        ("proposal_state", ProposalState),
        ("delivery_way", DeliveryWay),
        ("card_service", Service),
        ("card_condition", Condition),
    ],
)
async def test_the_words_of_the_schema_are_those_of_the_domain(schema: Sql, type_name: str, values: Any) -> None:
    labels = await schema.fetchval(f"select enum_range(null::{type_name})::text[]")
    assert labels == [value.value for value in values]


async def test_every_type_of_the_schema_is_held_against_the_domain(schema: Sql) -> None:
    types = await schema.fetch("select typname from pg_type where typtype = 'e' order by 1")
    assert [row["typname"] for row in types] == [
        "card_condition",
        "card_service",
        "delivery_way",
        "env_style",
        "errand_kind",
        "failure_class",
        "lease_end",
        "lease_state",
        "proposal_kind",
        "proposal_state",
        "task_kind",
        "task_state",
    ]


async def test_priorities_and_eta_words_of_the_schema_are_those_of_the_domain(sql: Sql) -> None:
    for priority in Priority:
        await add_ticket(sql, priority=int(priority))
    with pytest.raises(asyncpg.CheckViolationError):
        await add_ticket(sql, priority=3)
    promise = "insert into promise (task_id, lease_id, word, p50, p90) values (1, 1, $1, clock_now(), clock_now())"
    for word in set(EtaWord) - {EtaWord.UNKNOWN}:
        await sql.execute(promise, word.value)
    with pytest.raises(asyncpg.CheckViolationError):
        await sql.execute(promise, EtaWord.UNKNOWN.value)


async def test_a_card_has_one_live_lease(sql: Sql, card: int) -> None:
    await claim(sql, await add_ticket(sql), [card])
    with pytest.raises(asyncpg.UniqueViolationError, match="lease_card_live"):
        await claim(sql, await add_ticket(sql), [card], state="offered")


async def test_a_task_has_one_live_lease(sql: Sql, card: int) -> None:
    task = await add_ticket(sql)
    await claim(sql, task, [card])
    with pytest.raises(asyncpg.UniqueViolationError, match="lease_task"):
        await add_lease(sql, task)


async def test_a_card_whose_lease_has_ended_may_have_another(sql: Sql, card: int) -> None:
    await release(sql, await claim(sql, await add_ticket(sql), [card]))
    await claim(sql, await add_ticket(sql), [card])
    assert await sql.fetch("select lease_id, live from lease_card order by 1") == [(1, False), (2, True)]


async def test_a_claimed_task_has_a_live_lease_of_its_own_when_it_is_committed(sql: Sql, card: int) -> None:
    mine, other = await add_ticket(sql), await add_ticket(sql)
    lease = await claim(sql, other, [card])
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="task_lease"):
        await sql.execute("update task set state = 'claimed', lease_id = $2 where id = $1", mine, lease)
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="task_lease"):
        await sql.execute("update task set state = 'claimed', lease_id = 999 where id = $1", mine)


async def test_a_live_lease_has_its_claimed_task_when_it_is_committed(sql: Sql, card: int) -> None:
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="lease_claims"):
        await add_lease(sql, await add_ticket(sql))
    task = await add_ticket(sql)
    await claim(sql, task, [card])
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="lease_claims"):
        await sql.execute("update task set state = 'ready', lease_id = null where id = $1", task)


async def test_a_lease_cannot_end_while_its_task_is_claimed_with_it(sql: Sql, card: int) -> None:
    lease = await claim(sql, await add_ticket(sql), [card])
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="task_lease"):
        await sql.execute(
            "update lease set state = 'ended', ended = 'released', ended_at = clock_now() where id = $1", lease
        )


async def test_a_lease_that_has_ended_holds_no_card(sql: Sql, card: int) -> None:
    lease = await claim(sql, await add_ticket(sql), [card])
    await release(sql, lease)
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await sql.execute("update lease_card set live = true where lease_id = $1", lease)
    other = await add_card(sql, 1, index=1)
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await sql.execute("insert into lease_card (lease_id, card_id) values ($1, $2)", lease, other)


@pytest.mark.parametrize(
    "change",
    [
        "state = 'ended'",
        "state = 'ended', ended_at = clock_now()",
        "state = 'ended', ended = 'released'",
        "ended_at = clock_now()",
        "ended = 'released'",
        "accepted_at = null",
        "state = 'offered'",
        "expires_at = null",
    ],
)
async def test_the_columns_of_a_lease_agree_with_its_state(sql: Sql, card: int, change: str) -> None:
    lease = await claim(sql, await add_ticket(sql), [card])
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await sql.execute(f"update lease set {change} where id = $1", lease)


async def test_an_offer_has_not_been_accepted(sql: Sql, card: int) -> None:
    lease = await claim(sql, await add_ticket(sql), [card], state="offered")
    with pytest.raises(asyncpg.CheckViolationError):
        await sql.execute("update lease set accepted_at = clock_now() where id = $1", lease)


@pytest.mark.parametrize("state", FINISHED)
async def test_a_finished_task_has_a_finish_time(sql: Sql, state: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await add_ticket(sql, state=state)


@pytest.mark.parametrize("state", [state.value for state in TaskState if state.value not in FINISHED])
async def test_an_unfinished_task_has_none(sql: Sql, state: str) -> None:
    now = await sql.fetchval("select clock_now()")
    with pytest.raises(asyncpg.CheckViolationError):
        await add_ticket(sql, state=state, finished_at=now)


async def test_a_finished_task_has_no_lease(sql: Sql, card: int) -> None:
    task = await add_ticket(sql)
    await claim(sql, task, [card])
    with pytest.raises(asyncpg.CheckViolationError):
        await sql.execute("update task set state = 'done', finished_at = clock_now() where id = $1", task)


async def test_a_ready_task_has_its_place_in_the_order_and_nothing_unmet(sql: Sql) -> None:
    for facts in ({"unmet": 1}, {"ready_at": None}, {"order_key": None}):
        with pytest.raises(asyncpg.CheckViolationError):
            await add_ticket(sql, **facts)


async def test_only_a_blocked_task_is_parked(sql: Sql) -> None:
    now = await sql.fetchval("select clock_now()")
    await add_ticket(sql, state="blocked", parked_at=now)
    with pytest.raises(asyncpg.CheckViolationError):
        await add_ticket(sql, parked_at=now)


async def test_a_purpose_is_open_once_for_an_agent(sql: Sql) -> None:
    agent, _ = await add_session(sql)
    await add_ticket(sql, agent_id=agent, purpose="eval")
    with pytest.raises(asyncpg.UniqueViolationError, match="task_purpose"):
        await add_ticket(sql, agent_id=agent, purpose="eval")
    now = await sql.fetchval("select clock_now()")
    await sql.execute("update task set state = 'cancelled', finished_at = $1", now)
    await add_ticket(sql, agent_id=agent, purpose="eval")


@pytest.mark.parametrize(
    "facts",
    [
        {"need_count": 0},
        {"need_count": 65},
        {"need_cards": [1, 2]},
        {"need_memory_mib": 0},
        {"need_model": ""},
        {"run_time": timedelta(0)},
        {"run_time": timedelta(seconds=-1)},
        {"attempts": -1},
        {"missed_offers": -1},
        {"unmet": -1, "state": "pending"},
    ],
)
async def test_a_need_that_makes_no_sense_is_refused(sql: Sql, facts: dict[str, Any]) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await add_ticket(sql, **facts)


async def test_every_text_column_has_a_limit_or_a_list_of_words(schema: Sql) -> None:
    columns = await schema.fetch(
        """
        select attrelid::regclass::text as table, attname as column from pg_attribute
        join pg_class on pg_class.oid = attrelid
        where relkind = 'r' and relnamespace = 'public'::regnamespace and attnum > 0 and atttypid = 'text'::regtype
          and not exists (
            select from pg_constraint where conrelid = attrelid and contype = 'c' and conkey = array[attnum]
          )
        order by 1, 2
        """
    )
    assert [tuple(row) for row in columns] == []


@pytest.mark.parametrize("column", ["title", "purpose", "context", "done_when", "outcome", "need_model"])
async def test_a_megabyte_of_text_is_refused(sql: Sql, column: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await add_ticket(sql, **{column: "x" * 1_000_000})


async def test_a_task_does_not_wait_for_itself(sql: Sql) -> None:
    task = await add_work(sql)
    with pytest.raises(asyncpg.CheckViolationError):
        await add_edge(sql, task, task)


async def test_a_cycle_is_refused_with_its_path(sql: Sql) -> None:
    one, two, three = [await add_work(sql) for _ in range(3)]
    await add_edge(sql, one, two)
    await add_edge(sql, two, three)
    with pytest.raises(asyncpg.CheckViolationError) as refusal:
        await add_edge(sql, three, one)
    assert getattr(refusal.value, "constraint_name", None) == "dependency_acyclic"
    assert str(refusal.value) == f"cycle: T-{one} -> T-{two} -> T-{three} -> T-{one}"


async def test_a_cycle_within_one_statement_is_refused(sql: Sql) -> None:
    one, two = await add_work(sql), await add_work(sql)
    with pytest.raises(asyncpg.CheckViolationError, match="cycle: T-"):
        await sql.execute("insert into dependency (task_id, upstream_id) values ($1, $2), ($2, $1)", one, two)
    assert await sql.fetchval("select count(*) from dependency") == 0


async def test_an_edge_cannot_be_turned_into_a_cycle(sql: Sql) -> None:
    one, two, three = [await add_work(sql) for _ in range(3)]
    await add_edge(sql, one, two)
    await add_edge(sql, three, two)
    with pytest.raises(asyncpg.CheckViolationError, match="cycle: T-"):
        await sql.execute("update dependency set task_id = $2, upstream_id = $1 where task_id = $3", one, two, three)


async def test_an_edge_stays_within_a_project(sql: Sql) -> None:
    other = await sql.fetchval("insert into project (name) values ('other') returning id")
    here, there = await add_work(sql), await add_work(sql, project=other)
    with pytest.raises(asyncpg.CheckViolationError) as refusal:
        await add_edge(sql, here, there)
    assert getattr(refusal.value, "constraint_name", None) == "dependency_project"


async def test_two_edges_that_only_together_are_a_cycle_cannot_both_commit(sql: Sql, database_url: str) -> None:
    one, two = await add_work(sql), await add_work(sql)
    other = await asyncpg.connect(database_url)
    try:
        async with sql.transaction():
            await add_edge(sql, one, two)
            second = asyncio.create_task(add_edge(other, two, one))
            await blocked(sql, other)
        with pytest.raises(asyncpg.CheckViolationError, match="cycle: T-"):
            await second
    finally:
        await other.close()


async def test_a_graph_of_very_many_paths_is_checked_at_once(sql: Sql) -> None:
    """Forty diamonds in a row have a million million paths; every one of them leads somewhere new only once."""
    tasks = [await add_work(sql) for _ in range(121)]
    edges = [
        (tasks[3 * row + end], tasks[3 * row + start])
        for row in range(40)
        for start, end in ((0, 1), (0, 2), (1, 3), (2, 3))
    ]
    async with asyncio.timeout(20):
        await sql.executemany("insert into dependency (task_id, upstream_id) values ($1, $2)", edges[:-4])
        await sql.copy_records_to_table("dependency", records=edges[-4:], columns=["task_id", "upstream_id"])
        with pytest.raises(asyncpg.CheckViolationError, match=r"cycle: T-121 -> T-119 -> .* -> T-1 -> T-121$"):
            await add_edge(sql, tasks[0], tasks[-1])


async def test_a_large_graph_is_checked_in_one_go(sql: Sql) -> None:
    await sql.execute(
        """
        insert into task (project_id, kind, state, title, ready_at, order_key)
        select 1, 'work', 'ready', 'work ' || number, now(), now() from generate_series(1, 10000) as number
        """
    )
    edges = {(task, max(1, task - step)) for task in range(2, 10_001) for step in (1, 7, 300)}
    async with asyncio.timeout(20):
        await sql.copy_records_to_table("dependency", records=edges, columns=["task_id", "upstream_id"])
        with pytest.raises(asyncpg.CheckViolationError, match="cycle: T-"):
            await add_edge(sql, 1, 10_000)


async def test_a_task_may_be_written_with_the_count_of_its_first_edges(sql: Sql) -> None:
    one, two = await add_work(sql), await add_work(sql)
    waiting = await add_ticket(sql, kind="work", need_count=0, state="pending", unmet=2)
    before = await sql.fetchval("select ctid from task where id = $1", waiting)
    await sql.copy_records_to_table(
        "dependency", records=[(waiting, one), (waiting, two)], columns=["task_id", "upstream_id"]
    )
    assert await sql.fetchval("select ctid from task where id = $1", waiting) == before
    assert await counter(sql, waiting) == ("pending", 2)


@pytest.mark.parametrize("written", [{"unmet": 7, "state": "pending"}, {}])
async def test_a_wrong_count_is_put_right_by_the_first_edges(sql: Sql, written: dict[str, Any]) -> None:
    done, upstream = await add_work(sql), await add_work(sql)
    await sql.execute("update task set state = 'done', finished_at = now() where id = $1", done)
    waiting = await add_ticket(sql, kind="work", need_count=0, **({"state": "ready"} | written))
    edges = [(waiting, done), (waiting, upstream)]
    await sql.copy_records_to_table("dependency", records=edges, columns=["task_id", "upstream_id"])
    assert await counter(sql, waiting) == ("pending", 1)


async def test_later_edges_are_added_to_the_count(sql: Sql) -> None:
    waiting, upstreams = await add_work(sql), [await add_work(sql) for _ in range(5)]
    for some in (upstreams[:2], upstreams[2:]):
        records = [(waiting, upstream) for upstream in some]
        await sql.copy_records_to_table("dependency", records=records, columns=["task_id", "upstream_id"])
    assert await counter(sql, waiting) == ("pending", 5)


async def counter(sql: Sql, task: int) -> tuple[str, int]:
    row = await sql.fetchrow("select state::text, unmet from task where id = $1", task)
    return row["state"], row["unmet"]


async def release(sql: Sql, lease: int) -> None:
    async with sql.transaction():
        await sql.execute(
            "update lease set state = 'ended', ended = 'released', ended_at = clock_now() where id = $1", lease
        )
        await sql.execute(
            "update task set state = 'done', lease_id = null, finished_at = clock_now() where lease_id = $1", lease
        )


async def blocked(watcher: Sql, waiting: Sql) -> None:
    """Return once a connection waits for a lock."""
    await until(
        lambda: watcher.fetchval(
            "select wait_event_type = 'Lock' from pg_stat_activity where pid = $1", waiting.get_server_pid()
        )
    )


async def until(question: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(20):
        while not await question():
            await asyncio.sleep(0.01)
