"""Claims of tasks that need no card: taken and finished in one statement each, the event and the lease with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString, NamedTuple

from warploom.domain.identifiers import AgentId, LeaseId, ProjectId, SessionId, TaskId
from warploom.domain.leases import LeaseState
from warploom.domain.sessions import Actor
from warploom.domain.tasks import TaskKind, TaskState
from warploom.store.database import Connection, Record
from warploom.store.tasks import COMMENTS, UPSTREAMS, Task, read_comments

RETURNED: Final[LiteralString] = """
  task.id, task.project_id, task.title, task.context, task.done_when, task.parent_id, task.priority, task.creator_id,
    task.attempts, task.max_attempts, task.need_resources, task.need_capabilities, task.deadline_at, task.run_time,
    task.ready_at, task.order_key, task.outcome, task.created_at, leased.id as lease_id, leased.expires_at
"""
"""What a claim reads of its task and lease: only what such a task can have, for every column more is felt."""

THESE: Final[LiteralString] = "task.id = any(array(select task_id from leased))"
"""Names the tasks to the planner, which takes a limit it cannot see for a tenth of all rows and would read every task."""

# $1 project, $2 session, $3 agent, $4 how long its holder may be silent if not as the setting says, $5 the setting, $6 the
# agent's name.
_LEASED: Final[LiteralString] = f"""
leased as (
  insert into lease (task_id, session_id, agent_id, state, accepted_at, life, expires_at)
  select id, $2, $3, 'active', clock_now(), $4::interval, clock_now() + coalesce($4::interval, $5::interval) from taken
  returning id, task_id, expires_at
), claimed as (
  update task
  set state = 'claimed', lease_id = leased.id, agent_id = $3, session_id = $2, attempts = task.attempts + 1
  from leased
  where task.id = leased.task_id and {THESE}
  returning {RETURNED}
), told as (
  insert into event (kind, project_id, task_id, lease_id, session_id, facts)
  select 'task.claimed', project_id, id, lease_id, $2, jsonb_build_object('agent', $6::text, 'title', title) from claimed
)
"""

CLAIMED: Final[LiteralString] = f"""
  task.*, project.name as project, creator.name as creator, clock_now() as now, {UPSTREAMS} as upstreams, {COMMENTS} as comments
from claimed as task
join project on project.id = task.project_id
left join agent as creator on creator.id = task.creator_id
order by task.order_key, task.id
"""

# $7 how many, $8 whether to pass by those that need something special, $9 and $10 before which place there is nothing.
FIRST: Final[LiteralString] = """
special as (
  select order_key from task
  where project_id = $1 and state = 'ready' and kind = 'work' and not is_plain and session_id is null
  order by order_key, id
  limit 1
), first as materialized (
  select id from task
  where project_id = $1 and state = 'ready' and kind = 'work' and is_plain and session_id is null
    and exists (select from project where id = $1 and archived_at is null)
    and (order_key, id) >= (coalesce($9::timestamptz, '-infinity'), coalesce($10::bigint, 0))
    and order_key <= case when $8 then 'infinity' else coalesce((select order_key from special), 'infinity') end
  order by order_key, id
  limit $7
  for no key update skip locked
)
"""

_CLAIM_NEXT: Final[LiteralString] = f"""
with {FIRST}, taken as (select id from first), {_LEASED}
select {CLAIMED}
"""

_CLAIM_THESE: Final[LiteralString] = f"""
with taken as materialized (
  select id from task
  where id = any($7::bigint[]) and project_id = coalesce($1, project_id)
    and state = 'ready' and kind = 'work' and is_plain and session_id is null
    and not exists (select from project where project.id = task.project_id and project.archived_at is not null)
  order by id
  for no key update
), {_LEASED}
select {CLAIMED}
"""

# A task that needs named resources has all of them or none: one live lease per name is what the schema allows.
_CLAIM_WITH_RESOURCES: Final[LiteralString] = f"""
with taken as materialized (
  select id, need_resources from task
  where project_id = $1 and state = 'ready' and kind = 'work' and not is_plain and session_id is null and need_count = 0
    and ($7::bigint is null or id = $7) and need_capabilities <@ $8::text[]
    and not exists (select from lease_resource where lease_resource.live and lease_resource.name = any(task.need_resources))
  order by order_key, id
  limit 1
  for no key update skip locked
), {_LEASED}, held as (
  insert into lease_resource (lease_id, name)
  select leased.id, unnest(taken.need_resources) from leased join taken on taken.id = leased.task_id
)
select {CLAIMED}
"""

_SPECIAL: Final[LiteralString] = """
select id from task
where project_id = $1 and state = 'ready' and kind = 'work' and not is_plain and session_id is null and need_count > 0
  and not exists (select from lease_resource where lease_resource.live and lease_resource.name = any(task.need_resources))
order by order_key, id
limit $2
"""

_WANT: Final[LiteralString] = """
with void as (
  delete from promise where task_id = $1 and lease_id is null and came_at is null
)
update task set agent_id = $2, session_id = $3, missed_offers = 0
where id = $1 and state = 'ready' and kind = 'work' and session_id is null
returning id
"""

_RETURN: Final[LiteralString] = """
update task set agent_id = null, session_id = null, missed_offers = 0
where id = $1 and state = 'ready' and kind <> 'gpu'
returning id
"""

# The fast path of finishing: nothing but the lease, the task and what it left. Leases with cards are ended elsewhere.
_MOVED: Final[LiteralString] = """
ended as (
  update lease set state = 'ended', ended_at = clock_now(), ended = 'done'
  where task_id = $1 and state <> 'ended' and state = 'active' and id = coalesce($2, id)
    and ($3::bigint is null or agent_id = $3) and ($4::bigint is null or session_id = $4)
    and not exists (select from lease_card where lease_card.lease_id = lease.id)
  returning id, task_id, session_id, agent_id
), moved as (
  update task
  set state = 'done', lease_id = null, finished_at = clock_now(), outcome = null, missed_offers = 0
  from ended
  where task.id = ended.task_id and task.lease_id = ended.id
  returning task.id, task.project_id, task.title, ended.id as lease_id, ended.session_id, ended.agent_id
), told as (
  insert into event (kind, project_id, task_id, lease_id, session_id, facts)
  select 'task.done', project_id, id, lease_id, session_id,
    jsonb_build_object('agent', (select name from agent where agent.id = moved.agent_id), 'title', title)
  from moved
)
"""

_DONE: Final[LiteralString] = f"with {_MOVED} select project_id, lease_id from moved"

_DONE_WITH_RESULT: Final[LiteralString] = f"""
with {_MOVED}, kept as (
  insert into result (task_id, lease_id, output, branch)
  select id, lease_id, $5::jsonb, $6 from moved
  on conflict (task_id) do update set lease_id = excluded.lease_id, output = excluded.output, branch = excluded.branch
)
select project_id, lease_id from moved
"""

_KEEP: Final[LiteralString] = """
insert into result (task_id, lease_id, output, branch) values ($1, $2, $3, $4)
on conflict (task_id) do update set lease_id = excluded.lease_id, output = excluded.output, branch = excluded.branch
"""

_NOTE: Final[LiteralString] = """
insert into progress (lease_id, note, noted_at)
values ($1, $2, clock_now())
on conflict (lease_id) do update set note = excluded.note, noted_at = excluded.noted_at
"""

_CAPABILITIES: Final[LiteralString] = """
select coalesce(host.capabilities, '{}') from session left join host on host.name = session.host_name where session.id = $1
"""

_RESOURCE_HOLDER: Final[LiteralString] = """
select lease_resource.name || ', which L-' || lease.id || ' (' || agent.name || ') has'
from lease_resource join lease on lease.id = lease_resource.lease_id join agent on agent.id = lease.agent_id
where lease_resource.live and lease_resource.name = any($1::text[])
order by lease_resource.name
limit 1
"""

_LAST_LEASE: Final[LiteralString] = """
select id from lease where task_id = $1 and ($2::bigint is null or session_id = $2) order by id desc limit 1
"""


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """How long a claim's holder may be silent: as the setting says, or as was asked for."""

    setting: timedelta
    asked: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """A task that was just done."""

    project: ProjectId
    lease: LeaseId


class Place(NamedTuple):
    """Where a task stands in the order: many that came in one import share their order key, and differ in number."""

    order_key: datetime
    task: TaskId


NOWHERE: Final = (None, None)


def place_of(row: Record) -> Place:
    """Read where a claimed task stood."""
    return Place(row["order_key"], TaskId(row["id"]))


async def claim_next(
    conn: Connection,
    actor: Actor,
    rules: ClaimRules,
    *,
    count: int = 1,
    watermark: Place | None = None,
    past_special: bool = False,
) -> list[tuple[Task, Place]]:
    """Claim the first `count` tasks that need nothing but their turn, each with its place; one round trip.

    Rows that others are claiming are passed by. `watermark` starts the search at a place before which there was
    nothing a moment ago. Nothing is taken from behind a task that needs something special unless `past_special`.
    """
    rows = await conn.fetch(_CLAIM_NEXT, *_who(actor, rules), count, past_special, *(watermark or NOWHERE))
    return [(read_claimed(row, actor), place_of(row)) for row in rows]


async def claim_these(conn: Connection, actor: Actor, rules: ClaimRules, tasks: Sequence[TaskId]) -> list[Task]:
    """Claim those of these tasks that are ready and need nothing but their turn."""
    rows = await conn.fetch(_CLAIM_THESE, None, *_who(actor, rules)[1:], list(tasks))
    return [read_claimed(row, actor) for row in rows]


async def claim_with_resources(
    conn: Connection, actor: Actor, rules: ClaimRules, task: TaskId | None, capabilities: Sequence[str]
) -> list[Task]:
    """Claim a task without cards whose named resources are all free and whose capabilities the caller's host has."""
    rows = await conn.fetch(_CLAIM_WITH_RESOURCES, *_who(actor, rules), task, list(capabilities))
    return [read_claimed(row, actor) for row in rows]


async def special_tasks(conn: Connection, project: ProjectId, limit: int) -> list[TaskId]:
    """List the first tasks that only need cards before they can be claimed."""
    return [TaskId(row["id"]) for row in await conn.fetch(_SPECIAL, project, limit)]


async def want_task(conn: Connection, task: TaskId, actor: Actor) -> bool:
    """Make a ready task that needs cards the ticket of one session; False when it is somebody's already."""
    return await conn.fetchval(_WANT, task, actor.agent, actor.session) is not None


async def return_task(conn: Connection, task: TaskId) -> bool:
    """Let anybody claim a ready task again that somebody waited with."""
    return await conn.fetchval(_RETURN, task) is not None


async def finish_task(
    conn: Connection,
    task: TaskId,
    lease: LeaseId | None,
    agent: AgentId | None,
    session: SessionId | None,
    output: Any,
    branch: str | None,
) -> Finished | None:
    """Finish a claimed task without cards: lease, task, result, event and everything behind it, in one round trip.

    Without a lease it must be the one of `session`. None when that lease is not live, not theirs, or has cards.
    """
    if output is None and branch is None:
        row = await conn.fetchrow(_DONE, task, lease, agent, session)
    else:
        row = await conn.fetchrow(_DONE_WITH_RESULT, task, lease, agent, session, output, branch)
    return Finished(ProjectId(row["project_id"]), LeaseId(row["lease_id"])) if row else None


async def keep_result(conn: Connection, task: TaskId, lease: LeaseId | None, output: Any, branch: str | None) -> None:
    """Keep what a finished task left."""
    await conn.execute(_KEEP, task, lease, output, branch)


async def save_note(conn: Connection, lease: LeaseId, note: str) -> None:
    """Keep what a holder says of its progress, beside its steps."""
    await conn.execute(_NOTE, lease, note)


async def capabilities_of(conn: Connection, session: SessionId) -> list[str]:
    """Return what the host of a session can do; nothing where no host agent runs there."""
    return await conn.fetchval(_CAPABILITIES, session) or []


async def resource_holder(conn: Connection, names: Sequence[str]) -> str | None:
    """Say which of these named resources is taken and by whom; None when all are free."""
    return await conn.fetchval(_RESOURCE_HOLDER, list(names))


async def last_lease(conn: Connection, task: TaskId, session: SessionId | None = None) -> LeaseId | None:
    """Return the newest lease of a task, live or ended, of one session where that is given."""
    return await conn.fetchval(_LAST_LEASE, task, session)


def _who(actor: Actor, rules: ClaimRules) -> tuple[object, ...]:
    return actor.project, actor.session, actor.agent, rules.asked, rules.setting, actor.agent_name


def read_claimed(row: Record, actor: Actor) -> Task:
    """Read a task that was just claimed; it has no cards, no progress and no result."""
    return Task(
        task=TaskId(row["id"]),
        project=ProjectId(row["project_id"]),
        project_name=row["project"],
        kind=TaskKind.WORK,
        state=TaskState.CLAIMED,
        title=row["title"],
        context=row["context"],
        done_when=row["done_when"],
        parent=row["parent_id"],
        priority=row["priority"],
        creator=row["creator"],
        agent=actor.agent,
        agent_name=actor.agent_name,
        session=actor.session,
        attempts=row["attempts"],
        max_attempts=row["max_attempts"],
        resources=row["need_resources"],
        capabilities=row["need_capabilities"],
        deadline=row["deadline_at"],
        run=row["run_time"],
        ready_at=row["ready_at"],
        outcome=row["outcome"],
        created_at=row["created_at"],
        now=row["now"],
        upstreams=[TaskId(upstream) for upstream in row["upstreams"]],
        comments=read_comments(row["comments"]),
        lease=LeaseId(row["lease_id"]),
        lease_state=LeaseState.ACTIVE,
        lease_session=actor.session,
        expires_at=row["expires_at"],
    )
