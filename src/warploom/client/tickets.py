"""Calls about tickets: ask for cards, wait for them, leave the queue."""

from warploom.client.calls import Calls, part
from warploom.domain.standings import TicketAnswer, Wish


class TicketCalls(Calls):
    """Calls about tickets."""

    def request(self, request: Wish) -> TicketAnswer:
        """Ask for cards: a lease, or a place in the queue. Never waits."""
        return self._call("POST", "/api/v1/tickets", TicketAnswer, request)

    def explain(self, ticket: str) -> TicketAnswer:
        """Say where a ticket stands and why."""
        return self._call("GET", f"/api/v1/tickets/{part(ticket)}", TicketAnswer)

    def leave(self, ticket: str) -> TicketAnswer:
        """Take a ticket out of its queue; leaving twice is success."""
        return self._call("DELETE", f"/api/v1/tickets/{part(ticket)}", TicketAnswer)

    def wait(self, ticket: str, seconds: float = 25) -> TicketAnswer:
        """Answer as soon as the ticket is no longer queued, or after `seconds` (at most 55) with its standing."""
        return self._poll(f"/api/v1/tickets/{part(ticket)}/wait", TicketAnswer, seconds)
