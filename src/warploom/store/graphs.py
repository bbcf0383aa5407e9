"""Graphs as the database has them: what is near a task, what is in a task's way, what everybody waits for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from warploom.domain.graphs import GraphEdge
from warploom.domain.identifiers import ProjectId, TaskId, task_name
from warploom.domain.leases import LeaseState
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.waits import Hold, Obstacle, Standing
from warploom.store.database import Connection, Record

_NAME: Final[LiteralString] = "select name from project where id = $1"

_COUNTS: Final[LiteralString] = """
select state::text, count(*) as tasks
from task
where project_id = $1 and kind <> 'gpu' and kind <> 'idea'
group by state
order by state
"""

# In the order in which they are shown; of what is over the newest, of what is open the oldest.
_WHOLE: Final[LiteralString] = """
select found.id
from unnest(
  '{claimed,blocked,failed,ready,pending,dead_letter,done,cancelled}'::text[],
  '{f,f,f,f,f,t,t,t}'::bool[]
) with ordinality as wanted (state, newest_first, place)
cross join lateral (
  (
    select task.id from task
    where not wanted.newest_first and task.project_id = $1 and task.state = wanted.state::task_state
      and task.kind <> 'gpu' and task.kind <> 'idea'
    order by task.id
    limit $2
  )
  union all
  (
    select task.id from task
    where wanted.newest_first and task.project_id = $1 and task.state = wanted.state::task_state
      and task.kind <> 'gpu' and task.kind <> 'idea'
    order by task.id desc
    limit $2
  )
) as found
order by wanted.place, case when wanted.newest_first then -found.id else found.id end
limit $2
"""

# Rows of the walk may repeat a task once for each distance, so that the limit is the number of tasks times that.
_NEAR: Final[LiteralString] = """
with recursive up (id, away) as (
  select $1::bigint, 0
  union
  select dependency.upstream_id, up.away + 1 from up join dependency on dependency.task_id = up.id where up.away < $2
), down (id, away) as (
  select $1::bigint, 0
  union
  select dependency.task_id, down.away + 1 from down join dependency on dependency.upstream_id = down.id where down.away < $2
), found as (
  (select id, away from up limit $3 * ($2 + 1))
  union all
  (select id, away from down limit $3 * ($2 + 1))
)
select id from found group by id order by min(away), id limit $3
"""

_EDGES: Final[LiteralString] = """
select task_id, upstream_id, waived from dependency
where task_id = any($1::bigint[]) and upstream_id = any($1::bigint[])
order by task_id, upstream_id
"""

_STANDING: Final[LiteralString] = """
  task.id, task.title, task.state::text, task.kind::text, task.culprit_id, task.escalated_at is not null as is_escalated,
  task.parked_at is not null as is_parked, task.session_id is not null as is_wanted, agent.name as agent, task.retry_at,
  task.outcome, lease.id as lease_id, lease.state::text as lease_state, lease.expected_end, progress.step, progress.total
"""

_STANDING_JOINS: Final[LiteralString] = """
left join agent on agent.id = task.agent_id
left join lease on lease.id = task.lease_id
left join progress on progress.lease_id = task.lease_id
"""

_IN_THE_WAY: Final[LiteralString] = f"""
with recursive up (id) as (
  select dependency.upstream_id
  from dependency join task on task.id = dependency.upstream_id
  where dependency.task_id = $1 and not dependency.waived and task.state <> 'done'
  union
  select dependency.upstream_id
  from up
  join dependency on dependency.task_id = up.id
  join task on task.id = dependency.upstream_id
  where not dependency.waived and task.state <> 'done'
)
select {_STANDING}
from (select id from up limit $2) as found
join task on task.id = found.id
{_STANDING_JOINS}
"""

# Follows one open upstream task after another; what does not wait itself ends the way.
_HEAD: Final[LiteralString] = f"""
with recursive way (id, state) as (
  select $1::bigint, 'pending'::task_state
  union all
  select next.id, next.state
  from way
  cross join lateral (
    select task.id, task.state
    from dependency join task on task.id = dependency.upstream_id
    where dependency.task_id = way.id and not dependency.waived and task.state <> 'done'
    order by task.state = 'pending', task.id
    limit 1
  ) as next
  where way.state = 'pending'
)
select {_STANDING}
from (select id from way where state <> 'pending' limit 1) as head
join task on task.id = head.id
{_STANDING_JOINS}
"""

_STANDINGS: Final[LiteralString] = f"""
select {_STANDING} from task {_STANDING_JOINS} where task.id = any($1::bigint[])
"""

_OPEN_EDGES: Final[LiteralString] = """
select task_id, upstream_id from dependency
where task_id = any($1::bigint[]) and upstream_id = any($2::bigint[]) and not waived
order by task_id, upstream_id
"""

_QUESTION: Final[LiteralString] = """
select agent, message from escalation where task_id = $1 and answered_at is null order by id desc limit 1
"""

_HOLDERS: Final[LiteralString] = """
select lease_resource.name, lease.id as lease_id, lease.task_id, agent.name as agent, lease.expires_at
from lease_resource
join lease on lease.id = lease_resource.lease_id
join agent on agent.id = lease.agent_id
where lease_resource.live and lease_resource.name = any($1::text[])
order by lease_resource.name
"""

_OFFERS: Final[LiteralString] = """
select name from host where capabilities @> $1::text[] order by name limit 8
"""

# A few of each kind are enough for a sentence: whoever works holds few tasks, and the rest is looked at up to a limit.
_OBSTACLES: Final[LiteralString] = f"""
with working as (
  select id from task where project_id = $1 and state = 'claimed' and kind <> 'gpu' order by id limit 100
), held_up as (
  select 'upstream' as word, working.id as task_id, null::text as name, (
    select count(*) from (
      select from dependency join task on task.id = dependency.task_id
      where dependency.upstream_id = working.id and not dependency.waived and task.state = 'pending' and task.kind <> 'epic'
      limit 1000
    ) as waiting
  ) as tasks
  from working
), special as (
  select id, need_resources, need_capabilities from task
  where project_id = $1 and state = 'ready' and kind = 'work' and not is_plain and session_id is null
  order by order_key, id
  limit 200
), queued as (
  select id from task
  where project_id = $1 and state = 'ready' and kind = 'work' and need_count > 0 and session_id is not null
  order by order_key, id
  limit 200
), tickets as (
  select 'card' as word, null::bigint, coalesce((
    select min(host.name || '/' || card.index)
    from queue join card on card.id = queue.card_id join host on host.id = card.host_id
    where queue.task_id = queued.id
    having count(*) = 1
  ), 'any card'), count(*)
  from queued
  group by 3
), resources as (
  select 'resource' as word, lease.task_id, lease_resource.name, count(distinct special.id)
  from special
  join lease_resource on lease_resource.live and lease_resource.name = any(special.need_resources)
  join lease on lease.id = lease_resource.lease_id
  group by 2, 3
), capabilities as (
  select 'capability' as word, null::bigint, wanted.name, count(*)
  from special cross join unnest(special.need_capabilities) as wanted (name)
  group by 3
), stuck as (
  select culprit_id, escalated_at, parked_at from task where project_id = $1 and state = 'blocked' and kind <> 'gpu' order by id limit 1000
), blocked as (
  select case when culprit_id is not null then 'culprit' when escalated_at is not null then 'answer' else 'parked' end as word,
    culprit_id, null::text, count(*)
  from stuck
  group by 1, 2
), retried as (
  select 'retry' as word, id, null::text, 1
  from (
    select id from task where project_id = $1 and state = 'failed' and kind <> 'gpu' and retry_at is not null order by retry_at limit 1
  ) as first
), found as (
  select * from held_up
  union all select * from tickets
  union all select * from resources
  union all select * from capabilities
  union all select * from blocked
  union all select * from retried
)
select found.word, found.name, found.tasks, {_STANDING}
from found left join task on task.id = found.task_id {_STANDING_JOINS}
order by found.tasks desc, found.word, task.id
limit 12
"""


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent asked when it could not go on."""

    agent: str
    message: str


async def name_of(conn: Connection, project: ProjectId) -> str:
    """Return a project's name."""
    return await conn.fetchval(_NAME, project)


async def count_states(conn: Connection, project: ProjectId) -> dict[str, int]:
    """Count a project's tasks by state, without its ideas and its requests for cards alone."""
    return {row["state"]: row["tasks"] for row in await conn.fetch(_COUNTS, project)}


async def tasks_of_project(conn: Connection, project: ProjectId, limit: int) -> list[TaskId]:
    """List the first `limit` tasks of a project, open ones first, without its ideas and requests for cards alone."""
    return [TaskId(row["id"]) for row in await conn.fetch(_WHOLE, project, limit)]


async def tasks_near(conn: Connection, task: TaskId, depth: int, limit: int) -> list[TaskId]:
    """List the task and what it waits for and what waits for it, up to `depth` edges away, nearest first."""
    return [TaskId(row["id"]) for row in await conn.fetch(_NEAR, task, depth, limit)]


async def edges_among(conn: Connection, tasks: Sequence[TaskId]) -> list[GraphEdge]:
    """Read the edges between these tasks."""
    rows = await conn.fetch(_EDGES, list(tasks))
    return [GraphEdge(task_name(row["task_id"]), task_name(row["upstream_id"]), row["waived"]) for row in rows]


async def in_the_way(conn: Connection, task: TaskId, limit: int) -> list[Standing]:
    """Read up to `limit` tasks that are not done and that a task waits for, directly or not, nearest first."""
    return [_standing(row) for row in await conn.fetch(_IN_THE_WAY, task, limit)]


async def head_of(conn: Connection, task: TaskId) -> Standing | None:
    """Read a task at the head of one of the chains that a task waits for, however long that is."""
    row = await conn.fetchrow(_HEAD, task)
    return _standing(row) if row else None


async def read_standings(conn: Connection, tasks: Sequence[TaskId]) -> dict[TaskId, Standing]:
    """Read how these tasks stand."""
    rows = await conn.fetch(_STANDINGS, list(tasks))
    return {TaskId(row["id"]): _standing(row) for row in rows}


async def open_edges(
    conn: Connection, tasks: Sequence[TaskId], upstreams: Sequence[TaskId]
) -> dict[TaskId, list[TaskId]]:
    """Read which of `upstreams` each of `tasks` waits for."""
    found: dict[TaskId, list[TaskId]] = {}
    for row in await conn.fetch(_OPEN_EDGES, list(tasks), list(upstreams)):
        found.setdefault(TaskId(row["task_id"]), []).append(TaskId(row["upstream_id"]))
    return found


async def open_question(conn: Connection, task: TaskId) -> Question | None:
    """Read what was asked about a task and is not answered yet."""
    row = await conn.fetchrow(_QUESTION, task)
    return Question(row["agent"], row["message"]) if row else None


async def holders_of(conn: Connection, resources: Sequence[str]) -> list[Hold]:
    """Read who holds which of these named resources."""
    rows = await conn.fetch(_HOLDERS, list(resources))
    return [Hold(row["name"], row["lease_id"], TaskId(row["task_id"]), row["agent"], row["expires_at"]) for row in rows]


async def hosts_able_to(conn: Connection, capabilities: Sequence[str]) -> list[str]:
    """List hosts that can do all of this."""
    return [row["name"] for row in await conn.fetch(_OFFERS, list(capabilities))]


async def read_obstacles(conn: Connection, project: ProjectId) -> list[Obstacle]:
    """Read what a project's tasks wait for when none may be claimed, that which holds up most first."""
    rows = await conn.fetch(_OBSTACLES, project)
    return [
        Obstacle(row["word"], row["tasks"], row["name"], _standing(row) if row["id"] is not None else None)
        for row in rows
    ]


def _standing(row: Record) -> Standing:
    return Standing(
        task=TaskId(row["id"]),
        title=row["title"],
        state=TaskState(row["state"]),
        kind=TaskKind(row["kind"]),
        agent=row["agent"],
        culprit=row["culprit_id"],
        is_escalated=row["is_escalated"],
        is_parked=row["is_parked"],
        is_wanted=row["is_wanted"],
        lease=row["lease_id"],
        lease_state=LeaseState(row["lease_state"]) if row["lease_state"] else None,
        percent=round(100 * min(row["step"] / row["total"], 1)) if row["total"] else None,
        expected_end=row["expected_end"],
        retry_at=row["retry_at"],
        outcome=row["outcome"],
    )
