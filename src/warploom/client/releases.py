"""Calls of operators about other people's leases."""

from warploom.client.calls import Calls, part
from warploom.domain.leases import ForcedAnswer


class ReleaseCalls(Calls):
    """Calls about leases that need the operators' key where keys are set."""

    def force_release(self, lease: str, reason: str, *, preview: bool = False) -> ForcedAnswer:
        """End the record of somebody's lease; with `preview` only say what that would mean."""
        body = {"reason": reason, "preview": preview}
        return self._call("POST", f"/api/v1/leases/{part(lease)}/force-release", ForcedAnswer, body)
