"""Calls of who holds a lease: take it up, say how far the job is, give the cards back."""

from warploom.client.calls import Calls, part
from warploom.domain.leases import LeaseAnswer


class LeaseCalls(Calls):
    """Calls about leases."""

    def accept(self, lease: str) -> LeaseAnswer:
        """Take up an offer."""
        return self._call("POST", f"/api/v1/leases/{part(lease)}/accept", LeaseAnswer, {})

    def extend(self, lease: str, minutes: float, reason: str) -> LeaseAnswer:
        """Say that a job needs `minutes` more, and why, so that the queue's estimates stay honest."""
        body = {"minutes": minutes, "reason": reason}
        return self._call("POST", f"/api/v1/leases/{part(lease)}/extend", LeaseAnswer, body)

    def report(self, lease: str, step: int, total: int | None = None) -> LeaseAnswer:
        """Report how far a job is."""
        body = {"step": step, "total": total}
        return self._call("POST", f"/api/v1/leases/{part(lease)}/report", LeaseAnswer, body)

    def release(
        self, lease: str, error: str | None = None, failure: str | None = None, *, keep_place: bool = False
    ) -> LeaseAnswer:
        """Give the cards back; releasing twice is success. `error` says how the job failed, where it did.

        With `keep_place` the ticket waits on, right behind the first.
        """
        body = {"keep_place": keep_place, "error": error, "failure": failure}
        return self._call("POST", f"/api/v1/leases/{part(lease)}/release", LeaseAnswer, body)
