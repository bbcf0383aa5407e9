"""Lists of tasks: what may be claimed, what is in some states, what an agent has claimed; a row a line."""

from collections.abc import Sequence
from typing import Final, LiteralString

from warploom.domain.identifiers import AgentId, ProjectId, TaskId
from warploom.domain.tasks import TaskState
from warploom.store.database import Connection, Record

_LINE: Final[LiteralString] = """
  task.id, task.title, task.state::text, task.kind::text, task.priority, agent.name as agent, task.lease_id, task.parent_id,
  task.need_count, task.need_memory_mib, task.need_model, task.need_resources, task.need_capabilities, task.unmet,
  task.deadline_at < clock_now() and task.finished_at is null as is_overdue, task.parked_at, task.escalated_at,
  task.culprit_id, task.outcome, task.retry_at, task.session_id, clock_now() as now,
  progress.step, progress.total, progress.note,
  array(
    select host.name || '/' || card.index from card join host on host.id = card.host_id where card.id = any(task.need_cards) order by 1
  ) as card_names
"""

_LINE_JOINS: Final[LiteralString] = """
left join agent on agent.id = task.agent_id
left join progress on progress.lease_id = task.lease_id
"""

_READY: Final[LiteralString] = f"""
with heads as (
  (
    select id, order_key from task
    where project_id = $1 and state = 'ready' and kind = 'work' and is_plain and session_id is null and ($2::int is null or priority = $2)
    order by order_key, id limit $3
  )
  union all
  (
    select id, order_key from task
    where project_id = $1 and state = 'ready' and kind = 'work' and not is_plain and session_id is null
      and ($2::int is null or priority = $2)
    order by order_key, id limit $3
  )
)
select {_LINE}
from (select id, order_key from heads order by order_key, id limit $3) as head
join task on task.id = head.id {_LINE_JOINS}
order by head.order_key, head.id
"""

_FIND: Final[LiteralString] = f"""
select {_LINE} from task {_LINE_JOINS}
where task.id = any(array(
  select newest.id
  from unnest($2::text[]) as wanted (state)
  cross join lateral (
    select found.id from task as found
    where found.project_id = $1 and found.state = wanted.state::task_state and found.kind <> 'gpu'
    order by found.id desc
    limit $3
  ) as newest
  order by newest.id desc
  limit $3
))
order by task.id desc
"""

_LINES: Final[LiteralString] = f"""
select {_LINE} from task {_LINE_JOINS} where task.id = any($1::bigint[]) order by task.id
"""

_HELD: Final[LiteralString] = f"""
select {_LINE} from task {_LINE_JOINS}
where task.agent_id = $1 and task.state = 'claimed' and task.need_count = 0
order by task.id
limit 100
"""


async def ready_rows(conn: Connection, project: ProjectId, priority: int | None, limit: int) -> list[Record]:
    """Read the first `limit` tasks that may be claimed, in the order in which they are handed out."""
    return await conn.fetch(_READY, project, priority, limit)


async def rows_in_states(conn: Connection, project: ProjectId, states: Sequence[TaskState], limit: int) -> list[Record]:
    """Read the newest `limit` tasks in any of `states`."""
    return await conn.fetch(_FIND, project, [state.value for state in states], limit)


async def rows_of(conn: Connection, tasks: Sequence[TaskId]) -> list[Record]:
    """Read these tasks as lines, in order of number."""
    return await conn.fetch(_LINES, list(tasks))


async def rows_held(conn: Connection, agent: AgentId) -> list[Record]:
    """Read the tasks without cards that an agent has claimed."""
    return await conn.fetch(_HELD, agent)
