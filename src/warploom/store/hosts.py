"""Hosts and what their surveys leave on their cards."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString

from warploom.domain.card_rules import CardRules
from warploom.domain.cards import Condition, Owner
from warploom.domain.hosts import Survey
from warploom.domain.identifiers import CardId, HostId
from warploom.domain.surveys import LeaseOnHost, Remembered
from warploom.store.database import Connection

_SAVE_HOST: Final[LiteralString] = """
with before as (select id, silent_since from host where name = $1)
insert into host (name, provider, driver, version, problem, survey_seconds, clock_gap_seconds, surveyed_at, capabilities, limits)
values ($1, $2, $3, $4, $5, $6, $7::float8 - extract(epoch from clock_now())::float8, clock_now(), $8, $9)
on conflict (name) do update
set provider = excluded.provider, driver = excluded.driver, version = excluded.version, problem = excluded.problem,
  survey_seconds = excluded.survey_seconds, clock_gap_seconds = excluded.clock_gap_seconds,
  surveyed_at = excluded.surveyed_at, capabilities = excluded.capabilities, limits = excluded.limits,
  silent_since = null
returning host.id, clock_now() as now, (select id from before) is null as is_new, (select silent_since from before) as silent_since
"""

_SAVE_CARDS: Final[LiteralString] = """
insert into card (
  host_id, uuid, index, model, memory_mib, pci_bus_id, parent_uuid, condition, condition_since, condition_detail,
  observed_at, read_at, quiet_until, baseline_mib, used_mib, utilisation, processes, ecc_errors, idle_since, weight, ignored,
  hides_processes
)
select $1, uuid, index, model, memory_mib, pci_bus_id, parent_uuid, condition, condition_since, condition_detail,
  clock_now() - make_interval(secs => $3), case when answered then clock_now() - make_interval(secs => $3) end,
  quiet_until, baseline_mib, used_mib, utilisation, processes, ecc_errors, idle_since, weight, ignored, hides_processes
from jsonb_to_recordset($2) as fact (
  uuid text, index int, model text, memory_mib int, pci_bus_id text, parent_uuid text, condition card_condition,
  condition_since timestamptz, condition_detail text, quiet_until timestamptz, baseline_mib int, used_mib int,
  utilisation int, processes jsonb, ecc_errors bigint, idle_since timestamptz, answered boolean, weight float8, ignored text[],
  hides_processes boolean
)
on conflict (uuid) do update
set host_id = excluded.host_id, index = excluded.index,
  moved_from = case when card.index = excluded.index then card.moved_from when card.host_id = excluded.host_id then card.index end,
  moved_at = case when card.index = excluded.index then card.moved_at when card.host_id = excluded.host_id then clock_now() end,
  model = excluded.model, memory_mib = excluded.memory_mib,
  pci_bus_id = coalesce(excluded.pci_bus_id, card.pci_bus_id), condition = excluded.condition, condition_since = excluded.condition_since,
  condition_detail = excluded.condition_detail, observed_at = excluded.observed_at, quiet_until = excluded.quiet_until,
  read_at = coalesce(excluded.read_at, card.read_at), baseline_mib = excluded.baseline_mib,
  used_mib = case when excluded.read_at is null then card.used_mib else excluded.used_mib end,
  utilisation = case when excluded.read_at is null then card.utilisation else excluded.utilisation end,
  processes = case when excluded.read_at is null then card.processes else excluded.processes end, ecc_errors = excluded.ecc_errors,
  ecc_excused = least(card.ecc_excused, excluded.ecc_errors), idle_since = excluded.idle_since,
  idle_told = card.idle_told and excluded.idle_since is not null, weight = excluded.weight, ignored = excluded.ignored,
  hides_processes = excluded.hides_processes
returning id, uuid, (xmax = 0) as is_new
"""

_REMEMBERED: Final[LiteralString] = """
select card.uuid, card.condition::text, card.condition_since, card.baseline_mib, card.quiet_until, card.idle_since,
  exists (select from lease_card where lease_card.card_id = card.id and lease_card.live) as has_live_lease,
  exists (select from errand where errand.card_id = card.id and errand.is_open) as is_probed, card.awaits_probe,
  card.index, card.model, card.memory_mib, card.processes, card.parent_uuid, card.weight, card.ignored
from card
where card.host_id = $1
"""

_LEASES: Final[LiteralString] = """
with wanted as (
  select unnest($2::bigint[]) as id
  union
  select coalesce(
    (select lease_card.lease_id from lease_card where lease_card.card_id = card.id and lease_card.live),
    (select max(lease_card.lease_id) from lease_card where lease_card.card_id = card.id)
  )
  from card
  where card.host_id = $1
)
select lease.id, lease.session_id, lease.live,
  array(select card.uuid from lease_card join card on card.id = lease_card.card_id where lease_card.lease_id = lease.id) as uuids
from wanted
join lease on lease.id = wanted.id
"""

_SESSIONS: Final[LiteralString] = """
select id, pid, process_started from session
where host_name = $1 and (pid, process_started) in (select * from unnest($2::int[], $3::bigint[]))
"""

_LAST_HOLDERS: Final[LiteralString] = """
select card.uuid, 'L-' || lease.id || ' ''' || task.title || ''' (' || agent.name || ')' as holder, lease.ended_at
from card
cross join lateral (
  select lease_card.lease_id from lease_card where lease_card.card_id = card.id order by lease_card.lease_id desc limit 1
) as last
join lease on lease.id = last.lease_id
join task on task.id = lease.task_id
join agent on agent.id = lease.agent_id
where card.uuid = any($1::text[])
"""

_SILENT: Final[LiteralString] = """
update host set silent_since = surveyed_at
where silent_since is null
  and surveyed_at < clock_now() - greatest(3 * make_interval(secs => survey_seconds), $1::interval)
returning id, name, clock_now() - surveyed_at as silent
"""

_AHEAD: Final[LiteralString] = """
update host set surveyed_at = clock_now()
where silent_since is null and surveyed_at > clock_now() + greatest(3 * make_interval(secs => survey_seconds), $1::interval)
"""

_WANTED: Final[LiteralString] = """
select exists (
  select from card join host on host.id = card.host_id
  where host.name = $1 and card.condition = 'settling' and card.observed_at < card.condition_since
)
"""


@dataclass(frozen=True, slots=True)
class SavedHost:
    """A host after its survey was noted."""

    host: HostId
    now: datetime
    is_new: bool
    silent_since: datetime | None


@dataclass(frozen=True, slots=True)
class RememberedCard:
    """A card of a host as the last survey left it, with what is needed when the next one misses it."""

    before: Remembered
    index: int
    model: str
    memory_mib: int
    rules: CardRules
    parent_uuid: str | None = None
    awaits_probe: bool = False


@dataclass(frozen=True, slots=True)
class SilentHost:
    """A host that was just found silent."""

    host: HostId
    name: str
    silent: timedelta


async def save_host(conn: Connection, name: str, survey: Survey) -> SavedHost:
    """Note that a host reported, and how far its clock is from the database's."""
    row = await conn.fetchrow(
        _SAVE_HOST,
        name,
        survey.provider,
        survey.driver,
        survey.version,
        survey.problem,
        survey.interval_seconds,
        survey.clock,
        survey.capabilities,
        survey.limits,
    )
    assert row is not None
    return SavedHost(HostId(row["id"]), row["now"], row["is_new"], row["silent_since"])


async def remembered_cards(conn: Connection, host: HostId) -> dict[str, RememberedCard]:
    """Read what the last survey left, by card UUID."""
    rows = await conn.fetch(_REMEMBERED, host)
    return {
        row["uuid"]: RememberedCard(
            Remembered(
                Condition(row["condition"]),
                row["condition_since"],
                row["baseline_mib"],
                row["quiet_until"],
                row["has_live_lease"],
                row["idle_since"],
                frozenset(each["session"] for each in row["processes"] if each["owner"] == Owner.UNLEASED),
                row["is_probed"],
            ),
            row["index"],
            row["model"],
            row["memory_mib"],
            CardRules(row["weight"], row["ignored"]),
            row["parent_uuid"],
            row["awaits_probe"],
        )
        for row in rows
    }


async def leases_on_host(conn: Connection, host: HostId, named: list[int]) -> dict[int, LeaseOnHost]:
    """Read each card's live or last lease, and the leases that processes name, by number."""
    rows = await conn.fetch(_LEASES, host, named)
    return {row["id"]: LeaseOnHost(row["id"], row["session_id"], frozenset(row["uuids"]), row["live"]) for row in rows}


async def last_holders(conn: Connection, uuids: list[str]) -> dict[str, tuple[str, datetime | None]]:
    """Say of each of these cards who held it last ('L-41 'train' (claude-1)'), and until when."""
    return {row["uuid"]: (row["holder"], row["ended_at"]) for row in await conn.fetch(_LAST_HOLDERS, uuids)}


async def sessions_of_processes(
    conn: Connection, host: str, processes: list[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """Map those of these (pid, started) pairs that are a session's process on this host to the session."""
    pids, starts = [pid for pid, _ in processes], [started for _, started in processes]
    rows = await conn.fetch(_SESSIONS, host, pids, starts)
    return {(row["pid"], row["process_started"]): row["id"] for row in rows}


async def save_cards(
    conn: Connection, host: HostId, facts: list[dict[str, Any]], age_seconds: float
) -> dict[str, tuple[CardId, bool]]:
    """Save every card of a survey in one statement; return by UUID its number and whether it is new.

    `age_seconds` is how long ago the look began: a card counts as observed then, not now.
    """
    rows = await conn.fetch(_SAVE_CARDS, host, facts, age_seconds)
    return {row["uuid"]: (CardId(row["id"]), row["is_new"]) for row in rows}


async def mark_silent(conn: Connection, least: timedelta) -> list[SilentHost]:
    """Mark hosts that have missed their surveys as silent; each is returned once.

    What was surveyed before the clock was set back counts from now: a host that is gone is missed no later for it.
    """
    await conn.execute(_AHEAD, least)
    rows = await conn.fetch(_SILENT, least)
    return [SilentHost(HostId(row["id"]), row["name"], row["silent"]) for row in rows]


_READ_HOSTS: Final[LiteralString] = """
select id, name, provider, driver, version, problem, survey_seconds, clock_gap_seconds, surveyed_at, silent_since, limits,
  surveyed_at >= clock_now() - 3 * make_interval(secs => survey_seconds) as is_present
from host
order by id
"""


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host as the database has it. The clock gap is how far the host's clock is ahead of the database's."""

    host: HostId
    name: str
    provider: str
    driver: str | None
    version: str
    problem: str | None
    survey_seconds: float
    clock_gap_seconds: float | None
    surveyed_at: datetime
    silent_since: datetime | None
    is_present: bool
    limits: tuple[str, ...]


async def read_hosts(conn: Connection) -> list[HostRow]:
    """Read every host, in the order in which they first reported."""
    return [
        HostRow(
            HostId(row["id"]),
            row["name"],
            row["provider"],
            row["driver"],
            row["version"],
            row["problem"],
            row["survey_seconds"],
            row["clock_gap_seconds"],
            row["surveyed_at"],
            row["silent_since"],
            row["is_present"],
            tuple(row["limits"]),
        )
        for row in await conn.fetch(_READ_HOSTS)
    ]


async def wants_survey(conn: Connection, name: str) -> bool:
    """Say whether a card of this host was released since it was last looked at."""
    return bool(await conn.fetchval(_WANTED, name))
