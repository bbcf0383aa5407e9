"""Calls of who claims tasks: take them, show progress, finish them."""

from collections.abc import Sequence

from warploom.client.calls import Calls, part
from warploom.domain.claims import ClaimAnswer, StepAnswer
from warploom.domain.outputs import Output
from warploom.domain.task_answers import ManyAnswer


class ClaimCalls(Calls):
    """Calls about claims. `lease` may be left out where the task's lease is the caller's own."""

    def claim(
        self,
        task: str | None = None,
        count: int = 1,
        life_seconds: float | None = None,
        project: str | None = None,
    ) -> ClaimAnswer:
        """Claim one task, or the next `count` that fit; a task that needs a card may have to wait in its queue."""
        body = {"task": task, "count": count, "life_seconds": life_seconds, "project": project}
        return self._call("POST", "/api/v1/claims", ClaimAnswer, body)

    def claim_several(self, tasks: Sequence[str], life_seconds: float | None = None) -> ManyAnswer:
        """Claim each of several tasks on its own."""
        body = {"tasks": list(tasks), "life_seconds": life_seconds}
        return self._call("POST", "/api/v1/claims/batch", ManyAnswer, body)

    def heartbeat_task(
        self, task: str, lease: str | None = None, progress: str | None = None, percent: int | None = None
    ) -> StepAnswer:
        """Push a claim's expiry out, and say how far it is."""
        body = {"lease": lease, "progress": progress, "percent": percent}
        return self._call("POST", f"/api/v1/tasks/{part(task)}/heartbeat", StepAnswer, body)

    def done(
        self, task: str, lease: str | None = None, output: Output = None, branch_name: str | None = None
    ) -> StepAnswer:
        """Finish a task; its cards are given back and what waited for it becomes ready."""
        body = {"lease": lease, "output": output, "branch_name": branch_name}
        return self._call("POST", f"/api/v1/tasks/{part(task)}/done", StepAnswer, body)

    def fail(self, task: str, reason: str, failure: str | None = None, lease: str | None = None) -> StepAnswer:
        """Say that an attempt failed; its class and the attempts left decide whether there is another."""
        body = {"lease": lease, "reason": reason, "failure": failure}
        return self._call("POST", f"/api/v1/tasks/{part(task)}/fail", StepAnswer, body)

    def escalate(self, task: str, message: str, lease: str | None = None) -> StepAnswer:
        """Stop with a question that a person has to answer; the claim is given back."""
        body = {"lease": lease, "message": message}
        return self._call("POST", f"/api/v1/tasks/{part(task)}/escalate", StepAnswer, body)
