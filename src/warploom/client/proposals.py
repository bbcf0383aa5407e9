"""Calls about proposals: make one, list them, answer one, take one back."""

from warploom.client.calls import Calls, part, query_of
from warploom.domain.proposals import ProposalAnswer, ProposalView, ProposalWish


class ProposalCalls(Calls):
    """Calls about proposals between agents."""

    def propose(self, wish: ProposalWish) -> ProposalAnswer:
        """Propose something to another agent; nothing moves before it agrees."""
        return self._call("POST", "/api/v1/proposals", ProposalAnswer, wish)

    def proposals(self, *, everybodys: bool = False) -> list[ProposalView]:
        """List what is open or agreed from and to this caller's agent; for operators everybody's."""
        return self._call("GET", f"/api/v1/proposals{query_of(everybodys=everybodys)}", list[ProposalView])

    def accept_proposal(self, proposal: str) -> ProposalAnswer:
        """Agree to what was proposed."""
        return self._call("POST", f"/api/v1/proposals/{part(proposal)}/accept", ProposalAnswer, {})

    def decline_proposal(self, proposal: str, reason: str) -> ProposalAnswer:
        """Say no, with a reason."""
        path = f"/api/v1/proposals/{part(proposal)}/decline"
        return self._call("POST", path, ProposalAnswer, {"reason": reason})

    def withdraw_proposal(self, proposal: str, reason: str | None, *, preview: bool) -> ProposalAnswer:
        """Take a proposal back; with `preview` only say what that would mean."""
        path = f"/api/v1/proposals/{part(proposal)}/withdraw"
        return self._call("POST", path, ProposalAnswer, {"reason": reason, "preview": preview})
