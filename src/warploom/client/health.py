"""Calls that ask whether a server is well."""

from warploom.client.calls import Calls
from warploom.domain.health import Check, Health


class HealthCalls(Calls):
    """Calls about the server itself."""

    def doctor(self) -> list[Check]:
        """Every check the server can make of itself and its hosts."""
        return self._call("GET", "/api/v1/doctor", list[Check])

    def health(self) -> Health:
        """Say whether the server and its database answer; raises when they don't."""
        return self._call("GET", "/health", Health, seconds=5)
