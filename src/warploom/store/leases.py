"""Leases: accepted, extended, reported on and ended, always by naming a lease that is still live."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, LiteralString

from warploom.domain.breaker import JobFailure
from warploom.domain.etas import Pace
from warploom.domain.failures import FailureClass
from warploom.domain.histories import Past
from warploom.domain.identifiers import AgentId, CardId, HostId, LeaseId, ProjectId, SessionId, TaskId, ticket_name
from warploom.domain.leases import LeaseEnd, LeaseFate, LeaseState
from warploom.domain.tasks import TaskKind, TaskState
from warploom.store.cards import read_pace, read_past
from warploom.store.database import Connection, Record

_GET: Final[LiteralString] = """
select lease.id, lease.task_id, task.title, task.kind::text, task.attempts, task.max_attempts, task.project_id,
  task.run_time, task.past_lengths, lease.agent_id, agent.name as agent, lease.session_id,
  lease.state::text, lease.accepted_at, lease.granted_at, lease.expires_at, lease.expected_end, lease.ended_at, lease.ended::text,
  clock_now() as now, progress.step, progress.total, progress.rate, progress.spread, progress.reported_at,
  array(select lease_card.card_id from lease_card where lease_card.lease_id = lease.id order by 1) as cards,
  array(
    select distinct card.host_id from lease_card join card on card.id = lease_card.card_id where lease_card.lease_id = lease.id order by 1
  ) as hosts,
  array(
    select host.name || '/' || card.index
    from lease_card join card on card.id = lease_card.card_id join host on host.id = card.host_id
    where lease_card.lease_id = lease.id
    order by card.index
  ) as card_names
from lease
join task on task.id = lease.task_id
join agent on agent.id = lease.agent_id
left join progress on progress.lease_id = lease.id
where lease.id = $1
"""

_ACCEPT: Final[LiteralString] = """
with accepted as (
  update lease
  set state = 'active', accepted_at = clock_now(), session_id = coalesce($2, lease.session_id),
    delivered_at = coalesce(lease.delivered_at, clock_now()),
    delivered_by = coalesce(lease.delivered_by, case when $2 is null then 'job' else 'answer' end::delivery_way),
    expected_end = clock_now() + task.run_time, expires_at = clock_now() + coalesce(lease.life, $3::interval)
  from task
  where lease.id = $1 and lease.state = 'offered' and task.id = lease.task_id
    and ($4 or lease.expires_at > clock_now())
  returning lease.id, lease.task_id
), counted as (
  update task set attempts = task.attempts + 1 from accepted where task.id = accepted.task_id
)
select id from accepted
"""

_RENEW: Final[LiteralString] = """
update lease set expires_at = greatest(expires_at, clock_now() + coalesce(life, $3::interval)), session_id = coalesce($2, session_id)
where id = $1 and state = 'active'
"""

_EXTEND: Final[LiteralString] = """
update lease
set expected_end = greatest(coalesce(expected_end, clock_now()), clock_now()) + $2::interval
where id = $1 and state = 'active'
returning expected_end
"""

_REPORT: Final[LiteralString] = """
insert into progress (lease_id, step, total, rate, spread, reported_at)
select lease.id, $2, $3, $4, $5, $6 from lease where lease.id = $1 and lease.state <> 'ended'
on conflict (lease_id) do update
set step = excluded.step, total = excluded.total, rate = excluded.rate, spread = excluded.spread, reported_at = excluded.reported_at
"""

_LOCK_CARDS: Final[LiteralString] = """
select id from card
where host_id in (
  select card.host_id from lease_card join card on card.id = lease_card.card_id where lease_card.lease_id = $1
)
order by id
for no key update
"""

_LOCK: Final[LiteralString] = "select id from lease where id = any($1::bigint[]) order by id for no key update"

_END: Final[LiteralString] = """
with ended as (
  update lease set state = 'ended', ended_at = clock_now(), ended = $2::text::lease_end
  where id = $1 and state <> 'ended'
    and case $2::text
      when 'expired' then state = 'active' and expires_at <= clock_now()
      when 'lapsed' then state = 'offered' and expires_at <= clock_now()
      else true
    end
  returning id, task_id, accepted_at, ended_at
), moved as (
  update task
  set state = $3::text::task_state, lease_id = null, outcome = $4,
    finished_at = case when $3::text in ('done', 'failed', 'cancelled', 'dead_letter') then clock_now() end,
    missed_offers = case when $2::text = 'lapsed' then task.missed_offers + 1 else 0 end,
    agent_id = case when $6 then null else task.agent_id end,
    session_id = case when $6 then null else task.session_id end,
    failure = $7::text::failure_class, retry_at = clock_now() + $8::interval,
    escalated_at = case when $3::text = 'blocked' then clock_now() end,
    attempts = case when $9 then 0 else task.attempts end
  from ended
  where task.id = ended.task_id and task.lease_id = ended.id
  returning task.missed_offers, task.retry_at, task.project_id, task.title
), freed as (
  update card
  set condition = case when $5 and condition in ('clear', 'occupied') then 'settling' else condition end,
    condition_since = case when $5 and condition in ('clear', 'occupied') then clock_now() else condition_since end,
    service = case when service = 'draining' then 'drained' else service end,
    service_since = case when service = 'draining' then clock_now() else service_since end,
    failures = case when $10 then '[]' else card.failures end,
    suspicion = case when $10 then null else card.suspicion end,
    suspected_at = case when $10 then null else card.suspected_at end,
    awaits_probe = card.awaits_probe and not $10
  from ended
  join lease_card on lease_card.lease_id = ended.id
  where card.id = lease_card.card_id
), ran as (
  insert into run (lease_id, project_id, job, model, length, ended_at)
  select ended.id, moved.project_id, moved.title, first.model, ended.ended_at - ended.accepted_at, ended.ended_at
  from ended
  cross join moved
  cross join lateral (
    select card.model from lease_card join card on card.id = lease_card.card_id where lease_card.lease_id = ended.id limit 1
  ) as first
  where $10 and ended.ended_at >= ended.accepted_at
), kept as (
  update promise set came_at = ended.ended_at
  from ended
  where promise.lease_id = ended.id and promise.came_at is null and $10
)
select ended.ended_at, moved.missed_offers, moved.retry_at from ended left join moved on true
"""

_DUE: Final[LiteralString] = """
select id from lease
where state <> 'ended' and state = $1::text::lease_state and expires_at <= clock_now()
order by expires_at
limit 100
"""

_SEEN: Final[LiteralString] = """
with seen as (
  select lease.id, lease.life from lease where lease.id = any($1::bigint[]) and lease.state = 'active' order by lease.id for update
)
update lease set expires_at = greatest(lease.expires_at, clock_now() + coalesce(seen.life, $2::interval)) from seen where lease.id = seen.id
"""

_SPARE: Final[LiteralString] = """
with due as (
  select id from lease where state <> 'ended' and expires_at < clock_now() + $1::interval order by id for update
)
update lease set expires_at = clock_now() + $1::interval from due where lease.id = due.id
"""

_SHORTEN: Final[LiteralString] = """
with ahead as (
  select id, expires_at, clock_now() + case state when 'offered' then $2::interval else coalesce(life, $1::interval) end as latest
  from lease
  where state <> 'ended'
    and expires_at > clock_now() + case state when 'offered' then $2::interval else coalesce(life, $1::interval) end + $3::interval
  order by id
  limit 100
  for update
)
update lease set expires_at = ahead.latest from ahead where lease.id = ahead.id
returning lease.id, ahead.expires_at - ahead.latest as by
"""

_FATE: Final[LiteralString] = """
select lease.id, lease.ended_at, lease.ended::text, lease.task_id, task.kind <> 'gpu' as is_task,
  (
    select 'L-' || next.id || ' (' || agent.name || ')'
    from lease as next join agent on agent.id = next.agent_id
    where next.task_id = lease.task_id and next.state <> 'ended'
  ) as successor,
  array(
    select host.name || '/' || card.index
    from lease_card join card on card.id = lease_card.card_id join host on host.id = card.host_id
    where lease_card.lease_id = lease.id order by card.index
  ) as cards,
  array(
    select distinct 'L-' || now_held.lease_id || ' (' || agent.name || ')'
    from lease_card
    join lease_card as now_held on now_held.card_id = lease_card.card_id and now_held.live
    join lease as next on next.id = now_held.lease_id
    join agent on agent.id = next.agent_id
    where lease_card.lease_id = lease.id
  ) as holders,
  (
    select min(place) from (
      select 1 + (
        select count(*) from queue as ahead
        where ahead.card_id = own.card_id and (ahead.order_key, ahead.task_id) < (own.order_key, own.task_id)
      ) as place
      from queue as own where own.task_id = lease.task_id
    ) as places
  ) as place
from lease
join task on task.id = lease.task_id
where lease.id = $1 and lease.state = 'ended'
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as the database has it."""

    lease: LeaseId
    task: TaskId
    title: str
    kind: TaskKind
    attempts: int
    max_attempts: int
    project: ProjectId
    run: timedelta | None
    agent: AgentId
    agent_name: str
    session: SessionId
    state: LeaseState
    accepted_at: datetime | None
    expires_at: datetime
    expected_end: datetime | None
    ended_at: datetime | None
    end: LeaseEnd | None
    now: datetime
    pace: Pace | None
    past: Past
    cards: list[CardId]
    hosts: list[HostId]
    card_names: list[str]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a lease ends: why, what becomes of its task, and whether its cards must settle before the next grant."""

    end: LeaseEnd
    task_state: TaskState
    outcome: str | None = None
    was_used: bool = True
    frees_task: bool = False
    """Whether anybody may claim the task afterwards."""
    failure: FailureClass | None = None
    retry_in: timedelta | None = None
    forgets_attempts: bool = False
    went_well: bool = False
    """Whether its job succeeded, so that earlier failures no longer speak against its cards."""
    job_failure: JobFailure | None = None
    """How its job failed, where its holder said so."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A lease that was just ended, how many offers its ticket has missed, and when its task is tried again."""

    at: datetime
    missed: int
    retry_at: datetime | None
    verdicts: list[str] = field(default_factory=list[str])
    """What became of its cards because of how its job failed."""


async def get_lease(conn: Connection, lease: LeaseId) -> Lease | None:
    """Read one lease, or None when there never was one of that number."""
    row = await conn.fetchrow(_GET, lease)
    return _lease(row) if row else None


async def accept_lease(
    conn: Connection, lease: LeaseId, session: SessionId | None, lease_time: timedelta, *, even_late: bool = False
) -> bool:
    """Turn an offer into an active lease; False when it is no open offer.

    An offer past its deadline is only accepted with `even_late`: its process is on the card already.
    """
    return await conn.fetchval(_ACCEPT, lease, session, lease_time, even_late) is not None


async def renew_lease(conn: Connection, lease: LeaseId, session: SessionId | None, lease_time: timedelta) -> None:
    """Push an active lease's expiry out, and make the session that named it, if any, the one whose life counts."""
    await conn.execute(_RENEW, lease, session, lease_time)


async def extend_lease(conn: Connection, lease: LeaseId, by: timedelta) -> datetime | None:
    """Move the declared end out by `by`, from now when it has passed; None when the lease is not active."""
    return await conn.fetchval(_EXTEND, lease, by)


async def save_pace(conn: Connection, lease: LeaseId, pace: Pace) -> None:
    """Keep what a holder reported, in one narrow row."""
    await conn.execute(_REPORT, lease, pace.step, pace.total, pace.rate, pace.spread, pace.reported_at)


async def lock_cards_of(conn: Connection, lease: LeaseId) -> None:
    """Lock every card of a lease's hosts, as `lock_cards` does."""
    await conn.execute(_LOCK_CARDS, lease)


async def lock_leases(conn: Connection, leases: Sequence[LeaseId]) -> None:
    """Lock leases, after the cards and before the tasks; what was read before may be stale."""
    await conn.execute(_LOCK, list(leases))


async def end_lease(conn: Connection, lease: LeaseId, ending: Ending) -> Ended | None:
    """End a live lease, move its task and free its cards, in one statement; None when there was nothing to end.

    Expiry and lapse happen only once the database's clock says so. A draining card is drained by it.
    """
    row = await conn.fetchrow(
        _END,
        lease,
        ending.end.value,
        ending.task_state.value,
        ending.outcome,
        ending.was_used,
        ending.frees_task,
        ending.failure.value if ending.failure else None,
        ending.retry_in,
        ending.forgets_attempts,
        ending.went_well,
    )
    return Ended(row["ended_at"], row["missed_offers"] or 0, row["retry_at"]) if row else None


async def due_leases(conn: Connection, state: LeaseState) -> list[LeaseId]:
    """List the live leases in `state` whose time is over, the longest overdue first."""
    return [LeaseId(row["id"]) for row in await conn.fetch(_DUE, state.value)]


async def spare_leases(conn: Connection, span: timedelta) -> int:
    """Let no lease and no offer end within `span`; return how many would have."""
    return int((await conn.execute(_SPARE, span)).rpartition(" ")[2])


async def shorten_ahead(
    conn: Connection, lease_time: timedelta, offer_time: timedelta, margin: timedelta
) -> dict[LeaseId, timedelta]:
    """Give leases that would live more than `margin` longer than a sign of life gives just that; return by how much less."""
    rows = await conn.fetch(_SHORTEN, lease_time, offer_time, margin)
    return {LeaseId(row["id"]): row["by"] for row in rows}


async def renew_seen(conn: Connection, leases: list[LeaseId], lease_time: timedelta) -> None:
    """Push out the leases whose own processes a survey saw."""
    await conn.execute(_SEEN, leases, lease_time)


async def fate_of(conn: Connection, lease: LeaseId) -> LeaseFate | None:
    """Read what became of an ended lease, or None when it is live or never was."""
    row = await conn.fetchrow(_FATE, lease)
    if row is None:
        return None
    return LeaseFate(
        lease=row["id"],
        ended_at=row["ended_at"],
        end=LeaseEnd(row["ended"]),
        cards=row["cards"],
        holders=row["holders"],
        ticket=ticket_name(row["task_id"]),
        waiting_place=row["place"],
        is_task=row["is_task"],
        successor=row["successor"],
    )


def _lease(row: Record) -> Lease:
    return Lease(
        lease=LeaseId(row["id"]),
        task=TaskId(row["task_id"]),
        title=row["title"],
        kind=TaskKind(row["kind"]),
        attempts=row["attempts"],
        max_attempts=row["max_attempts"],
        project=ProjectId(row["project_id"]),
        run=row["run_time"],
        agent=AgentId(row["agent_id"]),
        agent_name=row["agent"],
        session=SessionId(row["session_id"]),
        state=LeaseState(row["state"]),
        accepted_at=row["accepted_at"],
        expires_at=row["expires_at"],
        expected_end=row["expected_end"],
        ended_at=row["ended_at"],
        end=LeaseEnd(row["ended"]) if row["ended"] else None,
        now=row["now"],
        pace=read_pace(row),
        past=read_past(row),
        cards=[CardId(card) for card in row["cards"]],
        hosts=[HostId(host) for host in row["hosts"]],
        card_names=row["card_names"],
    )
