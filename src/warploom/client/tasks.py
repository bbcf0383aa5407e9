"""Calls about tasks: write them, look at them, wait for them."""

from collections.abc import Sequence

from warploom.client.calls import Calls, part, query_of
from warploom.domain.task_answers import AwaitAnswer, ManyAnswer, ReadyAnswer, TaskAnswer, TaskLine
from warploom.domain.tasks import TaskChanges, TaskWish


class TaskCalls(Calls):
    """Calls about tasks."""

    def create_task(self, wish: TaskWish, project: str | None = None) -> TaskAnswer:
        """Write a task; the answer is the one that was there when it says `deduplicated`."""
        body = {name: getattr(wish, name) for name in TaskWish.__slots__} | {"project": project}
        return self._call("POST", "/api/v1/tasks", TaskAnswer, body)

    def update_task(self, task: str, changes: TaskChanges) -> TaskAnswer:
        """Change what is given; None leaves a field as it is, an empty text empties it."""
        return self._call("PATCH", f"/api/v1/tasks/{part(task)}", TaskAnswer, changes)

    def task(self, task: str) -> TaskAnswer:
        """Read one task whole."""
        return self._call("GET", f"/api/v1/tasks/{part(task)}", TaskAnswer)

    def tasks(self, state: str | None = None, limit: int = 50, project: str | None = None) -> list[TaskLine]:
        """List tasks in one state, or in several with commas between."""
        path = f"/api/v1/tasks{query_of(state=state, limit=limit, project=project)}"
        return self._call("GET", path, list[TaskLine])

    def ready(self, priority: str | None = None, limit: int = 10, project: str | None = None) -> ReadyAnswer:
        """List what may be claimed now; with nothing, why."""
        path = f"/api/v1/tasks/ready{query_of(priority=priority, limit=limit, project=project)}"
        return self._call("GET", path, ReadyAnswer)

    def wait_ready(self, seconds: float = 25, project: str | None = None) -> ReadyAnswer:
        """Answer as soon as something may be claimed, or after `seconds` (at most 55) with nothing."""
        return self._poll("/api/v1/tasks/ready/wait", ReadyAnswer, seconds, project=project)

    def wait_tasks(self, tasks: Sequence[str], seconds: float = 25) -> AwaitAnswer:
        """Answer as soon as all tasks are over, or after `seconds` (at most 55) with where they stand."""
        return self._poll("/api/v1/tasks/wait", AwaitAnswer, seconds, task=list(tasks))

    def comment(self, task: str, text: str) -> TaskAnswer:
        """Say something about a task that others will read with it."""
        return self._call("POST", f"/api/v1/tasks/{part(task)}/comments", TaskAnswer, {"text": text})

    def idea(self, title: str, context: str | None = None, project: str | None = None) -> TaskAnswer:
        """Note something for the backlog, outside the graph."""
        body = {"title": title, "context": context, "project": project}
        return self._call("POST", "/api/v1/ideas", TaskAnswer, body)

    def promote(self, task: str) -> ManyAnswer:
        """Make a task of an idea."""
        return self._call("POST", f"/api/v1/tasks/{part(task)}/promote", ManyAnswer, {})

    def drop(self, task: str) -> TaskAnswer:
        """Take an idea out of the backlog."""
        return self._call("POST", f"/api/v1/tasks/{part(task)}/drop", TaskAnswer, {})
