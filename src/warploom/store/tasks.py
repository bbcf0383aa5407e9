"""Tasks as the database has them: written, changed, read whole and listed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

from warploom.domain.failures import FailureClass
from warploom.domain.identifiers import AgentId, CardId, LeaseId, ProjectId, SessionId, TaskId
from warploom.domain.leases import LeaseState
from warploom.domain.task_answers import CommentView
from warploom.domain.tasks import NewTask, TaskKind, TaskState
from warploom.domain.tickets import CardNeed
from warploom.store.cards import read_pace
from warploom.store.database import Connection, Record

UPSTREAMS: Final[LiteralString] = (
    "array(select upstream_id from dependency where dependency.task_id = task.id order by 1)"
)

COMMENTS: Final[LiteralString] = """
  (
    select jsonb_agg(jsonb_build_object('author', said.author, 'text', said.body, 'at', said.created_at) order by said.id)
    from (select * from comment where comment.task_id = task.id order by comment.id desc limit 20) as said
  )
"""

COLUMNS: Final[LiteralString] = f"""
  task.id, task.project_id, project.name as project, task.kind::text, task.state::text, task.title, task.context, task.done_when,
  task.parent_id, task.priority, creator.name as creator, task.agent_id, agent.name as agent, task.session_id, task.unmet,
  task.attempts, task.max_attempts, task.need_count, task.need_cards, task.need_memory_mib, task.need_model,
  task.need_resources, task.need_capabilities, task.deadline_at, task.run_time, task.head_start, task.ready_at,
  task.order_key, task.parked_at, task.escalated_at, task.culprit_id, task.outcome, task.failure::text, task.retry_at,
  task.created_at, task.finished_at, clock_now() as now,
  {UPSTREAMS} as upstreams,
  array(
    select host.name || '/' || card.index from card join host on host.id = card.host_id where card.id = any(task.need_cards) order by 1
  ) as card_names,
  {COMMENTS} as comments
"""
"""What `task`, `project`, `agent` and `creator` say of a task; with a lease and its progress it can be shown whole."""

_LEASE_COLUMNS: Final[LiteralString] = """
  lease.id as lease_id, lease.state::text as lease_state, lease.session_id as lease_session, lease.expires_at,
  progress.step, progress.total, progress.rate, progress.spread, progress.reported_at, progress.note, result.output, result.branch
"""

JOINS: Final[LiteralString] = """
join project on project.id = task.project_id
left join agent on agent.id = task.agent_id
left join agent as creator on creator.id = task.creator_id
"""

_GET: Final[LiteralString] = f"""
select {COLUMNS}, {_LEASE_COLUMNS}
from task {JOINS}
left join lease on lease.id = task.lease_id
left join progress on progress.lease_id = lease.id
left join result on result.task_id = task.id
where task.id = $1
"""

_LOCK: Final[LiteralString] = """
select id from task where id = any($1::bigint[]) order by lock_place(kind, id) for no key update
"""

_LOCK_GRAPH: Final[LiteralString] = "select lock_graph($1)"

_FIND_SAME: Final[LiteralString] = """
select id from task
where project_id = $1
  and (
    key = $2 and state <> 'cancelled'
    or fingerprint = $3 and state in ('idea', 'pending', 'ready', 'claimed', 'blocked', 'failed')
  )
order by key is distinct from $2, id
limit 1
"""

_INSERT: Final[LiteralString] = """
insert into task (
  project_id, kind, state, title, context, done_when, parent_id, priority, creator_id, key, fingerprint, max_attempts,
  need_count, need_cards, need_memory_mib, need_model, need_resources, need_capabilities, env_style, run_time, deadline_at,
  head_start, ready_at, order_key, finished_at
)
values (
  $1, $2::text::task_kind, $3::text::task_state, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
  $19::text::env_style, $20, $21, $22, clock_now(), clock_now() - $22::interval,
  case when $3 = 'done' then clock_now() end
)
on conflict do nothing
returning id
"""

_LINK: Final[LiteralString] = """
insert into dependency (task_id, upstream_id)
select * from unnest($1::bigint[], $2::bigint[]) as edge (task_id, upstream_id)
on conflict do nothing
"""

_UNLINK: Final[LiteralString] = "delete from dependency where task_id = $1 and upstream_id = any($2::bigint[])"

_KNOWN: Final[LiteralString] = """
select id, project_id, kind::text, state::text, title from task where id = any($1::bigint[]) order by lock_place(kind, id) for share
"""

_REOPEN_PROJECT: Final[LiteralString] = """
update project set completed_at = null where id = $1 and completed_at is not null
"""

_CHANGE: Final[LiteralString] = """
update task
set title = coalesce($2, title), context = case when $3 then $4 else context end,
  done_when = case when $5 then $6 else done_when end, priority = coalesce($7, priority),
  head_start = coalesce($8, head_start), order_key = ready_at - coalesce($8, head_start),
  deadline_at = case when $9 then $10 else deadline_at end, max_attempts = coalesce($11, max_attempts),
  run_time = coalesce($12, run_time), parent_id = case when $13 then $14 else parent_id end,
  fingerprint = case when $2 is null and not ($3 or $5 or $13) then fingerprint end
where id = $1
returning id
"""

_REORDER: Final[LiteralString] = """
update queue set order_key = task.order_key from task where task.id = $1 and queue.task_id = task.id
"""

_IDEAS: Final[LiteralString] = "select count(*) from task where project_id = $1 and state = 'idea' and kind <> 'gpu'"

_COMMENT: Final[LiteralString] = "insert into comment (task_id, author, body) values ($1, $2, $3)"

_PROMOTE: Final[LiteralString] = """
update task
set kind = 'work', state = 'ready', ready_at = clock_now(), order_key = clock_now() - head_start
where id = $1 and state = 'idea'
returning id
"""


_DROP: Final[LiteralString] = """
update task set state = 'cancelled', finished_at = clock_now(), outcome = 'the idea was dropped'
where id = $1 and state = 'idea'
returning id
"""

_CHILDREN: Final[LiteralString] = "select id from task where parent_id = $1"

_PROJECTS: Final[LiteralString] = "select id, project_id from task where id = any($1::bigint[])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as the database has it, with its live lease if it has one."""

    task: TaskId
    project: ProjectId
    project_name: str
    kind: TaskKind
    state: TaskState
    title: str
    context: str | None
    done_when: str | None
    parent: TaskId | None
    priority: int
    creator: str | None
    agent: AgentId | None
    agent_name: str | None
    session: SessionId | None
    unmet: int = 0
    attempts: int
    max_attempts: int
    need_count: int = 0
    need_cards: list[CardId] = field(default_factory=list[CardId])
    card_names: list[str] = field(default_factory=list[str])
    need_memory_mib: int | None = None
    need_model: str | None = None
    resources: list[str]
    capabilities: list[str]
    deadline: datetime | None
    run: timedelta | None
    ready_at: datetime | None
    is_parked: bool = False
    is_escalated: bool = False
    culprit: TaskId | None = None
    outcome: str | None
    failure: FailureClass | None = None
    retry_at: datetime | None = None
    created_at: datetime
    finished_at: datetime | None = None
    now: datetime
    upstreams: list[TaskId]
    comments: list[CommentView]
    lease: LeaseId | None
    lease_state: LeaseState | None
    lease_session: SessionId | None
    expires_at: datetime | None
    percent: int | None = None
    note: str | None = None
    output: Any = None
    branch: str | None = None

    @property
    def is_plain(self) -> bool:
        """Say whether nothing but its turn is needed to claim it."""
        return self.need_count == 0 and not self.resources and not self.capabilities


@dataclass(frozen=True, slots=True)
class KnownTask:
    """What is needed of a task that another one is to depend on or belong to."""

    task: TaskId
    project: ProjectId
    kind: TaskKind
    state: TaskState
    title: str


@dataclass(frozen=True, slots=True)
class TaskInsert:
    """A checked task with what only the database and the settings know of it."""

    project: ProjectId
    creator: AgentId
    new: NewTask
    state: TaskState
    need: CardNeed | None
    cards: Sequence[CardId]
    head_start: timedelta
    max_attempts: int
    fingerprint: UUID


@dataclass(frozen=True, slots=True)
class TaskEdit:
    """Columns to change; `sets` names those of the nullable ones that are changed at all."""

    title: str | None = None
    context: str | None = None
    done_when: str | None = None
    priority: int | None = None
    head_start: timedelta | None = None
    deadline: datetime | None = None
    max_attempts: int | None = None
    run: timedelta | None = None
    parent: TaskId | None = None
    sets: frozenset[str] = frozenset()


async def get_task(conn: Connection, task: TaskId) -> Task | None:
    """Read one task whole, or None when there is none of that number."""
    row = await conn.fetchrow(_GET, task)
    return read_row(row) if row else None


async def lock_tasks(conn: Connection, tasks: Sequence[TaskId]) -> None:
    """Lock tasks, an upstream one before those that depend on it; what was read before may be stale."""
    await conn.execute(_LOCK, list(tasks))


async def lock_graph(conn: Connection, project: ProjectId) -> None:
    """Lock the edges of a project's graph against other writers of edges, before any of its tasks is locked."""
    await conn.execute(_LOCK_GRAPH, project)


async def known_tasks(conn: Connection, tasks: Sequence[TaskId]) -> dict[TaskId, KnownTask]:
    """Read tasks by number and keep them from moving until the transaction ends; those that are missing are left out."""
    rows = await conn.fetch(_KNOWN, list(tasks))
    return {
        TaskId(row["id"]): KnownTask(
            TaskId(row["id"]),
            ProjectId(row["project_id"]),
            TaskKind(row["kind"]),
            TaskState(row["state"]),
            row["title"],
        )
        for row in rows
    }


async def insert_task(conn: Connection, insert: TaskInsert) -> TaskId | None:
    """Insert a task, or return None when there is one of the same key or content."""
    new, need = insert.new, insert.need
    return await conn.fetchval(
        _INSERT,
        insert.project,
        new.kind.value,
        insert.state.value,
        new.title,
        new.context,
        new.done_when,
        new.parent,
        int(new.priority),
        insert.creator,
        new.key,
        insert.fingerprint,
        insert.max_attempts,
        need.count if need else 0,
        list(insert.cards),
        need.memory_mib if need else None,
        need.model if need else None,
        list(new.resources),
        list(new.capabilities),
        new.needs.env_style,
        new.run,
        new.deadline,
        insert.head_start,
    )


async def find_same(conn: Connection, project: ProjectId, key: str | None, fingerprint: UUID) -> TaskId | None:
    """Find the task of the same key, else the open one of the same content."""
    return await conn.fetchval(_FIND_SAME, project, key, fingerprint)


async def link(conn: Connection, edges: Sequence[tuple[TaskId, TaskId]]) -> None:
    """Let the first of each pair depend on the second; raise CycleFound, naming the cycle, when that would be one."""
    if edges:
        await conn.execute(_LINK, [edge[0] for edge in edges], [edge[1] for edge in edges])


async def unlink(conn: Connection, task: TaskId, upstreams: Sequence[TaskId]) -> None:
    """Let a task depend on some others no more."""
    if upstreams:
        await conn.execute(_UNLINK, task, list(upstreams))


async def reopen_project(conn: Connection, project: ProjectId) -> None:
    """Note that a project has an open task again."""
    await conn.execute(_REOPEN_PROJECT, project)


async def change_task(conn: Connection, task: TaskId, edit: TaskEdit) -> None:
    """Change a task's columns, and its age in the queues of cards with its priority."""
    await conn.fetchval(
        _CHANGE,
        task,
        edit.title,
        "context" in edit.sets,
        edit.context,
        "done_when" in edit.sets,
        edit.done_when,
        edit.priority,
        edit.head_start,
        "deadline" in edit.sets,
        edit.deadline,
        edit.max_attempts,
        edit.run,
        "parent" in edit.sets,
        edit.parent,
    )
    await conn.execute(_REORDER, task)


async def count_ideas(conn: Connection, project: ProjectId) -> int:
    """Count the ideas in a project's backlog."""
    return await conn.fetchval(_IDEAS, project)


async def add_comment(conn: Connection, task: TaskId, author: str, body: str) -> None:
    """Add a comment to a task."""
    await conn.execute(_COMMENT, task, author, body)


async def promote_idea(conn: Connection, task: TaskId) -> bool:
    """Turn an idea into a ready task; False when it is none any more."""
    return await conn.fetchval(_PROMOTE, task) is not None


async def drop_idea(conn: Connection, task: TaskId) -> bool:
    """Take an idea out of the backlog; False when it is none any more."""
    return await conn.fetchval(_DROP, task) is not None


async def children_of(conn: Connection, task: TaskId) -> set[TaskId]:
    """Return the tasks that belong to an epic."""
    return {TaskId(row["id"]) for row in await conn.fetch(_CHILDREN, task)}


async def projects_of(conn: Connection, tasks: Sequence[TaskId]) -> dict[TaskId, ProjectId]:
    """Return the project of each of these tasks; those that are missing are left out."""
    return {TaskId(row["id"]): ProjectId(row["project_id"]) for row in await conn.fetch(_PROJECTS, list(tasks))}


def read_row(row: Record) -> Task:
    """Read a row of COLUMNS with the columns of its lease, progress and result."""
    pace = read_pace(row)
    percent = round(100 * min(pace.step / pace.total, 1)) if pace and pace.total else None
    return Task(
        task=TaskId(row["id"]),
        project=ProjectId(row["project_id"]),
        project_name=row["project"],
        kind=TaskKind(row["kind"]),
        state=TaskState(row["state"]),
        title=row["title"],
        context=row["context"],
        done_when=row["done_when"],
        parent=row["parent_id"],
        priority=row["priority"],
        creator=row["creator"],
        agent=row["agent_id"],
        agent_name=row["agent"],
        session=row["session_id"],
        unmet=row["unmet"],
        attempts=row["attempts"],
        max_attempts=row["max_attempts"],
        need_count=row["need_count"],
        need_cards=[CardId(card) for card in row["need_cards"]],
        card_names=row["card_names"],
        need_memory_mib=row["need_memory_mib"],
        need_model=row["need_model"],
        resources=row["need_resources"],
        capabilities=row["need_capabilities"],
        deadline=row["deadline_at"],
        run=row["run_time"],
        ready_at=row["ready_at"],
        is_parked=row["parked_at"] is not None,
        is_escalated=row["escalated_at"] is not None,
        culprit=row["culprit_id"],
        outcome=row["outcome"],
        failure=FailureClass(row["failure"]) if row["failure"] else None,
        retry_at=row["retry_at"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        now=row["now"],
        upstreams=[TaskId(upstream) for upstream in row["upstreams"]],
        comments=read_comments(row["comments"]),
        lease=row["lease_id"],
        lease_state=LeaseState(row["lease_state"]) if row["lease_state"] else None,
        lease_session=row["lease_session"],
        expires_at=row["expires_at"],
        percent=percent,
        note=row["note"],
        output=row["output"],
        branch=row["branch"],
    )


def read_comments(entries: list[dict[str, str]] | None) -> list[CommentView]:
    """Read what COMMENTS says."""
    return [CommentView(entry["author"], entry["text"], datetime.fromisoformat(entry["at"])) for entry in entries or ()]
