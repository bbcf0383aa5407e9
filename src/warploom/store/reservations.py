"""Reservations: made, given up, begun and over. What is still to come of a card is read with the card."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString

from warploom.domain.identifiers import AgentId, CardId, HostId, ReservationId
from warploom.domain.reservations import Booking, Window
from warploom.domain.sessions import Actor
from warploom.store.database import Connection, Record

_COLUMNS: Final[LiteralString] = """
  reservation.id, reservation.card_id, card.host_id, host.name || '/' || card.index as card,
  reservation.agent_id, agent.name as agent, reservation.title, reservation.starts_at, reservation.ends_at,
  reservation.given_up_at is not null as is_given_up, clock_now() as now
"""

_FROM: Final[LiteralString] = """
from reservation
join card on card.id = reservation.card_id
join host on host.id = card.host_id
join agent on agent.id = reservation.agent_id
"""

_GET: Final[LiteralString] = f"select {_COLUMNS} {_FROM} where reservation.id = $1"

_OPEN: Final[LiteralString] = f"""
select {_COLUMNS} {_FROM}
where reservation.over_at is null and reservation.given_up_at is null and reservation.ends_at > clock_now()
order by reservation.starts_at, reservation.id
limit $1
"""

_COUNT: Final[LiteralString] = """
select count(*) from reservation where agent_id = $1 and over_at is null and given_up_at is null and ends_at > clock_now()
"""

_INSERT: Final[LiteralString] = """
insert into reservation (card_id, agent_id, session_id, starts_at, ends_at, title) values ($1, $2, $3, $4, $5, $6) returning id
"""

_GIVE_UP: Final[LiteralString] = """
update reservation set given_up_at = clock_now(), given_up_by = $2
where id = $1 and over_at is null and given_up_at is null and ends_at > clock_now()
returning id
"""

_DUE: Final[LiteralString] = """
select distinct card.host_id
from reservation
join card on card.id = reservation.card_id
where reservation.id in (
  select id from reservation where begun_at is null and over_at is null and given_up_at is null and starts_at <= clock_now()
  union all
  select id from reservation where over_at is null and given_up_at is null and ends_at <= clock_now()
)
order by 1
"""

_BEGIN: Final[LiteralString] = f"""
with begun as (
  update reservation set begun_at = clock_now()
  from card
  where card.id = reservation.card_id and card.host_id = any($1::bigint[]) and reservation.starts_at <= clock_now()
    and reservation.begun_at is null and reservation.over_at is null and reservation.given_up_at is null
  returning reservation.id
)
select {_COLUMNS} {_FROM} where reservation.id in (select id from begun) order by reservation.id
"""

_END: Final[LiteralString] = f"""
with ended as (
  update reservation set over_at = clock_now()
  from card
  where card.id = reservation.card_id and card.host_id = any($1::bigint[]) and reservation.ends_at <= clock_now()
    and reservation.over_at is null and reservation.given_up_at is null
  returning reservation.id
)
select {_COLUMNS} {_FROM} where reservation.id in (select id from ended) order by reservation.id
"""

_OF_CARDS: Final[LiteralString] = f"""
select {_COLUMNS} {_FROM}
where reservation.card_id = any($1::bigint[]) and reservation.over_at is null and reservation.given_up_at is null
  and reservation.ends_at > clock_now()
order by reservation.starts_at
"""

_PRUNE: Final[LiteralString] = """
delete from reservation where id in (
  select id from reservation where coalesce(given_up_at, ends_at) < clock_now() - $1::interval limit $2
)
"""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation as the database has it, with its card's name."""

    booking: Booking
    card_id: CardId
    host: HostId
    card: str
    is_given_up: bool
    now: datetime


async def get_reservation(conn: Connection, reservation: ReservationId) -> Reservation | None:
    """Read one, or None when there is none of that number."""
    row = await conn.fetchrow(_GET, reservation)
    return _reservation(row) if row else None


async def open_reservations(conn: Connection, limit: int) -> list[Reservation]:
    """Read those that are current or still to come, in order of time."""
    return [_reservation(row) for row in await conn.fetch(_OPEN, limit)]


async def reservations_of(conn: Connection, cards: Sequence[CardId]) -> list[Reservation]:
    """Read those of some cards that are current or still to come, in order of time."""
    return [_reservation(row) for row in await conn.fetch(_OF_CARDS, list(cards))]


async def count_open(conn: Connection, agent: AgentId) -> int:
    """Count those of an agent that are current or still to come."""
    return await conn.fetchval(_COUNT, agent)


async def insert_reservation(conn: Connection, actor: Actor, card: CardId, window: Window) -> ReservationId:
    """Promise a card for a window. The caller has locked the card and found the window free."""
    return ReservationId(
        await conn.fetchval(_INSERT, card, actor.agent, actor.session, window.starts_at, window.ends_at, window.title)
    )


async def give_up(conn: Connection, reservation: ReservationId, by: AgentId) -> bool:
    """Take a promise back; False when it was taken back already, or is over."""
    return await conn.fetchval(_GIVE_UP, reservation, by) is not None


async def due_hosts(conn: Connection) -> list[HostId]:
    """List the hosts with a window that has begun or ended and of which that was not noted yet."""
    return [HostId(row["host_id"]) for row in await conn.fetch(_DUE)]


async def note_begun(conn: Connection, hosts: Sequence[HostId]) -> list[Reservation]:
    """Note and return the windows that have begun on these hosts, each once."""
    return [_reservation(row) for row in await conn.fetch(_BEGIN, list(hosts))]


async def note_over(conn: Connection, hosts: Sequence[HostId]) -> list[Reservation]:
    """Note and return the windows that are over on these hosts, each once."""
    return [_reservation(row) for row in await conn.fetch(_END, list(hosts))]


async def prune_reservations(conn: Connection, age: timedelta, limit: int) -> int:
    """Forget those that were over so long ago; return how many went."""
    return int((await conn.execute(_PRUNE, age, limit)).rpartition(" ")[2])


def _reservation(row: Record) -> Reservation:
    return Reservation(
        Booking(
            ReservationId(row["id"]),
            AgentId(row["agent_id"]),
            row["agent"],
            row["title"],
            row["starts_at"],
            row["ends_at"],
        ),
        CardId(row["card_id"]),
        HostId(row["host_id"]),
        row["card"],
        row["is_given_up"],
        row["now"],
    )
