"""The queues of cards: who waits, in order, and the statement that grants."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString

from warploom.domain.histories import length_of
from warploom.domain.identifiers import AgentId, CardId, HostId, LeaseId, ProjectId, SessionId, TaskId
from warploom.domain.queues import Grant, Waiting
from warploom.store.database import Connection, Record

DEPTH: Final = 200

_HEADS: Final[LiteralString] = """
with heads as (
  select head.task_id
  from card
  cross join lateral (
    select queue.task_id from queue where queue.card_id = card.id order by queue.order_key, queue.task_id limit $2
  ) as head
  where card.host_id = any($1::bigint[])
  union
  select own.task_id
  from card
  join reservation on reservation.card_id = card.id
  cross join lateral (
    select queue.task_id
    from task join queue on queue.task_id = task.id and queue.card_id = card.id
    where task.agent_id = reservation.agent_id and task.state in ('ready', 'claimed', 'blocked')
    order by queue.order_key, queue.task_id
    limit $2
  ) as own
  where card.host_id = any($1::bigint[]) and reservation.over_at is null and reservation.given_up_at is null
    and reservation.starts_at <= clock_now() and reservation.ends_at > clock_now()
)
select task.id, task.need_count, task.run_time, task.past_lengths, task.title, task.agent_id, agent.name as agent,
  task.priority, task.ready_at, task.order_key, task.need_resources,
  array(select queue.card_id from queue where queue.task_id = task.id) as candidates
from heads
join task on task.id = heads.task_id
join agent on agent.id = task.agent_id
where task.state = 'ready'
  and (
    task.need_resources = '{}'
    or not exists (select from lease_resource where lease_resource.live and lease_resource.name = any(task.need_resources))
  )
order by task.order_key, task.id
"""

_LENGTHS: Final[LiteralString] = """
select card.id, (select count(*) from queue where queue.card_id = card.id) as waiting
from card
where $1::bigint[] is null or card.id = any($1::bigint[])
"""

_TOTAL: Final[LiteralString] = """
select count(*) as waiting, min(ready_at) as oldest from task where state = 'ready' and need_count > 0 and session_id is not null
"""

_PLACES: Final[LiteralString] = """
select card_id, 1 + (
  select count(*) from queue as ahead
  where ahead.card_id = own.card_id and (ahead.order_key, ahead.task_id) < (own.order_key, own.task_id)
) as place
from queue as own
where own.task_id = $1
"""

_FIRSTS: Final[LiteralString] = """
select max(first.order_key)
from unnest($1::bigint[]) as card_id
cross join lateral (
  select queue.order_key from queue where queue.card_id = card_id.card_id order by queue.order_key, queue.task_id limit 1
) as first
"""

_GRANT: Final[LiteralString] = """
with taken as (
  select id, project_id, session_id, agent_id, title, run_time, need_resources from task
  where id = $1 and state = 'ready' and session_id is not null
  for update skip locked
), granted as (
  insert into lease (task_id, session_id, agent_id, state, accepted_at, delivered_at, delivered_by, expected_end, expires_at)
  select id, session_id, agent_id,
    case when $3 then 'active' else 'offered' end::lease_state,
    case when $3 then clock_now() end,
    case when $3 then clock_now() end,
    case when $3 then 'answer' end::delivery_way,
    case when $3 then clock_now() + run_time end,
    clock_now() + $4::interval
  from taken
  returning id, task_id, expires_at
), held as (
  insert into lease_card (lease_id, card_id) select granted.id, card_id from granted, unnest($2::bigint[]) as card_id
), claimed as (
  update task set state = 'claimed', lease_id = granted.id, attempts = attempts + case when $3 then 1 else 0 end
  from granted
  where task.id = granted.task_id
), resources as (
  insert into lease_resource (lease_id, name) select granted.id, unnest(taken.need_resources) from granted, taken
), gone as (
  delete from queue where task_id in (select id from taken)
), kept as (
  update promise set came_at = clock_now()
  from taken
  where promise.task_id = taken.id and promise.lease_id is null and promise.came_at is null
)
select granted.id as lease, granted.expires_at, taken.id as task, taken.project_id, taken.session_id, taken.agent_id,
  taken.title, agent.name as agent
from granted
join taken on taken.id = granted.task_id
join agent on agent.id = taken.agent_id
"""

_WIDEN: Final[LiteralString] = """
select task.id, task.need_count, task.need_memory_mib, task.need_model, task.need_capabilities, standing.candidates
from task cross join lateral (
  select array(select queue.card_id from queue where queue.task_id = task.id) as candidates
) as standing
where task.state = 'ready' and task.need_count > 0 and task.session_id is not null and cardinality(task.need_cards) = 0
  and cardinality(standing.candidates) > 0
"""

_WORK: Final[LiteralString] = """
select distinct card.host_id
from card
where card.service = 'in_service' and card.condition = 'clear'
  and exists (select from queue where queue.card_id = card.id)
  and not exists (select from lease_card where lease_card.card_id = card.id and lease_card.live)
order by card.host_id
"""


@dataclass(frozen=True, slots=True)
class Head:
    """A waiting ticket as queues show it."""

    waiting: Waiting
    declared: timedelta | None
    title: str
    agent: str
    priority: int
    ready_at: datetime
    order_key: datetime
    resources: frozenset[str]


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease that was just made."""

    lease: LeaseId
    task: TaskId
    project: ProjectId
    session: SessionId
    agent: AgentId
    agent_name: str
    title: str
    cards: tuple[CardId, ...]
    expires_at: datetime
    is_active: bool


@dataclass(frozen=True, slots=True)
class OpenNeed:
    """A waiting ticket that takes any card that fits, and the cards in whose queues it stands."""

    task: TaskId
    count: int
    memory_mib: int | None
    model: str | None
    capabilities: frozenset[str]
    candidates: frozenset[CardId]


async def read_heads(conn: Connection, hosts: Sequence[HostId], depth: int = DEPTH) -> list[Head]:
    """Read the first `depth` tickets of each card's queue on these hosts, all in one order: stored key, then number.

    With those of the agent for whom a card is reserved now, wherever they stand.
    """
    rows = await conn.fetch(_HEADS, list(hosts), depth)
    return [
        Head(
            _waiting(row),
            row["run_time"],
            row["title"],
            row["agent"],
            row["priority"],
            row["ready_at"],
            row["order_key"],
            frozenset(row["need_resources"]),
        )
        for row in rows
    ]


def _waiting(row: Record) -> Waiting:
    usual = length_of(row["past_lengths"])
    return Waiting(
        TaskId(row["id"]),
        row["need_count"],
        frozenset(map(CardId, row["candidates"])),
        row["run_time"] or (usual.p90 if usual else None),
        AgentId(row["agent_id"]),
        usual=usual,
    )


async def queue_lengths(conn: Connection, cards: Sequence[CardId] | None = None) -> dict[CardId, int]:
    """Count the tickets in the queue of each of these cards, of every card when None."""
    rows = await conn.fetch(_LENGTHS, None if cards is None else list(cards))
    return {CardId(row["id"]): row["waiting"] for row in rows}


async def count_waiting(conn: Connection) -> tuple[int, datetime | None]:
    """Count all waiting tickets and return since when the oldest waits."""
    row = await conn.fetchrow(_TOTAL)
    return (row["waiting"], row["oldest"]) if row else (0, None)


async def places_of(conn: Connection, task: TaskId) -> dict[CardId, int]:
    """Return a ticket's place in each queue it stands in, from 1."""
    return {CardId(row["card_id"]): row["place"] for row in await conn.fetch(_PLACES, task)}


async def last_of_firsts(conn: Connection, cards: Sequence[CardId]) -> datetime | None:
    """Return the order key of the first ticket in each of these queues that comes last; None when they are empty."""
    return await conn.fetchval(_FIRSTS, list(cards))


async def grant(conn: Connection, decision: Grant, *, is_active: bool, expires_in: timedelta) -> Granted | None:
    """Make the lease that was decided, in one statement; None when the ticket was taken or left meanwhile.

    The caller holds the locks of the cards. `is_active` is for a session that asks in this very call; everybody else
    gets an offer.
    """
    row = await conn.fetchrow(_GRANT, decision.task, list(decision.cards), is_active, expires_in)
    if row is None:
        return None
    return Granted(
        lease=LeaseId(row["lease"]),
        task=TaskId(row["task"]),
        project=ProjectId(row["project_id"]),
        session=SessionId(row["session_id"]),
        agent=AgentId(row["agent_id"]),
        agent_name=row["agent"],
        title=row["title"],
        cards=decision.cards,
        expires_at=row["expires_at"],
        is_active=is_active,
    )


async def open_needs(conn: Connection) -> list[OpenNeed]:
    """Read the waiting tickets that take any fitting card."""
    rows = await conn.fetch(_WIDEN)
    return [
        OpenNeed(
            TaskId(row["id"]),
            row["need_count"],
            row["need_memory_mib"],
            row["need_model"],
            frozenset(row["need_capabilities"]),
            frozenset(map(CardId, row["candidates"])),
        )
        for row in rows
    ]


async def hosts_with_work(conn: Connection) -> list[HostId]:
    """List hosts that have a clear card which somebody waits for."""
    return [HostId(row["host_id"]) for row in await conn.fetch(_WORK)]
