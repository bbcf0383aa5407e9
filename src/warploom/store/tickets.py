"""Tickets: tasks that wait for cards, from the request to their end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString

from warploom.domain.deliveries import Delivery, read_delivery
from warploom.domain.histories import Length, length_of
from warploom.domain.identifiers import AgentId, CardId, HostId, ProjectId, SessionId, TaskId
from warploom.domain.leases import EnvStyle, LeaseEnd, LeaseState
from warploom.domain.sessions import Actor
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.tickets import GpuRequest
from warploom.store.database import Connection, Record

_COLUMNS: Final[LiteralString] = """
  task.id, task.title, task.state::text, task.kind::text, task.priority, task.project_id, task.agent_id, agent.name as agent,
  task.session_id, task.need_capabilities, task.need_count, task.need_cards, task.need_memory_mib, task.need_model, task.env_style::text,
  task.run_time, task.past_lengths, task.ready_at, task.order_key, task.missed_offers, task.parked_at, task.outcome, task.finished_at,
  clock_now() as now,
  lease.id as lease_id, lease.state::text as lease_state, lease.expires_at, lease.ended::text as ended,
  lease.granted_at, lease.delivered_at, lease.delivered_by::text,
  array(select lease_card.card_id from lease_card where lease_card.lease_id = lease.id order by 1) as lease_cards,
  array(select queue.card_id from queue where queue.task_id = task.id order by 1) as candidates
"""

_FROM: Final[LiteralString] = """
from task
join agent on agent.id = task.agent_id
left join lateral (
  select * from lease where lease.task_id = task.id and (lease.id = task.lease_id or task.lease_id is null) order by lease.id desc limit 1
) as lease on true
"""

_GET: Final[LiteralString] = f"select {_COLUMNS} {_FROM} where task.id = $1 and task.need_count > 0"

_OPEN_OF_AGENT: Final[LiteralString] = f"""
select {_COLUMNS} {_FROM}
where task.agent_id = $1 and task.state in ('ready', 'claimed', 'blocked') and task.need_count > 0
order by task.id
limit 100
"""

_FIND: Final[LiteralString] = """
select id from task
where project_id = $1 and agent_id = $2 and purpose = $3 and state in ('pending', 'ready', 'claimed', 'blocked')
"""

_INSERT: Final[LiteralString] = """
insert into task (
  project_id, kind, state, title, purpose, priority, agent_id, session_id,
  need_count, need_cards, need_memory_mib, need_model, env_style, run_time, head_start, ready_at, order_key, creator_id
)
values (
  $1, 'gpu', 'ready', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::env_style, $12, $13, clock_now(), clock_now() - $13::interval, $5
)
on conflict (project_id, agent_id, purpose)
  where purpose is not null and state in ('pending', 'ready', 'claimed', 'blocked')
do nothing
returning id
"""

_ENQUEUE: Final[LiteralString] = """
insert into queue (card_id, order_key, task_id)
select card_id, task.order_key, task.id from task, unnest($2::bigint[]) as card_id where task.id = $1 and task.state = 'ready'
on conflict do nothing
"""

_DEQUEUE: Final[LiteralString] = "delete from queue where task_id = $1"

_LEAVE: Final[LiteralString] = """
update task set state = 'cancelled', finished_at = clock_now(), outcome = $2, parked_at = null
where id = $1 and state in ('ready', 'blocked')
returning id
"""

_PARK: Final[LiteralString] = """
update task set state = 'blocked', parked_at = clock_now(), outcome = $2 where id = $1 and state = 'ready' returning id
"""

_RESUME: Final[LiteralString] = """
with void as (
  delete from promise where task_id = $1 and lease_id is null and came_at is null
)
update task set state = 'ready', parked_at = null, outcome = null, missed_offers = 0
where id = $1 and state = 'blocked' and parked_at is not null
returning id
"""

_STAND_BEHIND: Final[LiteralString] = """
update task set order_key = greatest(order_key, $2::timestamptz + interval '1 microsecond') where id = $1 and state = 'ready'
"""

_BOUND: Final[LiteralString] = """
update task set run_time = $2 where id = $1 and state = 'ready' and run_time is null returning id
"""

_REMEMBER: Final[LiteralString] = """
update task set past_lengths = $2 where id = $1 and state = 'ready'
"""

_NOT_WAITING: Final[LiteralString] = "select id from task where id = any($1::bigint[]) and state <> 'ready'"

_STRAYS: Final[LiteralString] = """
select id from task
where state = 'ready' and need_count > 0 and session_id is not null and not exists (select from queue where queue.task_id = task.id)
order by order_key, id
limit 100
"""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket as the database has it. The lease is its live one, or its last one when it has ended."""

    task: TaskId
    title: str
    state: TaskState
    priority: int
    project: ProjectId
    agent: AgentId
    agent_name: str
    session: SessionId
    kind: TaskKind
    need_count: int
    need_cards: list[CardId]
    need_memory_mib: int | None
    need_model: str | None
    capabilities: frozenset[str]
    env_style: EnvStyle
    run: timedelta | None
    """What was declared."""
    past: list[timedelta]
    """How long earlier runs of the same purpose took."""
    ready_at: datetime
    order_key: datetime
    missed_offers: int
    is_parked: bool
    outcome: str | None
    now: datetime
    lease: int | None
    lease_state: LeaseState | None
    lease_end: LeaseEnd | None
    granted_at: datetime | None
    delivery: Delivery | None
    expires_at: datetime | None
    lease_cards: list[CardId]
    candidates: list[CardId]

    @property
    def usual(self) -> Length | None:
        """How long its run takes, going by earlier ones."""
        return length_of(self.past)

    @property
    def bound(self) -> timedelta | None:
        """What bounds its run: what was declared, or what nine in ten earlier ones kept to."""
        return self.run or (self.usual.p90 if self.usual else None)

    @property
    def is_undelivered(self) -> bool:
        """Say whether it is offered cards and no way has reached its session with that."""
        return self.lease_state is LeaseState.OFFERED and self.delivery is None

    @property
    def offer_ran_out(self) -> bool:
        """Say whether it is offered cards that nobody took in time and that have not been passed on yet."""
        return self.lease_state is LeaseState.OFFERED and self.expires_at is not None and self.expires_at <= self.now


async def get_ticket(conn: Connection, task: TaskId) -> Ticket | None:
    """Read one ticket, or None when there is none of that number."""
    row = await conn.fetchrow(_GET, task)
    return _ticket(row) if row else None


async def open_tickets(conn: Connection, actor: Actor) -> list[Ticket]:
    """Read the tickets that an actor's agent waits with or holds, oldest first."""
    return [_ticket(row) for row in await conn.fetch(_OPEN_OF_AGENT, actor.agent)]


async def find_ticket(conn: Connection, actor: Actor, purpose: str) -> TaskId | None:
    """Find the open ticket of the same purpose."""
    return await conn.fetchval(_FIND, actor.project, actor.agent, purpose)


async def insert_ticket(
    conn: Connection, actor: Actor, request: GpuRequest, named: Sequence[CardId], head_start: timedelta
) -> TaskId | None:
    """Insert a ready ticket, or return None when one of the same purpose is open already."""
    need = request.need
    return await conn.fetchval(
        _INSERT,
        actor.project,
        request.job,
        request.purpose,
        int(request.priority),
        actor.agent,
        actor.session,
        need.count,
        list(named),
        need.memory_mib,
        need.model,
        request.env_style.value,
        request.run,
        head_start,
    )


async def enqueue(conn: Connection, task: TaskId, cards: Sequence[CardId]) -> None:
    """Put a ready ticket into the queues of the cards it may use, at its own age."""
    await conn.execute(_ENQUEUE, task, list(cards))


async def dequeue(conn: Connection, task: TaskId) -> None:
    """Take a ticket out of every queue."""
    await conn.execute(_DEQUEUE, task)


async def leave_ticket(conn: Connection, task: TaskId, outcome: str) -> bool:
    """Cancel a waiting or parked ticket; False when it does not wait any more."""
    return await conn.fetchval(_LEAVE, task, outcome) is not None


async def park_ticket(conn: Connection, task: TaskId, outcome: str) -> bool:
    """Take a ticket whose owner misses its offers out of the running."""
    return await conn.fetchval(_PARK, task, outcome) is not None


async def stand_behind(conn: Connection, task: TaskId, place: datetime) -> None:
    """Order a ready ticket right behind the one with this order key, unless it comes later anyway."""
    await conn.execute(_STAND_BEHIND, task, place)


async def resume_ticket(conn: Connection, task: TaskId) -> bool:
    """Make a parked ticket ready again, at its original age."""
    return await conn.fetchval(_RESUME, task) is not None


async def bound_ticket(conn: Connection, task: TaskId, run: timedelta) -> bool:
    """Note the length of a waiting ticket's run; False when one was declared before, or it does not wait."""
    return await conn.fetchval(_BOUND, task, run) is not None


async def remember_runs(conn: Connection, task: TaskId, lengths: Sequence[timedelta]) -> None:
    """Note how long earlier runs of the same purpose took, for the estimates of a waiting ticket and of its run."""
    await conn.execute(_REMEMBER, task, list(lengths))


async def not_waiting(conn: Connection, tasks: Sequence[TaskId]) -> list[TaskId]:
    """Return those of some tickets that do not wait any more."""
    return [TaskId(row["id"]) for row in await conn.fetch(_NOT_WAITING, list(tasks))]


async def stray_tickets(conn: Connection) -> list[TaskId]:
    """List ready tickets that stand in no queue; there are none unless something went wrong."""
    rows = await conn.fetch(_STRAYS)
    return [TaskId(row["id"]) for row in rows]


async def hosts_of_cards(conn: Connection, cards: Sequence[CardId]) -> list[HostId]:
    """Return the hosts of these cards, in order."""
    rows = await conn.fetch("select distinct host_id from card where id = any($1::bigint[]) order by 1", list(cards))
    return [HostId(row["host_id"]) for row in rows]


def _ticket(row: Record) -> Ticket:
    return Ticket(
        task=TaskId(row["id"]),
        title=row["title"],
        state=TaskState(row["state"]),
        priority=row["priority"],
        project=ProjectId(row["project_id"]),
        agent=AgentId(row["agent_id"]),
        agent_name=row["agent"],
        session=SessionId(row["session_id"]),
        kind=TaskKind(row["kind"]),
        need_count=row["need_count"],
        need_cards=[CardId(card) for card in row["need_cards"]],
        need_memory_mib=row["need_memory_mib"],
        need_model=row["need_model"],
        capabilities=frozenset(row["need_capabilities"]),
        env_style=EnvStyle(row["env_style"]),
        run=row["run_time"],
        past=row["past_lengths"],
        ready_at=row["ready_at"],
        order_key=row["order_key"],
        missed_offers=row["missed_offers"],
        is_parked=row["parked_at"] is not None,
        outcome=row["outcome"],
        now=row["now"],
        lease=row["lease_id"],
        lease_state=LeaseState(row["lease_state"]) if row["lease_state"] else None,
        lease_end=LeaseEnd(row["ended"]) if row["ended"] else None,
        granted_at=row["granted_at"],
        delivery=read_delivery(row["delivered_at"], row["delivered_by"]),
        expires_at=row["expires_at"],
        lease_cards=[CardId(card) for card in row["lease_cards"]],
        candidates=[CardId(card) for card in row["candidates"]],
    )
