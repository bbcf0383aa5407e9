"""What must hold in a database after anything: asked in SQL, past every service."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import asyncpg

T = TypeVar("T")

_LOST = """
with recursive lost (id) as (
  select id from task where state in ('cancelled', 'dead_letter')
), behind (id) as (
  select dependency.task_id from lost join dependency on dependency.upstream_id = lost.id and not dependency.waived
  union
  select dependency.task_id from behind join dependency on dependency.upstream_id = behind.id and not dependency.waived
  join task on task.id = behind.id and (task.state = 'pending' or task.culprit_id is not null)
)
"""

_RULES = {
    "a card has two live leases": "select card_id from lease_card where live group by card_id having count(*) > 1",
    "a card's lease and the lease disagree": """
        select lease_card.lease_id from lease_card join lease on lease.id = lease_card.lease_id
        where lease_card.live <> (lease.state <> 'ended')
    """,
    "a live lease of a task that needs cards has none": """
        select lease.id from lease join task on task.id = lease.task_id
        where lease.state <> 'ended' and task.need_count > 0
          and not exists (select from lease_card where lease_id = lease.id)
    """,
    "a claimed task has no live lease of its own": """
        select task.id from task left join lease on lease.id = task.lease_id and lease.task_id = task.id
        where task.state = 'claimed' and coalesce(lease.state, 'ended') = 'ended'
    """,
    "a live lease has no claimed task": """
        select lease.id from lease join task on task.id = lease.task_id
        where lease.state <> 'ended' and (task.state <> 'claimed' or task.lease_id is distinct from lease.id)
    """,
    "a task counts its open upstream tasks wrong": """
        select task.id
        from task
        left join dependency on dependency.task_id = task.id and not dependency.waived
        left join task as upstream on upstream.id = dependency.upstream_id and upstream.state <> 'done'
        group by task.id
        having task.unmet <> count(upstream.id)
    """,
    "a task may be claimed before what it depends on is done": """
        select task.id from task
        join dependency on dependency.task_id = task.id and not dependency.waived
        join task as upstream on upstream.id = dependency.upstream_id
        where task.state in ('ready', 'claimed') and upstream.state <> 'done'
    """,
    "a task waits for nothing and is not ready": """
        select id from task
        where state = 'pending' and unmet = 0 and not (
          kind = 'epic'
          and not exists (select from task as child where child.parent_id = task.id and child.state <> 'cancelled')
        )
    """,
    "a task waits for what will not be done and is not blocked": f"""
        {_LOST} select id from task where state = 'pending' and id in (select id from behind)
    """,
    "a task is blocked by what does not hold it up": f"""
        {_LOST} select id from task
        where culprit_id is not null and (
          id not in (select id from behind)
          or culprit_id not in (select id from task where state in ('cancelled', 'dead_letter'))
        )
    """,
    "a task depends on itself in the end": """
        with recursive above (start, id) as (
          select task_id, upstream_id from dependency
          union
          select above.start, dependency.upstream_id from above join dependency on dependency.task_id = above.id
        )
        select start from above where start = id
    """,
    "a ready ticket stands in no queue": """
        select id from task
        where state = 'ready' and need_count > 0 and session_id is not null and not exists (select from queue where task_id = task.id)
    """,
    "a queue holds what is no ready ticket, or at another place": """
        select task.id from queue join task on task.id = queue.task_id
        where task.state <> 'ready' or queue.order_key <> task.order_key
    """,
    "a lease of cards has not exactly one event of its grant": """
        select lease.id from lease join task on task.id = lease.task_id
        where task.need_count > 0
          and 1 <> (select count(*) from event where lease_id = lease.id and kind in ('lease.granted', 'lease.offered'))
    """,
    "a lease without cards has not exactly one event of its claim": """
        select lease.id from lease join task on task.id = lease.task_id
        where task.need_count = 0
          and 1 <> (select count(*) from event where lease_id = lease.id and kind = 'task.claimed')
    """,
    "a lease of a gpu request has not exactly one event of its end": """
        select lease.id from lease join task on task.id = lease.task_id
        where task.kind = 'gpu' and (case when lease.state = 'ended' then 1 else 0 end) <> (
          select count(*) from event
          where lease_id = lease.id and kind in ('lease.released', 'lease.expired', 'lease.lapsed', 'lease.withdrawn')
        )
    """,
    "an offer was accepted more or less than once": """
        select lease.id from lease
        where exists (select from event where lease_id = lease.id and kind = 'lease.offered')
          and (case when accepted_at is null then 0 else 1 end)
            <> (select count(*) from event where lease_id = lease.id and kind = 'lease.accepted')
    """,
    "a card was granted to another than its owner in a reservation's window": """
        select lease.id from lease
        join lease_card on lease_card.lease_id = lease.id
        join reservation on reservation.card_id = lease_card.card_id and reservation.agent_id <> lease.agent_id
        where lease.granted_at > greatest(reservation.created_at, reservation.starts_at) + interval '5 seconds'
          and lease.granted_at < least(reservation.ends_at, reservation.given_up_at)
    """,
    "a run was granted before a reservation's window that does not end by its start": """
        select lease.id from lease
        join task on task.id = lease.task_id
        join lease_card on lease_card.lease_id = lease.id
        join reservation on reservation.card_id = lease_card.card_id and reservation.agent_id <> lease.agent_id
        where lease.granted_at between reservation.created_at + interval '5 seconds' and reservation.starts_at
          and lease.granted_at < least(reservation.starts_at, reservation.given_up_at)
          and (task.run_time is null or lease.granted_at + task.run_time > reservation.starts_at)
    """,
    "a ticket has not exactly one event of its coming": """
        select task.id from task
        where kind = 'gpu' and 1 <> (select count(*) from event where task_id = task.id and kind = 'ticket.queued')
    """,
}


async def broken_rules(conn: Any) -> dict[str, list[int]]:
    """Return what does not hold, with the numbers of what it does not hold for."""
    found = {rule: [row[0] for row in await conn.fetch(query)] for rule, query in _RULES.items()}
    return {rule: numbers for rule, numbers in found.items() if numbers}


def ask(url: str, query: str, *values: object) -> list[dict[str, Any]]:
    """Return the rows of one query, over a connection of its own."""
    return [dict(row) for row in _in_thread(_connected(url, lambda conn: conn.fetch(query, *values)))]


def assert_whole(url: str) -> None:
    """Fail when anything that must hold does not."""
    assert _in_thread(_connected(url, broken_rules)) == {}


async def _connected(url: str, work: Callable[[Any], Awaitable[T]]) -> T:
    conn = await asyncpg.connect(url, timeout=20)
    try:
        return await work(conn)
    finally:
        await conn.close()


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where a loop runs already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
