"""Projects: whose graph a task belongs to, and how far along each is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from warploom.domain.identifiers import ProjectId, SessionId, TaskId, task_name
from warploom.domain.projects import ProjectView, percent_of
from warploom.domain.tasks import TaskState
from warploom.store.database import Connection, Record

_FIND: Final[LiteralString] = "select id from project where name = $1"

_LOOK: Final[LiteralString] = """
select id, name, archived_at
from project
where name = $2 or ($2 is null and id = $1)
"""

_HOLD: Final[LiteralString] = f"""
{_LOOK}
for key share
"""

_NAMES: Final[LiteralString] = "select name from project where archived_at is null order by name limit $1"

_CREATE: Final[LiteralString] = """
insert into project (name, description) values ($1, $2)
on conflict (name) do nothing
returning id
"""

_LOCK: Final[LiteralString] = "select id, name, archived_at from project where name = $1 for update"

_BUSY: Final[LiteralString] = """
(
  select task.id
  from lease
  join task on task.id = lease.task_id
  where lease.state <> 'ended' and task.project_id = $1
)
union all
(select id from task where state = 'ready' and need_count > 0 and session_id is not null and project_id = $1)
order by id
limit $2
"""

_ARCHIVE: Final[LiteralString] = """
update project
set archived_at = case when $2 then coalesce(archived_at, clock_now()) end
where id = $1 and (archived_at is not null) <> $2
"""

_SWITCH: Final[LiteralString] = "update session set project_id = $2 where id = $1"

_LIST: Final[LiteralString] = """
select id, name, description, created_at, completed_at, archived_at
from project
where id = $1 or ($1 is null and ($2 or archived_at is null))
order by archived_at is not null, name
"""

_PROGRESS: Final[LiteralString] = """
with counted as (
  select project_id, state, count(*) as tasks
  from task
  where project_id = any($1::bigint[]) and kind <> 'gpu'
  group by project_id, state
), retried as (
  select project_id, count(*) as tasks
  from task
  where retry_at is not null and project_id = any($1) and kind <> 'gpu'
  group by project_id
), late as (
  select project_id, count(*) as tasks
  from task
  where project_id = any($1) and deadline_at < clock_now() and finished_at is null and kind <> 'gpu'
  group by project_id
), asked as (
  select task.project_id, count(*) as questions
  from escalation
  join task on task.id = escalation.task_id
  where escalation.answered_at is null and task.project_id = any($1)
  group by task.project_id
)
select project.id,
  coalesce((select jsonb_object_agg(state, tasks) from counted where project_id = project.id), '{}') as counts,
  coalesce((select tasks from retried where project_id = project.id), 0) as retried,
  coalesce((select tasks from late where project_id = project.id), 0) as overdue,
  coalesce((select questions from asked where project_id = project.id), 0) as escalations
from unnest($1::bigint[]) as project (id)
"""

_WAITING: Final = (TaskState.PENDING, TaskState.READY, TaskState.CLAIMED, TaskState.BLOCKED)


@dataclass(frozen=True, slots=True)
class KnownProject:
    """A project that the database knows."""

    project: ProjectId
    name: str
    archived_at: datetime | None


async def find_project(conn: Connection, name: str) -> ProjectId | None:
    """Return a project's number by its name, archived or not; None when there is none."""
    return await conn.fetchval(_FIND, name)


async def look_at_project(conn: Connection, own: ProjectId, name: str | None, *, hold: bool) -> KnownProject | None:
    """Return the project of a name, or `own` without one; None when there is none.

    With `hold` nobody can archive it before the transaction ends: the lock is the one that every new task takes anyway.
    """
    row = await conn.fetchrow(_HOLD if hold else _LOOK, own, name)
    return None if row is None else _known(row)


async def project_names(conn: Connection, limit: int) -> list[str]:
    """Return the names of projects that are not archived, in order."""
    return [row["name"] for row in await conn.fetch(_NAMES, limit)]


async def create_project(conn: Connection, name: str, description: str | None) -> ProjectId | None:
    """Insert a project; None when the name is taken."""
    return await conn.fetchval(_CREATE, name, description)


async def lock_project(conn: Connection, name: str) -> KnownProject | None:
    """Return a project once no transaction is writing tasks to it, and keep them waiting until this one ends."""
    row = await conn.fetchrow(_LOCK, name)
    return None if row is None else _known(row)


async def busy_tasks(conn: Connection, project: ProjectId, limit: int) -> list[str]:
    """Return the names of the first tasks of a project that somebody works on, or waits with for a card."""
    return [task_name(TaskId(row["id"])) for row in await conn.fetch(_BUSY, project, limit)]


async def archive_project(conn: Connection, project: ProjectId, *, back: bool) -> bool:
    """Archive a project or bring it back; say whether that changed anything."""
    return await conn.execute(_ARCHIVE, project, not back) == "UPDATE 1"


async def switch_session(conn: Connection, session: SessionId, project: ProjectId) -> None:
    """Let a session belong to another project from now on."""
    await conn.execute(_SWITCH, session, project)


async def read_projects(
    conn: Connection, current: ProjectId, *, only: ProjectId | None = None, archived: bool = False
) -> list[ProjectView]:
    """Return projects with their progress, in order of name, archived ones last and only where they are asked for."""
    rows = await conn.fetch(_LIST, only, archived)
    found = {row["id"]: row for row in await conn.fetch(_PROGRESS, [row["id"] for row in rows])}
    return [_view(row, found[row["id"]], is_current=row["id"] == current) for row in rows]


def _known(row: Record) -> KnownProject:
    return KnownProject(ProjectId(row["id"]), row["name"], row["archived_at"])


def _view(row: Record, progress: Record, *, is_current: bool) -> ProjectView:
    counts: dict[str, int] = progress["counts"]
    waiting = sum(counts.get(state.value, 0) for state in _WAITING) + progress["retried"]
    return ProjectView(
        project=row["name"],
        description=row["description"],
        created_at=row["created_at"],
        counts={state.value: counts[state.value] for state in TaskState if state.value in counts},
        open=waiting,
        done=counts.get(TaskState.DONE.value, 0),
        percent=percent_of(counts, waiting),
        is_current=is_current,
        overdue=progress["overdue"],
        escalations=progress["escalations"],
        completed_at=row["completed_at"],
        archived_at=row["archived_at"],
    )
