"""Deliveries: what a session is pushed, and the note of how an offer first reached it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from warploom.domain.deliveries import WAY_SENTENCES, Delivery, DeliveryWay, grace_before
from warploom.domain.identifiers import LeaseId, parse_message
from warploom.domain.leases import LeaseState
from warploom.domain.messages import MessageView
from warploom.domain.sessions import Actor
from warploom.domain.standings import TicketAnswer
from warploom.domain.tickets import Heartbeat
from warploom.services.changes import EVERYTHING, Changes
from warploom.services.messages import MessageService
from warploom.services.ticket_views import show_ticket
from warploom.store import cards as card_store
from warploom.store import deliveries as delivery_store
from warploom.store import tickets as ticket_store
from warploom.store.database import Connection
from warploom.store.tickets import Ticket


class DeliveryService:
    """Tells sessions of their offers. What they ask for is always answered; what is pushed is pushed once."""

    def __init__(self, changes: Changes, messages: MessageService, url: str | None) -> None:
        self._changes = changes
        self._messages = messages
        self._url = url

    async def news(self, actor: Actor, push: DeliveryWay | None = None) -> Heartbeat:
        """Return the offers that a session has not accepted and the messages that it has not read.

        With `push` only what no way has reached it with before: of several that ask at once one gets it, and an offer is left
        for a moment to whoever waits for it. `again_in` says when the next one may be pushed.
        """
        messages = await self._messages.news(actor)
        async with self._changes.database.connection() as conn:
            offers = [ticket for ticket in await ticket_store.open_tickets(conn, actor) if _is_offered(ticket, actor)]
            if push is None:
                return Heartbeat(await self._show(conn, offers), messages)
            fresh = await deliver(conn, self._changes, offers, push)
            grants = await self._show(conn, fresh)
            return Heartbeat(grants, await _push(conn, messages), _next_push(offers, fresh, push))

    async def _show(self, conn: Connection, offers: Sequence[Ticket]) -> list[TicketAnswer]:
        if not offers:
            return []
        cards = await card_store.read_cards(conn)
        return [await show_ticket(conn, ticket, cards, self._url) for ticket in offers]


async def deliver(conn: Connection, changes: Changes, tickets: Iterable[Ticket], way: DeliveryWay) -> list[Ticket]:
    """Note that offers have reached their sessions; return the tickets whose offers no other way had reached before."""
    fresh = {LeaseId(ticket.lease): ticket for ticket in tickets if ticket.lease is not None and ticket.is_undelivered}
    if not fresh:
        return []
    won = await delivery_store.note_delivery(conn, list(fresh), way, grace_before(way), WAY_SENTENCES[way])
    if won:
        changes.bus.publish([EVERYTHING])
    return [replace(ticket, delivery=Delivery(ticket.now, way)) for lease, ticket in fresh.items() if lease in won]


def _is_offered(ticket: Ticket, actor: Actor) -> bool:
    is_open = ticket.lease_state is LeaseState.OFFERED and not ticket.offer_ran_out
    return is_open and ticket.session == actor.session


def _next_push(offers: Sequence[Ticket], pushed: Sequence[Ticket], way: DeliveryWay) -> float | None:
    """Return the seconds until the first of the offers that are left may be pushed; None where none is."""
    gone = {ticket.task for ticket in pushed}
    due = [
        (ticket.granted_at + grace_before(way) - ticket.now).total_seconds()
        for ticket in offers
        if ticket.is_undelivered and ticket.task not in gone and ticket.granted_at is not None
    ]
    return max(0.0, min(due)) if due else None


async def _push(conn: Connection, messages: Sequence[MessageView]) -> list[MessageView]:
    if not messages:
        return []
    fresh = await delivery_store.note_pushed(conn, [parse_message(each.message) for each in messages])
    return [each for each in messages if parse_message(each.message) in fresh]
