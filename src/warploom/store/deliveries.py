"""Deliveries: noted on the lease once, by whichever way comes first."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, LiteralString

from warploom.domain.deliveries import DeliveryWay
from warploom.domain.identifiers import LeaseId, MessageId
from warploom.store.database import Connection

_DELIVER: Final[LiteralString] = """
with delivered as (
  update lease set delivered_at = clock_now(), delivered_by = $2::text::delivery_way
  where id = any($1::bigint[]) and state = 'offered' and delivered_at is null and expires_at > clock_now()
    and granted_at <= clock_now() - $3::interval
  returning id, task_id, session_id, agent_id
), noted as (
  insert into event (kind, project_id, task_id, lease_id, session_id, card_ids, facts)
  select 'lease.delivered', task.project_id, task.id, delivered.id, delivered.session_id, coalesce(held.cards, '{}'),
    jsonb_build_object('agent', agent.name, 'title', task.title, 'cards', held.names, 'way', $4::text)
  from delivered
  join task on task.id = delivered.task_id
  join agent on agent.id = delivered.agent_id
  cross join lateral (
    select array_agg(card.id order by card.id) as cards, string_agg(host.name || '/' || card.index, ', ' order by card.id) as names
    from lease_card join card on card.id = lease_card.card_id join host on host.id = card.host_id
    where lease_card.lease_id = delivered.id
  ) as held
)
select id from delivered
"""

_PUSH: Final[LiteralString] = """
update message set pushed_at = clock_now() where id = any($1::bigint[]) and pushed_at is null and read_at is null returning id
"""


async def note_delivery(
    conn: Connection, leases: Sequence[LeaseId], way: DeliveryWay, grace: timedelta, text: str
) -> set[LeaseId]:
    """Note that open offers have reached their sessions, with an event; return those that no other way had reached before.

    One statement and one round trip: of all who try at once, one wins. Offers younger than `grace` are left for later.
    """
    rows = await conn.fetch(_DELIVER, list(leases), way.value, grace, text)
    return {LeaseId(row["id"]) for row in rows}


async def note_pushed(conn: Connection, messages: Sequence[MessageId]) -> set[MessageId]:
    """Note that unread messages were pushed; return those that had not been before."""
    return {MessageId(row["id"]) for row in await conn.fetch(_PUSH, list(messages))}
