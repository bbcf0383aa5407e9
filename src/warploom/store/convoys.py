"""Several callers' claims, and several callers' endings, in one statement: little more than what one alone costs."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from warploom.domain.identifiers import AgentId, LeaseId, ProjectId, SessionId, TaskId
from warploom.domain.sessions import Actor
from warploom.store.claims import (
    CLAIMED,
    FIRST,
    NOWHERE,
    RETURNED,
    THESE,
    ClaimRules,
    Finished,
    Place,
    claim_next,
    finish_task,
    place_of,
    read_claimed,
)
from warploom.store.database import Connection, Record
from warploom.store.tasks import Task

# The parameters are those of a single claim, with lists of takers for the one: each takes the task of its place. The lists
# are not unnested: joined by their place they would be read once for every task.
_CLAIM: Final[LiteralString] = f"""
with {FIRST}, taken as materialized (
  select id, (row_number() over ())::int as place from first
), leased as (
  insert into lease (task_id, session_id, agent_id, state, accepted_at, life, expires_at)
  select id, ($2::bigint[])[place], ($3::bigint[])[place], 'active', clock_now(), ($4::interval[])[place],
    clock_now() + coalesce(($4::interval[])[place], $5::interval)
  from taken
  returning id, task_id, session_id, agent_id, expires_at
), claimed as (
  update task
  set state = 'claimed', lease_id = leased.id, agent_id = leased.agent_id, session_id = leased.session_id,
    attempts = task.attempts + 1
  from leased
  where task.id = leased.task_id and {THESE}
  returning {RETURNED}, task.session_id
), told as (
  insert into event (kind, project_id, task_id, lease_id, session_id, facts)
  select 'task.claimed', project_id, id, lease_id, session_id,
    jsonb_build_object('agent', ($6::text[])[array_position($2::bigint[], session_id)], 'title', title)
  from claimed
)
select {CLAIMED}
"""

# Whatever waits for these tasks is locked first, in one order, so that two convoys never wait for one another.
_FINISH: Final[LiteralString] = """
with held as materialized (
  select lease.id, lease.task_id, lease.session_id, lease.agent_id, place
  from lease cross join lateral (select array_position($1::bigint[], lease.task_id) as place) as given
  where lease.task_id = any($1::bigint[]) and lease.state <> 'ended' and lease.state = 'active'
    and lease.id = coalesce(($2::bigint[])[place], lease.id)
    and lease.agent_id = coalesce(($3::bigint[])[place], lease.agent_id)
    and lease.session_id = coalesce(($4::bigint[])[place], lease.session_id)
    and not exists (select from lease_card where lease_card.lease_id = lease.id)
  order by lease.id
  for update of lease
), due as materialized (
  select id from task where id in (select task_id from held) order by id for update
), behind as materialized (
  select id from task
  where id in (select dependency.task_id from due join dependency on dependency.upstream_id = due.id)
  order by lock_place(kind, id)
  for no key update
), ended as (
  update lease set state = 'ended', ended_at = clock_now(), ended = 'done'
  from held
  where lease.id = held.id and (select count(*) from behind) >= 0
  returning lease.id, lease.task_id, held.session_id, held.agent_id, held.place
), moved as (
  update task
  set state = 'done', lease_id = null, finished_at = clock_now(), outcome = null, missed_offers = 0
  from ended
  where task.id = ended.task_id and task.lease_id = ended.id
  returning task.id, task.project_id, task.title, ended.id as lease_id, ended.session_id, ended.agent_id, ended.place
), kept as (
  insert into result (task_id, lease_id, output, branch)
  select id, lease_id, ($5::jsonb[])[place], ($6::text[])[place] from moved
  where ($5::jsonb[])[place] is not null or ($6::text[])[place] is not null
  on conflict (task_id) do update set lease_id = excluded.lease_id, output = excluded.output, branch = excluded.branch
), told as (
  insert into event (kind, project_id, task_id, lease_id, session_id, facts)
  select 'task.done', project_id, id, lease_id, session_id,
    jsonb_build_object('agent', (select name from agent where agent.id = moved.agent_id), 'title', title)
  from moved
)
select id, project_id, lease_id from moved
"""


@dataclass(frozen=True, slots=True)
class Taker:
    """Somebody who takes one task; who wants several stands there several times."""

    actor: Actor
    rules: ClaimRules


@dataclass(frozen=True, slots=True)
class Word:
    """Somebody's word that a task is done. Without a lease it must be the one of `session`."""

    task: TaskId
    lease: LeaseId | None
    agent: AgentId | None
    session: SessionId | None
    output: Any = None
    branch: str | None = None


async def claim_together(
    conn: Connection,
    project: ProjectId,
    takers: Sequence[Taker],
    *,
    watermark: Place | None = None,
    past_special: bool = False,
) -> list[tuple[Task, Place]]:
    """Claim the first tasks of a project, the first for the first taker and so on, as `claim_next` does for one of them."""
    first = takers[0]
    if all(taker == first for taker in takers):
        return await claim_next(
            conn, first.actor, first.rules, count=len(takers), watermark=watermark, past_special=past_special
        )
    rows = await conn.fetch(
        _CLAIM,
        project,
        [taker.actor.session for taker in takers],
        [taker.actor.agent for taker in takers],
        [taker.rules.asked for taker in takers],
        first.rules.setting,
        [taker.actor.agent_name for taker in takers],
        len(takers),
        past_special,
        *(watermark or NOWHERE),
    )
    mine: dict[SessionId, deque[Record]] = defaultdict(deque)
    for row in rows:
        mine[row["session_id"]].append(row)
    served = [(mine[taker.actor.session].popleft(), taker.actor) for taker in takers[: len(rows)]]
    return [(read_claimed(row, actor), place_of(row)) for row, actor in served]


async def finish_together(conn: Connection, words: Sequence[Word]) -> list[Finished | None]:
    """Finish several tasks without cards, as `finish_task` does one; of two words about one task the first counts."""
    if len(words) == 1:
        (only,) = words
        return [await finish_task(conn, only.task, only.lease, only.agent, only.session, only.output, only.branch)]
    first = {word.task: word for word in reversed(words)}
    given = list(first.values())
    rows = await conn.fetch(
        _FINISH,
        [word.task for word in given],
        [word.lease for word in given],
        [word.agent for word in given],
        [word.session for word in given],
        [word.output for word in given],
        [word.branch for word in given],
    )
    done = {TaskId(row["id"]): Finished(ProjectId(row["project_id"]), LeaseId(row["lease_id"])) for row in rows}
    return [done.get(word.task) if first[word.task] is word else None for word in words]
