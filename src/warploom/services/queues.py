"""Queues: which tickets stand in the queues of which cards."""

from collections.abc import Sequence

from warploom.domain.cards import KnownCard
from warploom.domain.tickets import CardNeed, room_for
from warploom.store import queues as queue_store
from warploom.store import tickets as ticket_store
from warploom.store.database import Connection


async def widen_queues(conn: Connection, cards: Sequence[KnownCard]) -> None:
    """Put the tickets that take any fitting card into the queues of those among `cards` that were found since they came."""
    for need in await queue_store.open_needs(conn):
        able = [card for card in cards if need.capabilities <= card.capabilities]
        fitting = room_for(CardNeed((), need.count, need.memory_mib, need.model), able)
        missing = [card.card for card in fitting if card.card not in need.candidates]
        if missing:
            await ticket_store.enqueue(conn, need.task, missing)
