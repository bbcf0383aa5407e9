"""Plans: what they meet in the database, written whole in a few statements, and read back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, LiteralString

from warploom.domain.errors import Collision
from warploom.domain.identifiers import AgentId, ProjectId, TaskId
from warploom.domain.plan_tasks import MOST_TASKS, Neighbour, PlanTask, Reference
from warploom.domain.plans import KeptTask, Plan
from warploom.domain.tasks import HeadStarts, TaskKind, TaskState
from warploom.store.database import Connection, Record

_NEIGHBOURS: Final[LiteralString] = """
select id, kind::text, state::text, key, project_id = $1 as is_here
from task
where id = any($2::bigint[])
union
select id, kind::text, state::text, key, true
from task
where project_id = $1 and key = any($3::text[]) and state <> 'cancelled'
"""

_HOLD: Final[LiteralString] = """
select id from task where id = any($1::bigint[]) order by lock_place(kind, id) for share
"""

_NUMBERS: Final[LiteralString] = """
select array_agg(nextval(pg_get_serial_sequence('task', 'id'))) from generate_series(1, $1::int)
"""

_INSERT: Final[LiteralString] = """
insert into task (
  id, project_id, kind, state, title, context, done_when, parent_id, priority, creator_id, key, max_attempts, need_count,
  need_cards, need_memory_mib, need_model, need_resources, need_capabilities, env_style, run_time, deadline_at, head_start,
  unmet, ready_at, order_key, finished_at
)
overriding system value
select line.id, $2, line.kind, line.state, line.title, line.context, line.done_when, line.parent_id, line.priority, $3,
  line.key, line.max_attempts, line.need_count, line.need_cards, line.need_memory_mib, line.need_model, line.need_resources,
  line.need_capabilities, line.env_style, line.run_time, line.deadline_at, line.head_start,
  line.unmet, clock_now(), clock_now() - line.head_start, case when line.state = 'done' then clock_now() end
from json_to_recordset($1) as line (
  id bigint, kind task_kind, state task_state, title text, context text, done_when text, parent_id bigint, priority smallint,
  key text, max_attempts smallint, need_count smallint, need_cards bigint[], need_memory_mib int, need_model text,
  need_resources text[], need_capabilities text[], env_style env_style, run_time interval, deadline_at timestamptz,
  head_start interval, unmet int
)
on conflict do nothing
"""

_LINK: Final[LiteralString] = """
insert into dependency (task_id, upstream_id)
select * from unnest($1::bigint[], $2::bigint[]) as edge (task_id, upstream_id)
"""

_EXPORT: Final[LiteralString] = """
select task.id, task.key, task.kind::text, task.title, task.context, task.done_when, task.priority, task.parent_id,
  task.max_attempts, task.need_count, task.need_memory_mib, task.need_model, task.need_resources, task.need_capabilities,
  task.env_style::text, task.run_time, task.deadline_at,
  array(
    select host.name || '/' || card.index from card join host on host.id = card.host_id
    where card.id = any(task.need_cards) order by host.name, card.index
  ) as cards,
  array(
    select upstream_id from dependency join task as upstream on upstream.id = dependency.upstream_id
    where dependency.task_id = task.id and not waived and upstream.parent_id is distinct from task.id
    order by upstream_id
  ) as upstreams
from task
where task.project_id = $1 and task.kind in ('work', 'epic', 'barrier', 'question') and task.state <> 'cancelled'
order by task.id
limit $2
"""


@dataclass(frozen=True, slots=True)
class PlanRules:
    """What tasks of a plan have where it does not say."""

    head_starts: HeadStarts
    max_attempts: int


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """Where a plan is written, and by whom."""

    project: ProjectId
    creator: AgentId
    rules: PlanRules


async def read_neighbours(
    conn: Connection, project: ProjectId, numbers: Sequence[TaskId], keys: Sequence[str]
) -> tuple[dict[TaskId, Neighbour], dict[str, Neighbour]]:
    """Read the tasks of these numbers and those of the project with these keys: all by number, and the latter by key."""
    rows = await conn.fetch(_NEIGHBOURS, project, list(numbers), list(keys))
    wanted = set(keys)
    by_number = {TaskId(row["id"]): _neighbour(row) for row in rows}
    mine = [row for row in rows if row["is_here"] and row["key"] in wanted and row["state"] != TaskState.CANCELLED]
    return by_number, {row["key"]: by_number[TaskId(row["id"])] for row in mine}


async def hold_tasks(conn: Connection, tasks: Sequence[TaskId]) -> None:
    """Keep tasks from moving until the transaction ends."""
    if tasks:
        await conn.execute(_HOLD, list(tasks))


async def number_plan(conn: Connection, plan: Plan) -> dict[str, TaskId]:
    """Give every key of a plan a number, that of its task where there is one; numbers that go unused are no harm."""
    new = plan.new
    fresh: list[int] = await conn.fetchval(_NUMBERS, len(new)) or []
    numbers = iter(sorted(fresh))
    return {task.key: TaskId(next(numbers)) if task.known is None else task.known for task in plan.tasks}


async def write_plan(conn: Connection, place: PlanPlace, plan: Plan, numbers: Mapping[str, TaskId]) -> int:
    """Write the new tasks of a plan and its edges; return how many edges there were.

    The caller holds the lock of the project's graph and the tasks that the plan names. Raises CycleFound for a cycle
    through tasks that were there, and Collision when a task of one of these keys was created meanwhile.
    """
    new = plan.new
    if new:
        rows = [_row(task, plan, numbers, place.rules) for task in new]
        tag = await conn.execute(_INSERT, rows, place.project, place.creator)
        if int(tag.rpartition(" ")[2]) < len(new):
            raise Collision(
                "A task of one of these keys was created at the same time.", "Nothing was written; try again."
            )
    edges = sorted({(_number(owner, numbers), _number(upstream, numbers)) for owner, upstream in plan.edges})
    if edges:
        await conn.execute(_LINK, [edge[0] for edge in edges], [edge[1] for edge in edges])
    return len(edges)


async def read_project(conn: Connection, project: ProjectId) -> list[KeptTask]:
    """Read what a plan of a project would say, in order of number: its work without what was cancelled.

    Reads one task more than a plan may have.
    """
    return [_kept(row) for row in await conn.fetch(_EXPORT, project, MOST_TASKS + 1)]


def _neighbour(row: Record) -> Neighbour:
    return Neighbour(TaskId(row["id"]), TaskKind(row["kind"]), TaskState(row["state"]), row["is_here"])


def _number(reference: Reference, numbers: Mapping[str, TaskId]) -> TaskId:
    return numbers[reference] if isinstance(reference, str) else reference


def _row(task: PlanTask, plan: Plan, numbers: Mapping[str, TaskId], rules: PlanRules) -> dict[str, Any]:
    new, need = task.new, task.need
    return {
        "id": numbers[task.key],
        "kind": new.kind.value,
        "state": _first_state(task, plan).value,
        "title": new.title,
        "context": new.context,
        "done_when": new.done_when,
        "parent_id": None if task.parent is None else _number(task.parent, numbers),
        "priority": int(new.priority),
        "key": task.key,
        "max_attempts": new.max_attempts or rules.max_attempts,
        "need_count": need.count if need else 0,
        "need_cards": list(task.cards),
        "need_memory_mib": need.memory_mib if need else None,
        "need_model": need.model if need else None,
        "need_resources": list(new.resources),
        "need_capabilities": list(new.capabilities),
        "env_style": new.needs.env_style,
        "run_time": _interval(new.run),
        "deadline_at": new.deadline.isoformat() if new.deadline else None,
        "head_start": _interval(rules.head_starts.of(new.priority)),
        "unmet": plan.unmet[task.key],
    }


def _interval(span: timedelta | None) -> str | None:
    return None if span is None else f"{span / timedelta(microseconds=1):.0f} microseconds"


def _first_state(task: PlanTask, plan: Plan) -> TaskState:
    if task.key in plan.met:
        return TaskState.DONE
    return TaskState.PENDING if task.new.kind is TaskKind.EPIC or plan.unmet[task.key] else TaskState.READY


def _kept(row: Record) -> KeptTask:
    return KeptTask(
        task=TaskId(row["id"]),
        key=row["key"],
        kind=TaskKind(row["kind"]),
        title=row["title"],
        context=row["context"],
        done_when=row["done_when"],
        priority=row["priority"],
        parent=row["parent_id"],
        max_attempts=row["max_attempts"],
        need_count=row["need_count"],
        memory_mib=row["need_memory_mib"],
        model=row["need_model"],
        resources=row["need_resources"],
        capabilities=row["need_capabilities"],
        env_style=row["env_style"],
        run=row["run_time"],
        deadline=row["deadline_at"],
        cards=row["cards"],
        upstreams=[TaskId(upstream) for upstream in row["upstreams"]],
    )
