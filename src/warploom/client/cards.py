"""Calls about cards: look at all of them, take one out of service and put it back."""

from warploom.client.calls import Calls, part
from warploom.domain.cards import Rack, ServiceAnswer
from warploom.domain.errors import MalformedInput


class CardCalls(Calls):
    """Calls about cards; changing their service needs the operators' key where keys are set."""

    def rack(self) -> Rack:
        """Everything on one screen: who holds what, how far along, who waits."""
        return self._call("GET", "/api/v1/rack", Rack)

    def drain(self, card: str, reason: str | None = None, *, preview: bool = False) -> ServiceAnswer:
        """Grant nothing more on a card (`host/index`); with `preview` only say what that would mean."""
        return self._service(card, "drain", reason, preview)

    def undrain(self, card: str, reason: str | None = None, *, preview: bool = False) -> ServiceAnswer:
        """Put a card (`host/index`) back in service; with `preview` only say what that would mean."""
        return self._service(card, "undrain", reason, preview)

    def quarantine(self, card: str, reason: str, *, preview: bool = False) -> ServiceAnswer:
        """Take a card (`host/index`) out of service for its faults; with `preview` only say what that would mean."""
        return self._service(card, "quarantine", reason, preview)

    def clear(self, card: str, *, preview: bool = False) -> ServiceAnswer:
        """Put a quarantined card (`host/index`) back in service; with `preview` only say what that would mean."""
        return self._service(card, "clear", None, preview)

    def _service(self, card: str, verb: str, reason: str | None, preview: bool) -> ServiceAnswer:
        host, slash, index = card.partition("/")
        if not slash or not host or not index:
            raise MalformedInput(
                f"{card[:40]!r} is not a card.", "A card looks like local/0; `warploom status` shows them."
            )
        path = f"/api/v1/cards/{part(host)}/{part(index)}/{verb}"
        return self._call("POST", path, ServiceAnswer, {"reason": reason, "preview": preview})
