"""Calls of a session about itself."""

from warploom.client.calls import Calls
from warploom.domain.deliveries import DeliveryWay
from warploom.domain.tickets import Heartbeat, Me


class SessionCalls(Calls):
    """Calls about the session that makes them."""

    def me(self) -> Me:
        """What this session holds, waits for and has not read."""
        return self._call("GET", "/api/v1/me", Me)

    def heartbeat(self, push: DeliveryWay | None = None) -> Heartbeat:
        """Show a sign of life, which pushes the session's leases out; with `push` take what is to be pushed that way."""
        return self._call("POST", "/api/v1/heartbeat", Heartbeat, {"push": push})
