"""Cards with their host and live lease: locked for grants, read for everything else."""

from datetime import datetime
from typing import Any, Final, LiteralString

from warploom.domain.agreements import Agreement
from warploom.domain.card_rules import CardRules
from warploom.domain.cards import Condition, KnownCard, KnownHolder, Owner, ProcessView, Service
from warploom.domain.deliveries import read_delivery
from warploom.domain.etas import Pace
from warploom.domain.histories import Past
from warploom.domain.identifiers import AgentId, CardId, HostId, ReservationId, lease_name
from warploom.domain.leases import LeaseState
from warploom.domain.reservations import Booking
from warploom.store.database import Connection, Record

_LOCK: Final[LiteralString] = "select id from card where host_id = any($1::bigint[]) order by id for no key update"

_READ: Final[LiteralString] = """
select card.id, card.host_id, host.name as host, card.index, card.uuid, card.model, card.memory_mib,
  card.service::text, card.service_reason, card.service_since,
  card.condition::text, card.condition_since, card.condition_detail, card.observed_at,
  card.observed_at between clock_now() - 2 * make_interval(secs => host.survey_seconds)
    and clock_now() + 2 * make_interval(secs => host.survey_seconds) as is_fresh,
  card.used_mib, card.utilisation, card.processes, host.capabilities, card.moved_from, card.moved_at, card.idle_since, card.read_at,
  card.suspicion, card.suspected_at,
  card.pci_bus_id, card.parent_uuid, card.weight, card.ignored, card.hides_processes,
  lease.id as lease_id, lease.task_id, task.title, task.kind <> 'gpu' as is_task, agent.name as agent,
  lease.session_id, session.client, session.directory,
  lease.state::text as lease_state, lease.granted_at, lease.accepted_at, lease.expires_at, lease.expected_end, heartbeat.seen_at,
  task.run_time, task.past_lengths,
  lease.delivered_at, lease.delivered_by::text,
  progress.step, progress.total, progress.rate, progress.spread, progress.reported_at,
  array(
    select row(reservation.id, owner.id, owner.name, reservation.title, reservation.starts_at, reservation.ends_at)
    from reservation join agent as owner on owner.id = reservation.agent_id
    where reservation.card_id = card.id and reservation.over_at is null and reservation.given_up_at is null
      and reservation.ends_at > clock_now()
    order by reservation.ends_at
  ) as bookings,
  proposal.id as proposal_id, asker.name as asker, proposal.at_step, proposal.at_moment, proposal.length
from card
join host on host.id = card.host_id
left join lease_card on lease_card.card_id = card.id and lease_card.live
left join lease on lease.id = lease_card.lease_id
left join task on task.id = lease.task_id
left join agent on agent.id = lease.agent_id
left join session on session.id = lease.session_id
left join heartbeat on heartbeat.session_id = lease.session_id
left join progress on progress.lease_id = lease.id
left join proposal on proposal.lease_id = lease.id and proposal.state = 'accepted'
left join agent as asker on asker.id = case proposal.proposer_id when lease.agent_id then proposal.partner_id else proposal.proposer_id end
where $1::bigint[] is null or card.host_id = any($1::bigint[])
order by host.id, card.index, card.id
"""

_SET_SERVICE: Final[LiteralString] = """
update card set service = $2::text::card_service, service_reason = $3, service_since = clock_now()
where id = $1 and service in ('in_service', 'draining', 'drained') and service <> $2::text::card_service
returning id
"""


_QUARANTINE: Final[LiteralString] = """
update card set service = 'quarantined', service_reason = $2, service_since = clock_now()
where id = $1 and service <> 'quarantined'
returning id
"""

_CLEAR: Final[LiteralString] = """
update card
set service = 'in_service', service_reason = null, service_since = clock_now(), ecc_excused = coalesce(ecc_errors, ecc_excused),
  failures = '[]', suspicion = null, suspected_at = null, awaits_probe = false
where id = $1 and service = 'quarantined'
returning id
"""

_SETTLE: Final[LiteralString] = """
update card set condition = 'settling', condition_since = clock_now(), condition_detail = 'it is probed'
where id = $1 and condition = 'clear'
"""

_UNEXCUSED: Final[LiteralString] = "select greatest(coalesce(ecc_errors, 0) - ecc_excused, 0) from card where id = $1"

_RENEW_EVIDENCE: Final[LiteralString] = """
update card set service_reason = $2 where id = $1 and service = 'quarantined'
"""

_REMIND: Final[LiteralString] = """
update card set idle_told = true
where id = any($1::bigint[]) and not idle_told and exists (select from queue where queue.card_id = card.id)
returning id
"""


async def lock_cards(conn: Connection, hosts: list[HostId]) -> None:
    """Lock every card of these hosts, in the one order that all writers use: cards, then tasks, then leases.

    What is read before this statement may be stale; read again after it.
    """
    await conn.execute(_LOCK, hosts)


async def read_cards(conn: Connection, hosts: list[HostId] | None = None) -> list[KnownCard]:
    """Read the cards of these hosts (all when None), ordered by host and index."""
    return [_card(row) for row in await conn.fetch(_READ, hosts)]


async def set_service(conn: Connection, card: CardId, service: Service, reason: str | None) -> bool:
    """Put a card in service or take it out; False when it was so already or is quarantined."""
    return await conn.fetchval(_SET_SERVICE, card, service.value, reason) is not None


async def quarantine(conn: Connection, card: CardId, reason: str) -> bool:
    """Take a card out of service because of its faults; False when it was so already."""
    return await conn.fetchval(_QUARANTINE, card, reason) is not None


async def clear_quarantine(conn: Connection, card: CardId) -> bool:
    """Put a quarantined card back in service; the errors counted so far no longer speak against it. False when it was not."""
    return await conn.fetchval(_CLEAR, card) is not None


async def renew_evidence(conn: Connection, card: CardId, reason: str) -> None:
    """Keep a quarantined card out on new evidence, since when it was."""
    await conn.execute(_RENEW_EVIDENCE, card, reason)


async def unexcused_errors(conn: Connection, card: CardId) -> int:
    """Return how many memory errors a card counts that nobody has excused."""
    return await conn.fetchval(_UNEXCUSED, card) or 0


async def settle(conn: Connection, card: CardId) -> None:
    """Let a clear card be granted only once it was observed clear again."""
    await conn.execute(_SETTLE, card)


async def note_reminded(conn: Connection, idle: list[CardId]) -> list[CardId]:
    """Note that the holders of these idle cards are told; return those with whom it was not noted yet and others wait."""
    return [CardId(row["id"]) for row in await conn.fetch(_REMIND, idle)]


def _card(row: Record) -> KnownCard:
    return KnownCard(
        card=CardId(row["id"]),
        host_id=HostId(row["host_id"]),
        host=row["host"],
        index=row["index"],
        uuid=row["uuid"],
        model=row["model"],
        memory_mib=row["memory_mib"],
        service=Service(row["service"]),
        service_reason=row["service_reason"],
        service_since=row["service_since"],
        condition=Condition(row["condition"]),
        condition_since=row["condition_since"],
        condition_detail=row["condition_detail"],
        observed_at=row["observed_at"],
        is_fresh=row["is_fresh"],
        used_mib=row["used_mib"],
        utilisation=row["utilisation"],
        processes=[_process(each) for each in row["processes"]],
        pci_bus_id=row["pci_bus_id"],
        parent_uuid=row["parent_uuid"],
        capabilities=frozenset(row["capabilities"]),
        moved_from=row["moved_from"],
        moved_at=row["moved_at"],
        idle_since=row["idle_since"],
        read_at=row["read_at"],
        rules=CardRules(row["weight"], row["ignored"]),
        suspicion=row["suspicion"],
        suspected_at=row["suspected_at"],
        hides_processes=row["hides_processes"],
        holder=_holder(row) if row["lease_id"] is not None else None,
        bookings=tuple(
            Booking(ReservationId(number), AgentId(agent), name, title, starts_at, ends_at)
            for number, agent, name, title, starts_at, ends_at in row["bookings"]
        ),
    )


def _holder(row: Record) -> KnownHolder:
    return KnownHolder(
        lease=row["lease_id"],
        task=row["task_id"],
        title=row["title"],
        agent=row["agent"],
        session=row["session_id"],
        client=row["client"],
        directory=row["directory"],
        state=LeaseState(row["lease_state"]),
        granted_at=row["granted_at"],
        expires_at=row["expires_at"],
        expected_end=row["expected_end"],
        seen_at=row["seen_at"] or row["granted_at"],
        pace=read_pace(row),
        is_task=row["is_task"],
        agreement=read_agreement(row),
        past=read_past(row),
        delivery=read_delivery(row["delivered_at"], row["delivered_by"]),
    )


def read_pace(row: Record) -> Pace | None:
    """Read the progress columns of a row, or None when nothing was reported."""
    reported_at: datetime | None = row["reported_at"]
    if reported_at is None:
        return None
    return Pace(row["step"], row["total"], row["rate"], row["spread"], reported_at)


def read_agreement(row: Record) -> Agreement | None:
    """Read the columns of a holder's agreement, or None when there is none."""
    if row["proposal_id"] is None:
        return None
    return Agreement(row["proposal_id"], row["asker"], row["at_step"], row["at_moment"], row["length"])


def read_past(row: Record) -> Past:
    """Read how long earlier runs of a lease's purpose took, when it started, and whether its end was moved since."""
    started: datetime | None = row["accepted_at"]
    run, expected = row["run_time"], row["expected_end"]
    is_moved = started is not None and expected is not None and (run is None or expected != started + run)
    return Past(row["past_lengths"], started, is_moved)


def _process(entry: dict[str, Any]) -> ProcessView:
    lease = entry.get("lease")
    return ProcessView(
        entry["pid"],
        Owner(entry["owner"]),
        entry["text"],
        entry.get("user"),
        entry.get("memory_mib"),
        None if lease is None else lease_name(lease),
        entry.get("started"),
    )
