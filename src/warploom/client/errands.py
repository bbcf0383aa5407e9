"""Calls about errands: have a host end the processes of a lease, and wait for what came of it."""

from warploom.client.calls import Calls, part
from warploom.domain.errands import ErrandAnswer, ErrandView, KillWish


class ErrandCalls(Calls):
    """Calls about errands; asking for one needs the operators' key where keys are set."""

    def kill(self, lease: str, wish: KillWish, *, preview: bool = False) -> ErrandAnswer:
        """Have its host end all processes of a lease; with `preview` only say what that would mean."""
        body = {"reason": wish.reason, "grace_seconds": wish.grace_seconds, "preview": preview}
        return self._call("POST", f"/api/v1/leases/{part(lease)}/kill", ErrandAnswer, body)

    def probe(self, card: str, reason: str | None = None, *, preview: bool = False) -> ErrandAnswer:
        """Have its host use a card (`host/index`) a little; with `preview` only say what that would mean."""
        host, _, index = card.partition("/")
        path = f"/api/v1/cards/{part(host)}/{part(index)}/probe"
        return self._call("POST", path, ErrandAnswer, {"reason": reason, "preview": preview})

    def errand(self, errand: str, seconds: float = 0) -> ErrandView:
        """Wait up to `seconds` (at most 55) for what comes of an errand."""
        return self._poll(f"/api/v1/errands/{part(errand)}", ErrandView, seconds)
