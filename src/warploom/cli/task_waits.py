"""Waiting for tasks: until they are over, or until there is one to claim."""

import time
from collections.abc import Callable
from typing import TypeVar

from warploom.cli.answers import tell_notices
from warploom.cli.exits import Exit
from warploom.cli.outcomes import end_line
from warploom.cli.output import note, present
from warploom.cli.task_answers import ready_lines
from warploom.cli.waits import POLL_SECONDS
from warploom.cli.ways import Way
from warploom.client.connection import Client
from warploom.domain.task_answers import AwaitAnswer, ReadyAnswer
from warploom.domain.tasks import TaskState

T = TypeVar("T")


class TaskWatch:
    """One waiting of a command: where to, until when, and how patient with a server that is away."""

    def __init__(self, way: Way[Client], deadline: float | None, patience: float) -> None:
        self.way = way
        self.deadline = deadline
        self.patience = patience

    def until_over(self, names: list[str], *, quiet: bool) -> AwaitAnswer:
        """Return how tasks ended once all are over, or how they stand at the deadline."""
        answer = self.way.call(lambda client: client.wait_tasks(names, 0))
        if answer.timed_out and not quiet:
            for task in answer.tasks:
                note(end_line(task))
        return self._poll(answer, lambda seen: seen.timed_out, lambda client, left: client.wait_tasks(names, left))

    def until_ready(self) -> ReadyAnswer:
        """Return what may be claimed once there is something, or nothing at the deadline."""
        answer = self.way.call(lambda client: client.wait_ready(0))
        return self._poll(answer, lambda seen: not seen.tasks, lambda client, left: client.wait_ready(left))

    def _poll(self, answer: T, is_early: Callable[[T], bool], ask: Callable[[Client, float], T]) -> T:
        while is_early(answer):
            left = POLL_SECONDS if self.deadline is None else self.deadline - time.monotonic()
            if left <= 0:
                return answer
            seconds = min(left, POLL_SECONDS)
            answer = self.way.insist(lambda client, seconds=seconds: ask(client, seconds), self.patience)
        return answer


def show_ends(answer: AwaitAnswer, *, as_json: bool) -> int:
    """Say how the tasks that were waited for ended, and return the exit code for that."""
    late = ["The time given has passed; run it again to go on waiting."] if answer.timed_out else []
    present(answer, [*map(end_line, answer.tasks), *late], as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
    if answer.timed_out:
        return Exit.TIMED_OUT
    return Exit.DONE if all(task.state is TaskState.DONE for task in answer.tasks) else Exit.ENDED


def show_ready(answer: ReadyAnswer, *, as_json: bool) -> int:
    """Say what may be claimed, and return the exit code for that."""
    present(answer, ready_lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
    return Exit.DONE if answer.tasks else Exit.TIMED_OUT
