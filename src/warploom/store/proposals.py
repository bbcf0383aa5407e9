"""Proposals: made, answered, and closed by what became of them; locked after cards, leases and tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString

from warploom.domain.identifiers import AgentId, CardId, LeaseId, ProjectId, ProposalId, ReservationId, TaskId
from warploom.domain.proposals import Party, Proposal, ProposalKind, ProposalState, Terms
from warploom.store.database import Connection, Record

_COLUMNS: Final[LiteralString] = """
  proposal.id, proposal.kind::text, proposal.state::text, proposal.project_id,
  proposal.proposer_id, proposer.name as proposer, proposal.partner_id, partner.name as partner,
  proposal.lease_id, proposal.task_id, proposal.other_task_id, proposal.reservation_id,
  proposal.at_step, proposal.at_moment, proposal.length, proposal.reason, proposal.made_at, proposal.expires_at,
  proposal.answered_at, proposal.answer, proposal.due_at, proposal.closed_at, clock_now() as now,
  coalesce(lease.agent_id, reservation.agent_id) as owner_id, reservation.ends_at as window_end,
  array(
    select host.name || '/' || card.index
    from card join host on host.id = card.host_id
    where card.id = reservation.card_id
      or card.id in (select lease_card.card_id from lease_card where lease_card.lease_id = proposal.lease_id)
      or proposal.kind = 'swap' and card.id in (select queue.card_id from queue where queue.task_id = proposal.task_id)
    order by host.name, card.index
  ) as cards
"""

_FROM: Final[LiteralString] = """
from proposal
join agent as proposer on proposer.id = proposal.proposer_id
join agent as partner on partner.id = proposal.partner_id
left join lease on lease.id = proposal.lease_id
left join reservation on reservation.id = proposal.reservation_id
"""

_GET: Final[LiteralString] = f"select {_COLUMNS} {_FROM} where proposal.id = $1"

_LOCK: Final[LiteralString] = "select id from proposal where id = $1 for update"

_OF_AGENT: Final[LiteralString] = f"""
select {_COLUMNS} {_FROM}
where proposal.id in (
  select id from proposal where proposer_id = $1 and state in ('open', 'accepted')
  union all
  select id from proposal where partner_id = $1 and state in ('open', 'accepted')
)
order by proposal.id
limit $2
"""

_OPEN: Final[LiteralString] = f"""
select {_COLUMNS} {_FROM} where proposal.state in ('open', 'accepted') order by proposal.id limit $1
"""

_OF_LEASE: Final[LiteralString] = f"""
select {_COLUMNS} {_FROM} where proposal.lease_id = $1 and proposal.state = 'accepted'
"""

_INSERT: Final[LiteralString] = """
insert into proposal (
  kind, project_id, proposer_id, partner_id, lease_id, task_id, other_task_id, reservation_id, at_step, at_moment, length,
  reason, expires_at, replaces_id
)
values ($1::text::proposal_kind, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, clock_now() + $13::interval, $14)
on conflict do nothing
returning id
"""

_RIVAL: Final[LiteralString] = """
select id from proposal
where state = 'open'
  and least(proposer_id, partner_id) = least($1::bigint, $2::bigint)
  and greatest(proposer_id, partner_id) = greatest($1::bigint, $2::bigint)
  and coalesce(lease_id, 0) = coalesce($3::bigint, 0)
  and coalesce(reservation_id, 0) = coalesce($4::bigint, 0)
  and (case when kind = 'swap' then least(task_id, other_task_id) else 0 end) = $5::bigint
  and (case when kind = 'swap' then greatest(task_id, other_task_id) else 0 end) = $6::bigint
"""

_COUNT_OPEN: Final[LiteralString] = "select count(*) from proposal where proposer_id = $1 and state = 'open'"

_COUNT_LATELY: Final[LiteralString] = """
select count(*) from proposal where proposer_id = $1 and partner_id = $2 and made_at > clock_now() - $3::interval
"""

_ANSWER: Final[LiteralString] = """
update proposal
set state = $2::text::proposal_state, answered_at = clock_now(), answer = $3,
  closed_at = case when $2::text <> 'accepted' then clock_now() end,
  due_at = case when $2::text = 'accepted' and at_step is null and at_moment is null then clock_now() end
where id = $1 and state = 'open' and expires_at > clock_now()
returning id
"""

_WITHDRAW: Final[LiteralString] = """
update proposal set state = 'withdrawn', closed_at = clock_now(), answer = coalesce($2, answer)
where id = $1 and state in ('open', 'accepted')
returning id
"""

_DUE: Final[LiteralString] = """
update proposal set due_at = clock_now() where id = $1 and state = 'accepted' and due_at is null returning id
"""

_KEEP: Final[LiteralString] = """
update proposal set state = 'kept', closed_at = clock_now() where id = $1 and state = 'accepted' returning id
"""

_IS_DUE: Final[LiteralString] = """
  proposal.state = 'open' and (
    proposal.expires_at <= clock_now() or lease.state = 'ended' or task.state <> 'ready' or other.state <> 'ready'
    or reservation.ends_at <= clock_now() or reservation.given_up_at is not null
  )
  or proposal.state = 'accepted' and (
    lease.state = 'ended' or task.state <> 'ready' or proposal.due_at <= clock_now() - $1::interval
    or proposal.due_at is null and proposal.at_moment <= clock_now()
  )
"""

_JUDGED: Final[LiteralString] = """
from proposal
left join lease on lease.id = proposal.lease_id
left join task on task.id = proposal.task_id
left join task as other on other.id = proposal.other_task_id
left join reservation on reservation.id = proposal.reservation_id
"""

_ANY_DUE: Final[LiteralString] = f"""
select exists (select {_JUDGED} where proposal.state in ('open', 'accepted') and ({_IS_DUE}))
"""

_TURN: Final[LiteralString] = f"""
with judged as (
  select proposal.id,
    case
      when proposal.state = 'open' then 'lapsed'
      when lease.state = 'ended' then 'kept'
      when task.state <> 'ready' then 'lapsed'
      when proposal.due_at is not null then 'broken'
      else 'accepted'
    end::proposal_state as verdict
  {_JUDGED}
  where proposal.state in ('open', 'accepted') and ({_IS_DUE})
  order by proposal.id
  limit 100
  for update of proposal skip locked
)
update proposal
set state = judged.verdict,
  due_at = case when judged.verdict = 'accepted' then clock_now() else proposal.due_at end,
  closed_at = case when judged.verdict <> 'accepted' then clock_now() end
from judged
where proposal.id = judged.id
returning proposal.id
"""

_WAITING: Final[LiteralString] = """
select task.id
from task
where task.agent_id = $1 and task.state in ('ready', 'claimed', 'blocked') and task.state = 'ready'
  and exists (select from queue where queue.task_id = task.id and queue.card_id = any($2::bigint[]))
order by task.order_key, task.id
limit 1
"""

_TWIN: Final[LiteralString] = """
select task.id
from task
where task.agent_id = $1 and task.state in ('ready', 'claimed', 'blocked') and task.state = 'ready'
  and exists (select from queue where queue.task_id = task.id)
  and array(select queue.card_id from queue where queue.task_id = task.id order by 1)
    = array(select queue.card_id from queue where queue.task_id = $2 order by 1)
order by task.order_key, task.id
limit 1
"""

_LOCK_TASKS: Final[LiteralString] = "select id from task where id = any($1::bigint[]) order by id for no key update"

_BETWEEN: Final[LiteralString] = """
select count(distinct middle.task_id)
from queue as ahead
join queue as behind on behind.card_id = ahead.card_id and behind.task_id = $2
join queue as middle on middle.card_id = ahead.card_id
  and (middle.order_key, middle.task_id) > (ahead.order_key, ahead.task_id)
  and (middle.order_key, middle.task_id) < (behind.order_key, behind.task_id)
where ahead.task_id = $1
"""

_PLACE: Final[LiteralString] = """
with placed as (
  update task set order_key = given.order_key
  from unnest($1::bigint[], $2::timestamptz[]) as given (task_id, order_key)
  where task.id = given.task_id and task.state = 'ready'
  returning task.id, given.order_key
)
update queue set order_key = placed.order_key from placed where queue.task_id = placed.id
"""

_BOUND: Final[LiteralString] = """
update task set run_time = least(run_time, $2::interval) where id = $1 and state = 'ready'
"""

_SHORTEN: Final[LiteralString] = """
update reservation set ends_at = ends_at - $2::interval
where id = $1 and over_at is null and given_up_at is null and ends_at - $2::interval > greatest(clock_now(), starts_at)
returning id
"""

_REST: Final[LiteralString] = """
insert into reservation (card_id, agent_id, title, starts_at, ends_at)
select card_id, $2, title, ends_at, ends_at + $3::interval from reservation where id = $1
returning id
"""

_PRUNE: Final[LiteralString] = """
delete from proposal where id in (select id from proposal where closed_at < clock_now() - $1::interval limit $2)
"""


@dataclass(frozen=True, slots=True)
class NewProposal:
    """A proposal about to be written."""

    project: ProjectId
    proposer: AgentId
    partner: AgentId
    terms: Terms
    reason: str
    patience: timedelta
    lease: LeaseId | None = None
    ticket: TaskId | None = None
    other_ticket: TaskId | None = None
    reservation: ReservationId | None = None
    replaces: ProposalId | None = None


async def get_proposal(conn: Connection, proposal: ProposalId) -> Proposal | None:
    """Read one, or None when there is none of that number."""
    row = await conn.fetchrow(_GET, proposal)
    return _proposal(row) if row else None


async def lock_proposal(conn: Connection, proposal: ProposalId) -> None:
    """Lock one, after cards, leases and tasks; what was read before may be stale."""
    await conn.execute(_LOCK, proposal)


async def proposals_of(conn: Connection, agent: AgentId, limit: int) -> list[Proposal]:
    """Read those from or to an agent that are open or in force, oldest first."""
    return [_proposal(row) for row in await conn.fetch(_OF_AGENT, agent, limit)]


async def open_proposals(conn: Connection, limit: int) -> list[Proposal]:
    """Read everybody's that are open or in force, oldest first."""
    return [_proposal(row) for row in await conn.fetch(_OPEN, limit)]


async def agreement_of(conn: Connection, lease: LeaseId) -> Proposal | None:
    """Read what the holder of a lease has agreed to."""
    row = await conn.fetchrow(_OF_LEASE, lease)
    return _proposal(row) if row else None


async def insert_proposal(conn: Connection, new: NewProposal) -> ProposalId | None:
    """Write one; None when one about the same is open between the two already."""
    return await conn.fetchval(
        _INSERT,
        new.terms.kind.value,
        new.project,
        new.proposer,
        new.partner,
        new.lease,
        new.ticket,
        new.other_ticket,
        new.reservation,
        new.terms.step,
        new.terms.moment,
        new.terms.length,
        new.reason,
        new.patience,
        new.replaces,
    )


async def rival_of(conn: Connection, new: NewProposal) -> ProposalId | None:
    """Return the open proposal between the same two about the same."""
    pair = sorted([new.ticket, new.other_ticket]) if new.ticket and new.other_ticket else [0, 0]
    return await conn.fetchval(_RIVAL, new.proposer, new.partner, new.lease, new.reservation, *pair)


async def count_open(conn: Connection, proposer: AgentId) -> int:
    """Count the open ones that an agent has made."""
    return await conn.fetchval(_COUNT_OPEN, proposer)


async def count_lately(conn: Connection, proposer: AgentId, partner: AgentId, within: timedelta) -> int:
    """Count those that an agent has lately made to another."""
    return await conn.fetchval(_COUNT_LATELY, proposer, partner, within)


async def answer_proposal(conn: Connection, proposal: ProposalId, state: ProposalState, why: str | None) -> bool:
    """Close an open one as declined or kept, or put it in force; False when it is not open any more.

    What happens as soon as it can is due at once.
    """
    return await conn.fetchval(_ANSWER, proposal, state.value, why) is not None


async def withdraw_proposal(conn: Connection, proposal: ProposalId, why: str | None) -> bool:
    """Withdraw one that is open or in force; False when it is neither."""
    return await conn.fetchval(_WITHDRAW, proposal, why) is not None


async def note_due(conn: Connection, proposal: ProposalId) -> bool:
    """Note that the step or moment of an agreement is reached; False when that was noted already."""
    return await conn.fetchval(_DUE, proposal) is not None


async def keep_proposal(conn: Connection, proposal: ProposalId) -> bool:
    """Close an agreement that was kept."""
    return await conn.fetchval(_KEEP, proposal) is not None


async def is_any_due(conn: Connection, grace: timedelta) -> bool:
    """Say whether time or events have decided about any proposal."""
    return bool(await conn.fetchval(_ANY_DUE, grace))


async def turn_proposals(conn: Connection, grace: timedelta) -> list[Proposal]:
    """Close what lapsed, was kept or was broken, note what is due, each once; return them as they are then."""
    turned = await conn.fetch(_TURN, grace)
    found = [await get_proposal(conn, ProposalId(row["id"])) for row in turned]
    return sorted((each for each in found if each is not None), key=lambda each: each.proposal)


async def ticket_waiting_for(conn: Connection, agent: AgentId, cards: Sequence[CardId]) -> TaskId | None:
    """Return the first ticket with which an agent waits for any of these cards."""
    return await conn.fetchval(_WAITING, agent, list(cards))


async def twin_of(conn: Connection, agent: AgentId, ticket: TaskId) -> TaskId | None:
    """Return the first ticket of an agent that stands in the very queues in which another one stands."""
    return await conn.fetchval(_TWIN, agent, ticket)


async def lock_tasks(conn: Connection, tasks: Sequence[TaskId]) -> None:
    """Lock tasks, after the cards and leases."""
    await conn.execute(_LOCK_TASKS, list(tasks))


async def count_between(conn: Connection, ahead: TaskId, behind: TaskId) -> int:
    """Count the tickets that stand between two in any queue."""
    return await conn.fetchval(_BETWEEN, ahead, behind)


async def place_tickets(conn: Connection, keys: dict[TaskId, datetime]) -> None:
    """Give ready tickets other order keys, in all of their queues."""
    await conn.execute(_PLACE, list(keys), list(keys.values()))


async def bound_run(conn: Connection, ticket: TaskId, run: timedelta) -> None:
    """Let a waiting ticket's run be declared no longer than this."""
    await conn.execute(_BOUND, ticket, run)


async def split_reservation(
    conn: Connection, reservation: ReservationId, asker: AgentId, length: timedelta
) -> ReservationId | None:
    """Give the last part of a window to somebody else; None when it has no such part any more."""
    if await conn.fetchval(_SHORTEN, reservation, length) is None:
        return None
    return await conn.fetchval(_REST, reservation, asker, length)


async def prune_proposals(conn: Connection, age: timedelta, limit: int) -> int:
    """Forget those that were closed so long ago; return how many went."""
    return int((await conn.execute(_PRUNE, age, limit)).rpartition(" ")[2])


def _proposal(row: Record) -> Proposal:
    return Proposal(
        proposal=ProposalId(row["id"]),
        state=ProposalState(row["state"]),
        project=ProjectId(row["project_id"]),
        proposer=Party(AgentId(row["proposer_id"]), row["proposer"]),
        partner=Party(AgentId(row["partner_id"]), row["partner"]),
        terms=Terms(ProposalKind(row["kind"]), row["at_step"], row["at_moment"], row["length"]),
        reason=row["reason"],
        made_at=row["made_at"],
        expires_at=row["expires_at"],
        answered_at=row["answered_at"],
        answer=row["answer"],
        due_at=row["due_at"],
        closed_at=row["closed_at"],
        now=row["now"],
        lease=LeaseId(row["lease_id"]) if row["lease_id"] is not None else None,
        ticket=TaskId(row["task_id"]) if row["task_id"] is not None else None,
        other_ticket=TaskId(row["other_task_id"]) if row["other_task_id"] is not None else None,
        reservation=ReservationId(row["reservation_id"]) if row["reservation_id"] is not None else None,
        window_end=row["window_end"],
        owner=AgentId(row["owner_id"]) if row["owner_id"] is not None else None,
        cards=row["cards"],
    )
