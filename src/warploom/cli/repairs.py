"""`warploom reset`, `cancel`, `answer`, `escalations`, `dead-letter` and `batch-done`: putting the graph right by hand."""

from collections.abc import Callable
from typing import Annotated

import typer

from warploom.cli.answers import clock, tell_notices
from warploom.cli.claims import parse_output
from warploom.cli.exits import Exit
from warploom.cli.options import Json, Output, Task, Tasks, WhyNot
from warploom.cli.outcomes import many_lines, step_lines
from warploom.cli.output import present
from warploom.cli.reach import Reach
from warploom.cli.task_answers import list_lines
from warploom.cli.tasks import split
from warploom.client.connection import Client
from warploom.domain.claims import StepAnswer
from warploom.domain.errors import MalformedInput
from warploom.domain.identifiers import parse_task, task_name
from warploom.domain.repairs import EscalationView
from warploom.domain.task_answers import ManyAnswer

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: warploom reset T-17")
def reset(
    task: Task,
    clear_output: Annotated[bool, typer.Option("--clear-output", help="Forget what it left behind, too.")] = False,
    as_json: Json = False,
) -> int:
    """Give a task back to be claimed again.

    Whoever holds it loses its lease; its attempts count from the start. Also for what failed or was given up.
    """
    name = task_name(parse_task(task))
    return _step(lambda client: client.reset(name, clear_output=clear_output), as_json=as_json)


@app.command(epilog='Example: warploom cancel T-17 --reason "the customer left" --cascade')
def cancel(
    task: Task,
    reason: WhyNot = None,
    cascade: Annotated[bool, typer.Option("--cascade", help="And everything that depends on it.")] = False,
    as_json: Json = False,
) -> int:
    """Give a task up.

    What depends on it is blocked, and names it; with --cascade it is cancelled too. `warploom reset` takes it back.
    """
    name = task_name(parse_task(task))
    return _many(lambda client: client.cancel(name, reason, cascade=cascade), "cancelled", as_json=as_json)


@app.command(epilog='Example: warploom answer T-17 "The one of 2024"')
def answer(
    task: Task,
    text: Annotated[str, typer.Argument(help="The answer, for whoever claims the task next.", metavar="TEXT")],
    as_json: Json = False,
) -> int:
    """Answer the question that a task stands still for.

    A task that was escalated may be claimed again; one that is itself a question is done.
    """
    name = task_name(parse_task(task))
    return _step(lambda client: client.answer(name, text), as_json=as_json)


@app.command(epilog="Example: warploom escalations")
def escalations(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """List the questions that agents have asked, and the answers."""
    found = Reach().call(lambda client: client.escalations(limit))
    lines = [line for view in found for line in _question(view)]
    present(found, lines or ["Nobody has asked anything."], as_json=as_json)


@app.command(name="dead-letter", epilog="Example: warploom dead-letter --retry T-17")
def dead_letter(
    retry: Annotated[str | None, typer.Option("--retry", help="Try it again from the start.", metavar="TASK")] = None,
    skip: Annotated[str | None, typer.Option("--skip", help="Let the graph go on without it.", metavar="TASK")] = None,
    cancel: Annotated[
        str | None, typer.Option("--cancel", help="Give it up, and everything that depends on it.", metavar="TASK")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 20,
    reason: WhyNot = None,
    as_json: Json = False,
) -> int:
    """List the tasks that were given up, or settle one of them.

    They are not tried again by themselves, and what depends on them is blocked.
    """
    if sum(name is not None for name in (retry, skip, cancel)) > 1:
        raise MalformedInput("More than one thing was asked for.", "Give one of --retry, --skip and --cancel.")
    if retry is not None:
        name = task_name(parse_task(retry))
        return _step(lambda client: client.reset(name), as_json=as_json)
    if skip is not None:
        name = task_name(parse_task(skip))
        return _step(lambda client: client.skip(name, reason), as_json=as_json)
    if cancel is not None:
        name = task_name(parse_task(cancel))
        return _many(lambda client: client.cancel(name, reason, cascade=True), "cancelled", as_json=as_json)
    found = Reach().call(lambda client: client.dead_letters(limit))
    hint = "`warploom dead-letter --retry T-17` tries one again; --skip goes on without it; --cancel gives up what is behind it."
    lines = [*list_lines(found), f"{'next':<8}{hint}"] if found else ["There are no dead letters."]
    present(found, lines, as_json=as_json)
    return Exit.DONE


@app.command(name="batch-done", epilog="Example: warploom batch-done T-17 T-18 --output '\"done by hand\"'")
def batch_done(
    tasks: Tasks,
    output: Output = None,
    dead_letter: Annotated[bool, typer.Option("--dead-letter", help="Give them up instead.")] = False,
    reason: WhyNot = None,
    as_json: Json = False,
) -> int:
    """Settle several tasks at once: done, or dead letters.

    Each on its own, for work that was done elsewhere. Whoever holds one of them loses its lease.
    """
    names, left = [task_name(parse_task(name)) for name in split(tasks)], parse_output(output)
    return _many(
        lambda client: client.batch_done(names, left, reason, dead_letter=dead_letter),
        "given up" if dead_letter else "done",
        as_json=as_json,
    )


def _step(action: Callable[[Client], StepAnswer], *, as_json: bool) -> int:
    answer = Reach(as_operator=True).call(action)
    present(answer, step_lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
    return Exit.DONE


def _many(action: Callable[[Client], ManyAnswer], word: str, *, as_json: bool) -> int:
    answer = Reach(as_operator=True).call(action)
    present(answer, many_lines(answer, word), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
    return Exit.REFUSED if answer.refused else Exit.DONE


def _question(view: EscalationView) -> list[str]:
    lines = [f"{view.task}  '{view.title}'  {view.agent} asked {clock(view.at)}"]
    lines.extend(f"    > {line}" for line in view.message.splitlines())
    if view.answer is None:
        return [*lines, f'    next  warploom answer {view.task} "…"']
    when = f" {clock(view.answered_at)}" if view.answered_at else ""
    answer = [f"    > {line}" for line in view.answer.splitlines()]
    return [*lines, f"    {view.answered_by or 'somebody'} answered{when}", *answer]
