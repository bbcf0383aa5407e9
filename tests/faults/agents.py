"""Agents: clients with sessions of their own, which hear of offers by their heartbeats and remember what they hold."""

from dataclasses import dataclass, field
from typing import Any

import httpx

from support.serving import Caller

ANSWER_SECONDS = 10.0

Exports = dict[str, str]


@dataclass(slots=True)
class Agent:
    """One agent: the tickets it waits with, what it was offered, what it holds, and what it held."""

    name: str
    caller: Caller
    tickets: set[str] = field(default_factory=set[str])
    offers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    leases: dict[str, Exports] = field(default_factory=dict[str, Exports])
    past: dict[str, Exports] = field(default_factory=dict[str, Exports])
    is_silent: bool = False

    def call(self, method: str, path: str, **body: Any) -> dict[str, Any] | None:
        """Ask the server; None when it does not answer or refuses."""
        try:
            answer = self.caller.http.request(method, f"/api/v1{path}", json=body or None, timeout=ANSWER_SECONDS)
        except httpx.TransportError:
            return None
        if answer.status_code == 409 and path.startswith("/leases/"):
            self.forget(path.split("/")[2])
        assert answer.status_code in (200, 400, 403, 404, 409, 422, 503), (
            f"{method} {path}: {answer.status_code} {answer.text}"
        )
        return answer.json() if answer.status_code == 200 else None

    def beat(self) -> None:
        """Show a sign of life, and learn what is offered."""
        heard = self.call("POST", "/heartbeat")
        if heard is not None:
            self.offers = {}
            for answer in heard["grants"]:
                self.note(answer)

    def note(self, answer: dict[str, Any]) -> None:
        """Remember where a ticket stands."""
        ticket, lease, state = answer["ticket"], answer["lease"], answer["state"]
        self.tickets.discard(ticket)
        if state == "active":
            self.leases[lease] = answer["export"]
        elif state == "offered":
            self.offers[lease] = answer
        elif state in ("queued", "parked"):
            self.tickets.add(ticket)

    def accept(self, lease: str) -> None:
        """Take an offer up."""
        if self.call("POST", f"/leases/{lease}/accept") is not None:
            self.leases[lease] = self.offers.pop(lease)["export"]
        self.offers.pop(lease, None)

    def release(self, lease: str) -> None:
        """Give a lease back; it is forgotten only when the server has said so."""
        if self.call("POST", f"/leases/{lease}/release") is not None:
            self.forget(lease)

    def leave(self, ticket: str) -> None:
        """Leave the queue."""
        if self.call("DELETE", f"/tickets/{ticket}") is not None:
            self.tickets.discard(ticket)

    def forget(self, lease: str) -> None:
        """Hold a lease no longer."""
        exports = self.leases.pop(lease, None)
        if exports is not None:
            self.past[lease] = exports

    def synchronise(self) -> None:
        """Learn anew what is held and waited for."""
        me = self.call("GET", "/me")
        if me is not None:
            self.tickets, self.offers = set(), {}
            self.leases = {lease: exports for lease, exports in self.leases.items() if lease in _names(me["leases"])}
            for answer in [*me["leases"], *me["tickets"]]:
                self.note(answer)


def _names(leases: list[dict[str, Any]]) -> set[str]:
    return {each["lease"] for each in leases}
