"""Queues: which tickets stand in the queues of which cards."""

from collections.abc import Sequence

from warploom.domain.cards import KnownCard
from warploom.domain.identifiers import CardId, TaskId
from warploom.domain.tickets import CardNeed, room_for
from warploom.store import cards as card_store
from warploom.store import queues as queue_store
from warploom.store import tickets as ticket_store
from warploom.store.database import Connection
from warploom.store.tasks import Task
from warploom.store.tickets import Ticket


async def widen_queues(conn: Connection, cards: Sequence[KnownCard]) -> None:
    """Put the tickets that take any fitting card into the queues of those among `cards` that were found since they came."""
    for need in await queue_store.open_needs(conn):
        able = [card for card in cards if need.capabilities <= card.capabilities]
        fitting = room_for(CardNeed((), need.count, need.memory_mib, need.model), able)
        missing = [card.card for card in fitting if card.card not in need.candidates]
        if missing:
            await ticket_store.enqueue(conn, need.task, missing)


async def requeue(conn: Connection, task: TaskId) -> None:
    """Put the ticket of an ended offer back into the queues of the cards it may use."""
    ticket = await ticket_store.get_ticket(conn, task)
    assert ticket is not None
    cards = await card_store.read_cards(conn)
    await ticket_store.enqueue(conn, task, candidates_of(ticket, cards))


def candidates_of(ticket: Ticket | Task, cards: Sequence[KnownCard]) -> list[CardId]:
    """Return the cards a ticket may use: its named ones, or all that fit it now."""
    if ticket.need_cards:
        return ticket.need_cards
    need = CardNeed((), ticket.need_count, ticket.need_memory_mib, ticket.need_model)
    able = [card for card in cards if card.capabilities.issuperset(ticket.capabilities)]
    return [card.card for card in room_for(need, able)]
