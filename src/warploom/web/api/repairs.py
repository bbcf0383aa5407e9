"""Repairs over HTTP: what operators do about tasks that do not go on by themselves."""

from typing import Annotated

from fastapi import APIRouter, Body, Query

from warploom.domain.claims import StepAnswer
from warploom.domain.identifiers import parse_task
from warploom.domain.outputs import Output
from warploom.domain.repairs import EscalationView, RecoveryAnswer
from warploom.domain.task_answers import ManyAnswer, TaskLine
from warploom.web.callers import TheActor, TheApp
from warploom.web.notices import told

router = APIRouter(tags=["repairs"])

Limit = Annotated[int, Query(ge=1, le=1000)]


@router.post("/tasks/batch-done")
async def batch_done(
    app: TheApp,
    actor: TheActor,
    tasks: Annotated[list[str], Body(max_length=1000)],
    output: Annotated[Output, Body()] = None,
    reason: Annotated[str | None, Body()] = None,
    dead_letter: Annotated[bool, Body()] = False,
) -> ManyAnswer:
    """Settle several tasks at once, each on its own: done, or dead letters."""
    named = [parse_task(task) for task in tasks]
    answer = await app.repairs.batch_done(actor, named, output, reason, dead_letter=dead_letter)
    return await told(app, actor, answer)


@router.post("/tasks/{task}/reset")
async def reset(
    task: str, app: TheApp, actor: TheActor, clear_output: Annotated[bool, Body(embed=True)] = False
) -> StepAnswer:
    """Have a task tried again from the start, whatever became of it."""
    return await told(app, actor, await app.repairs.reset(actor, parse_task(task), clear_output=clear_output))


@router.post("/tasks/{task}/cancel")
async def cancel(
    task: str,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str | None, Body()] = None,
    cascade: Annotated[bool, Body()] = False,
) -> ManyAnswer:
    """Give a task up; with `cascade` everything behind it too."""
    return await told(app, actor, await app.repairs.cancel(actor, parse_task(task), reason, cascade=cascade))


@router.post("/tasks/{task}/skip")
async def skip(
    task: str, app: TheApp, actor: TheActor, reason: Annotated[str | None, Body(embed=True)] = None
) -> StepAnswer:
    """Let the graph go on without a task."""
    return await told(app, actor, await app.repairs.skip(actor, parse_task(task), reason))


@router.post("/tasks/{task}/answer")
async def answer(task: str, app: TheApp, actor: TheActor, answer: Annotated[str, Body(embed=True)]) -> StepAnswer:
    """Answer the question a task stands still for."""
    return await told(app, actor, await app.repairs.answer(actor, parse_task(task), answer))


@router.get("/dead-letters")
async def dead_letters(app: TheApp, actor: TheActor, limit: Limit = 20, project: str | None = None) -> list[TaskLine]:
    """List the tasks that are not tried again by themselves."""
    return await app.repairs.dead_letters(actor, limit, project)


@router.get("/escalations")
async def escalations(
    app: TheApp, actor: TheActor, limit: Limit = 50, project: str | None = None
) -> list[EscalationView]:
    """List the questions that nobody has answered yet, oldest first."""
    return await app.repairs.escalations(actor, limit, project)


@router.post("/recovery")
async def recover(app: TheApp, actor: TheActor, execute: Annotated[bool, Body(embed=True)] = False) -> RecoveryAnswer:
    """Tell how every claimed task is; with `execute` put right what can be."""
    return await told(app, actor, await app.repairs.recover(actor, execute=execute))
