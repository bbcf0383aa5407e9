"""Calls of operators who put the graph right."""

from collections.abc import Sequence

from warploom.client.calls import Calls, part, query_of
from warploom.domain.claims import StepAnswer
from warploom.domain.outputs import Output
from warploom.domain.repairs import EscalationView, RecoveryAnswer
from warploom.domain.task_answers import ManyAnswer, TaskLine


class RepairCalls(Calls):
    """Calls about repairs; they need the operators' key where keys are set."""

    def reset(self, task: str, *, clear_output: bool = False) -> StepAnswer:
        """Have a task tried again from the start, whatever became of it."""
        return self._call("POST", f"/api/v1/tasks/{part(task)}/reset", StepAnswer, {"clear_output": clear_output})

    def cancel(self, task: str, reason: str | None = None, *, cascade: bool = False) -> ManyAnswer:
        """Give a task up; with `cascade` everything behind it too."""
        body = {"reason": reason, "cascade": cascade}
        return self._call("POST", f"/api/v1/tasks/{part(task)}/cancel", ManyAnswer, body)

    def skip(self, task: str, reason: str | None = None) -> StepAnswer:
        """Let the graph go on without a task."""
        return self._call("POST", f"/api/v1/tasks/{part(task)}/skip", StepAnswer, {"reason": reason})

    def answer(self, task: str, answer: str) -> StepAnswer:
        """Answer the question a task stands still for."""
        return self._call("POST", f"/api/v1/tasks/{part(task)}/answer", StepAnswer, {"answer": answer})

    def batch_done(
        self,
        tasks: Sequence[str],
        output: Output = None,
        reason: str | None = None,
        *,
        dead_letter: bool = False,
    ) -> ManyAnswer:
        """Settle several tasks at once: done, or dead letters."""
        body = {"tasks": list(tasks), "output": output, "reason": reason, "dead_letter": dead_letter}
        return self._call("POST", "/api/v1/tasks/batch-done", ManyAnswer, body)

    def dead_letters(self, limit: int = 20, project: str | None = None) -> list[TaskLine]:
        """List the tasks that are not tried again by themselves."""
        return self._call("GET", f"/api/v1/dead-letters{query_of(limit=limit, project=project)}", list[TaskLine])

    def escalations(self, limit: int = 50, project: str | None = None) -> list[EscalationView]:
        """List the questions that nobody has answered yet, oldest first."""
        path = f"/api/v1/escalations{query_of(limit=limit, project=project)}"
        return self._call("GET", path, list[EscalationView])

    def recover(self, *, execute: bool = False) -> RecoveryAnswer:
        """Tell how every claimed task is; with `execute` put right what can be."""
        return self._call("POST", "/api/v1/recovery", RecoveryAnswer, {"execute": execute})
