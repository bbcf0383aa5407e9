"""How it reads on a terminal what became of tasks, the same in every command that shows it."""

from warploom.cli.answers import clock
from warploom.domain.claims import StepAnswer
from warploom.domain.task_answers import ManyAnswer, TaskLine
from warploom.domain.texts import spoken_list


def step_lines(answer: StepAnswer) -> list[str]:
    """Say where a task stands after its holder or an operator did something with it."""
    until = f", yours until {clock(answer.expires_at)}" if answer.lease and answer.expires_at else ""
    lease = f" ({answer.lease}{until})" if answer.lease else ""
    percent = f", {answer.percent} %" if answer.percent is not None else ""
    reason = f": {answer.reason}" if answer.reason else ""
    again = f", tried again at {clock(answer.retry_at)}" if answer.retry_at else ""
    return [f"{answer.state.value:<7} {answer.task}{lease}{percent}{again}{reason}", f"{'next':<8}{answer.next}"]


def end_line(task: TaskLine) -> str:
    """Say in one line how a task stands, for somebody who waited for its end."""
    reason = f": {task.reason}" if task.reason else ""
    return f"{task.state.value:<7} {task.task} '{task.title}'{reason}"


def many_lines(answer: ManyAnswer, word: str) -> list[str]:
    """Say what became of several tasks, each on its own; `word` is what was asked for, such as cancelled."""
    done = [f"{word:<7} {spoken_list(answer.done)}"] if answer.done else []
    refused = [f"{'refused':<8}{task}: {why}" for task, why in answer.refused.items()]
    return [*done, *refused, f"{'next':<8}{answer.next}"]
