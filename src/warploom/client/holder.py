"""What a command needs of the API that asks for a card, waits for it and gives it back, and no more, so that it starts fast."""

from warploom.client.leases import LeaseCalls
from warploom.client.tickets import TicketCalls


class HolderClient(TicketCalls, LeaseCalls):
    """A connection to one server with the calls of who wants or holds cards."""
