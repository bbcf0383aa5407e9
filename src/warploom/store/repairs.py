"""Repairs: tasks put back, given up, gone on without, or finished by somebody's decision; and what comes due by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, LiteralString

from warploom.domain.identifiers import HostId, LeaseId, ProjectId, SessionId, TaskId, task_name
from warploom.domain.repairs import EscalationView
from warploom.domain.tasks import TaskState
from warploom.store.database import Connection

_RESET: Final[LiteralString] = """
update task
set state = (case when kind <> 'epic' and unmet = 0 then 'ready' else 'pending' end)::task_state,
  agent_id = null, session_id = null, attempts = case when $2 then 0 else attempts end, missed_offers = 0,
  parked_at = null, escalated_at = null, culprit_id = null, outcome = null, failure = null, retry_at = null,
  finished_at = null,
  ready_at = coalesce(ready_at, clock_now()), order_key = coalesce(order_key, clock_now() - head_start)
where id = $1 and kind <> 'gpu' and state in ('pending', 'ready', 'failed', 'blocked', 'cancelled', 'dead_letter')
returning id
"""

_FORGET: Final[LiteralString] = "delete from result where task_id = $1"

# An edge that was waived counts again where the dependent one has not gone on without it yet.
_UNWAIVE: Final[LiteralString] = """
with held as (
  select id from task
  where id in (select task_id from dependency where upstream_id = $1 and waived)
    and (state in ('pending', 'blocked') or state = 'ready' and session_id is null)
  order by lock_place(kind, id)
  for no key update
), gone as (
  delete from dependency using held
  where dependency.upstream_id = $1 and dependency.waived and dependency.task_id = held.id
  returning dependency.task_id, dependency.upstream_id
)
select task_id, upstream_id from gone
"""

_WAIVE: Final[LiteralString] = """
update dependency set waived = true where upstream_id = $1 and not waived
"""

_TREE: Final[LiteralString] = """
with recursive tree (id) as (
  select $1::bigint
  union
  select task.id from tree join task on task.parent_id = tree.id
), down (id) as (
  select id from tree
  union
  select dependency.task_id
  from down join dependency on dependency.upstream_id = down.id join task on task.id = dependency.task_id
  where $2 and not dependency.waived and task.parent_id is distinct from $1
    and not exists (select from task as child where child.id = down.id and child.parent_id = dependency.task_id)
)
select task.id, task.state::text, task.lease_id, task.title, lease.session_id,
  array(
    select distinct card.host_id from lease_card join card on card.id = lease_card.card_id where lease_card.lease_id = task.lease_id
  ) as hosts
from (select id from tree union select id from down) as chosen
join task on task.id = chosen.id
left join lease on lease.id = task.lease_id
where task.kind <> 'gpu' and task.state not in ('done', 'cancelled', 'decomposed')
order by task.id
"""

_CANCEL: Final[LiteralString] = """
with held as (
  select id from task where id = any($1::bigint[]) order by lock_place(kind, id) for no key update
), dequeued as (
  delete from queue using held where queue.task_id = held.id
)
update task
set state = 'cancelled', finished_at = clock_now(), outcome = $2, parked_at = null, escalated_at = null, culprit_id = null,
  failure = null, retry_at = null
from held
where task.id = held.id and task.state in ('idea', 'pending', 'ready', 'blocked', 'failed', 'dead_letter')
returning task.id
"""

_OUTCOME: Final[LiteralString] = "update task set outcome = $2 where id = $1 and state = 'cancelled'"

_FORCE: Final[LiteralString] = """
with dequeued as (
  delete from queue where task_id = $1
)
update task
set state = $2::text::task_state, finished_at = clock_now(), outcome = $3, parked_at = null, escalated_at = null,
  culprit_id = null, retry_at = null, failure = case when $2 = 'dead_letter' then coalesce(failure, 'unknown') end
where id = $1 and kind not in ('gpu', 'idea') and ($2 = 'done' or kind <> 'epic')
  and state in ('pending', 'ready', 'blocked', 'failed', 'dead_letter')
returning id
"""

_TAKE_BACK: Final[LiteralString] = "update task set attempts = greatest(attempts - 1, 0) where id = $1"

_ESCALATE: Final[LiteralString] = "insert into escalation (task_id, agent, message) values ($1, $2, $3)"

_ANSWER: Final[LiteralString] = """
update escalation set answer = $2, answered_by = $3, answered_at = clock_now()
where task_id = $1 and answered_at is null
returning id
"""

_ESCALATIONS: Final[LiteralString] = """
select escalation.*, task.title
from escalation join task on task.id = escalation.task_id
where escalation.answered_at is null and task.project_id = $1
order by escalation.id
limit $2
"""

# A task that waits again may turn out to wait for what will not be done.
_LOCK_WAITING: Final[LiteralString] = """
select lock_graph(project_id)
from (select distinct project_id from task where retry_at <= clock_now() and unmet > 0 order by project_id) as due
"""

_RETRY_DUE: Final[LiteralString] = """
with due as (
  select id from task where retry_at <= clock_now() order by retry_at limit $1 for no key update skip locked
)
update task
set state = (case when unmet = 0 then 'ready' else 'pending' end)::task_state, retry_at = null, failure = null,
  finished_at = null, agent_id = null, session_id = null
where id = any(array(select id from due)) and state = 'failed'
returning id, project_id, title
"""

_CLOSE_EPICS: Final[LiteralString] = """
update task set state = 'done', finished_at = clock_now()
where id in (
  select task.id from task
  where task.kind = 'epic' and task.state = 'pending' and task.unmet = 0
    and exists (select from task as child where child.parent_id = task.id)
  limit 100
  for no key update skip locked
)
returning id
"""

_UNBLOCKED: Final[LiteralString] = """
select distinct coalesce(upstream.culprit_id, upstream.id) as culprit
from task
join dependency on dependency.task_id = task.id and not dependency.waived
join task as upstream on upstream.id = dependency.upstream_id
where task.state = 'pending' and (is_lost(upstream.state, upstream.retry_at) or upstream.culprit_id is not null)
limit 100
"""

_BLOCK: Final[LiteralString] = "select block_downstream($1)"

_COMPLETE_PROJECTS: Final[LiteralString] = """
update project set completed_at = clock_now()
where completed_at is null and archived_at is null
  and exists (select from task where task.project_id = project.id and task.state = 'done' and task.kind <> 'gpu')
  and not exists (
    select from task
    where task.project_id = project.id and task.state in ('pending', 'ready', 'claimed', 'blocked') and task.kind <> 'gpu'
  )
  and not exists (
    select from task where task.project_id = project.id and task.state in ('failed', 'dead_letter') and task.kind <> 'gpu'
  )
returning id, name
"""

_SILENT: Final[LiteralString] = """
update heartbeat set silent_since = heartbeat.seen_at
from session join agent on agent.id = session.agent_id
where session.id = heartbeat.session_id and heartbeat.silent_since is null and heartbeat.seen_at < clock_now() - $1::interval
  and exists (select from lease where lease.session_id = heartbeat.session_id and lease.state <> 'ended')
returning heartbeat.session_id, agent.name, clock_now() - heartbeat.seen_at as silent,
  (
    select string_agg('L-' || lease.id, ', ' order by lease.id) from lease
    where lease.session_id = heartbeat.session_id and lease.state <> 'ended'
  ) as leases
"""

_CLAIMED: Final[LiteralString] = """
select task.id, task.title, agent.name as agent, lease.id as lease_id, lease.session_id,
  lease.expires_at <= clock_now() as is_expired, lease.expires_at - clock_now() as left_time,
  clock_now() - coalesce(heartbeat.seen_at, lease.granted_at) as silent,
  exists (
    select from lease_card join card on card.id = lease_card.card_id
    where lease_card.lease_id = lease.id and lease_card.live and card.condition = 'occupied'
  ) as is_on_card
from task
join lease on lease.id = task.lease_id
join agent on agent.id = lease.agent_id
left join heartbeat on heartbeat.session_id = lease.session_id
where task.project_id = $1 and task.state = 'claimed' and task.kind <> 'gpu'
order by task.id
limit $2
"""


@dataclass(frozen=True, slots=True)
class Victim:
    """A task that is to be cancelled with others."""

    task: TaskId
    state: TaskState
    lease: LeaseId | None
    session: SessionId | None
    title: str
    hosts: list[HostId]


@dataclass(frozen=True, slots=True)
class Retried:
    """A task that may be tried again."""

    task: TaskId
    project: ProjectId
    title: str


@dataclass(frozen=True, slots=True)
class SilentSession:
    """A session that has just been noted to be silent, with what it holds."""

    session: SessionId
    agent: str
    silent: timedelta
    leases: str


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """A claimed task with the signs of its holder's life."""

    task: TaskId
    title: str
    agent: str
    lease: LeaseId
    is_expired: bool
    left: timedelta
    silent: timedelta
    is_on_card: bool


async def reset_task(conn: Connection, task: TaskId, *, forget_attempts: bool = True) -> bool:
    """Let a task that nobody has claimed be claimed again, or wait again; False when it is done, claimed or an idea."""
    return await conn.fetchval(_RESET, task, forget_attempts) is not None


async def forget_result(conn: Connection, task: TaskId) -> None:
    """Forget what an earlier attempt left."""
    await conn.execute(_FORGET, task)


async def take_up_again(conn: Connection, task: TaskId) -> list[tuple[TaskId, TaskId]]:
    """Remove the waived edges of those that have not gone on without this task yet, and return them to be linked again."""
    return [(TaskId(row["task_id"]), TaskId(row["upstream_id"])) for row in await conn.fetch(_UNWAIVE, task)]


async def go_on_without(conn: Connection, task: TaskId) -> None:
    """Let everything that depends on a task go on without it."""
    await conn.execute(_WAIVE, task)


async def victims_of(conn: Connection, task: TaskId, *, cascade: bool) -> list[Victim]:
    """List what is cancelled with a task: the tasks of an epic, and with `cascade` all that depends on any of them."""
    return [
        Victim(
            TaskId(row["id"]), TaskState(row["state"]), row["lease_id"], row["session_id"], row["title"], row["hosts"]
        )
        for row in await conn.fetch(_TREE, task, cascade)
    ]


async def cancel_tasks(conn: Connection, tasks: Sequence[TaskId], outcome: str) -> list[TaskId]:
    """Cancel tasks that nobody holds; return which were."""
    return [TaskId(row["id"]) for row in await conn.fetch(_CANCEL, list(tasks), outcome)]


async def set_outcome(conn: Connection, task: TaskId, outcome: str) -> None:
    """Say why a cancelled task was given up."""
    await conn.execute(_OUTCOME, task, outcome)


async def force_task(conn: Connection, task: TaskId, state: TaskState, outcome: str | None) -> bool:
    """Move a task that nobody holds to done or dead letter by decision; False when it cannot be."""
    return await conn.fetchval(_FORCE, task, state.value, outcome) is not None


async def take_attempt_back(conn: Connection, task: TaskId) -> None:
    """Let the attempt that has just ended not count."""
    await conn.execute(_TAKE_BACK, task)


async def add_escalation(conn: Connection, task: TaskId, agent: str, message: str) -> None:
    """Keep a question about a task until somebody answers it."""
    await conn.execute(_ESCALATE, task, agent, message)


async def answer_escalation(conn: Connection, task: TaskId, answer: str, by: str) -> bool:
    """Keep the answer to a task's open questions; False when there is none."""
    return bool(await conn.fetch(_ANSWER, task, answer, by))


async def open_escalations(conn: Connection, project: ProjectId, limit: int) -> list[EscalationView]:
    """List the questions nobody has answered yet, oldest first."""
    return [
        EscalationView(
            task_name(row["task_id"]),
            row["title"],
            row["agent"],
            row["message"],
            row["created_at"],
            row["answer"],
            row["answered_by"],
            row["answered_at"],
        )
        for row in await conn.fetch(_ESCALATIONS, project, limit)
    ]


async def retry_due(conn: Connection, limit: int) -> list[Retried]:
    """Let the tasks be claimed again whose time for another attempt has come."""
    await conn.execute(_LOCK_WAITING)
    rows = await conn.fetch(_RETRY_DUE, limit)
    return [Retried(TaskId(row["id"]), ProjectId(row["project_id"]), row["title"]) for row in rows]


async def close_epics(conn: Connection) -> int:
    """Close epics all of whose tasks are over; there are none unless something went wrong."""
    return len(await conn.fetch(_CLOSE_EPICS))


async def block_strays(conn: Connection) -> int:
    """Block what waits for tasks that will not be done; there is none unless something went wrong."""
    culprits = await conn.fetch(_UNBLOCKED)
    for row in culprits:
        await conn.execute(_BLOCK, row["culprit"])
    return len(culprits)


async def complete_projects(conn: Connection) -> list[tuple[ProjectId, str]]:
    """Note the projects that have no open task left; return which, with their names."""
    return [(ProjectId(row["id"]), row["name"]) for row in await conn.fetch(_COMPLETE_PROJECTS)]


async def note_silent_sessions(conn: Connection, silence: timedelta) -> list[SilentSession]:
    """Note, once, the sessions that hold something and have been silent for so long."""
    return [
        SilentSession(SessionId(row["session_id"]), row["name"], row["silent"], row["leases"])
        for row in await conn.fetch(_SILENT, silence)
    ]


async def claimed_tasks(conn: Connection, project: ProjectId, limit: int) -> list[ClaimedTask]:
    """List the claimed tasks of a project with the signs of their holders' life."""
    return [
        ClaimedTask(
            TaskId(row["id"]),
            row["title"],
            row["agent"],
            LeaseId(row["lease_id"]),
            row["is_expired"],
            row["left_time"],
            row["silent"],
            row["is_on_card"],
        )
        for row in await conn.fetch(_CLAIMED, project, limit)
    ]
