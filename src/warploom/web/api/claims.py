"""Claims over HTTP: take tasks, show progress, finish them. `lease` may be left out where it is the caller's own."""

from typing import Annotated

from fastapi import APIRouter, Body

from warploom.domain.claims import ClaimAnswer, StepAnswer, read_count, read_life, read_percent
from warploom.domain.failures import parse_failure
from warploom.domain.identifiers import LeaseId, parse_lease, parse_task
from warploom.domain.outputs import Output
from warploom.domain.task_answers import ManyAnswer
from warploom.web.callers import TheActor, TheApp
from warploom.web.notices import told

router = APIRouter(tags=["claims"])

LeaseName = Annotated[str | None, Body()]


@router.post("/claims")
async def claim(
    app: TheApp,
    actor: TheActor,
    task: Annotated[str | None, Body()] = None,
    count: Annotated[int, Body()] = 1,
    life_seconds: Annotated[float | None, Body()] = None,
    project: Annotated[str | None, Body()] = None,
) -> ClaimAnswer:
    """Claim one task, or the next that fit; a task that needs a card may have to wait in its queue. Never waits."""
    named, life = None if task is None else parse_task(task), read_life(life_seconds)
    return await told(app, actor, await app.claims.claim(actor, named, read_count(count), life, project))


@router.post("/claims/batch")
async def claim_several(
    app: TheApp,
    actor: TheActor,
    tasks: Annotated[list[str], Body(max_length=100)],
    life_seconds: Annotated[float | None, Body()] = None,
) -> ManyAnswer:
    """Claim each of several tasks on its own."""
    named = [parse_task(task) for task in tasks]
    return await told(app, actor, await app.claims.claim_several(actor, named, read_life(life_seconds)))


@router.post("/tasks/{task}/heartbeat")
async def heartbeat(
    task: str,
    app: TheApp,
    actor: TheActor,
    lease: LeaseName = None,
    progress: Annotated[str | None, Body()] = None,
    percent: Annotated[int | None, Body()] = None,
) -> StepAnswer:
    """Push a claim's expiry out, and say how far it is."""
    step = await app.claims.heartbeat(actor, parse_task(task), _lease(lease), progress, read_percent(percent))
    return await told(app, actor, step)


@router.post("/tasks/{task}/done")
async def done(
    task: str,
    app: TheApp,
    actor: TheActor,
    lease: LeaseName = None,
    output: Annotated[Output, Body()] = None,
    branch_name: Annotated[str | None, Body()] = None,
) -> StepAnswer:
    """Finish a task: its cards are given back and what waited for it becomes ready. Twice with one lease is success."""
    step = await app.claims.done(actor, parse_task(task), _lease(lease), output, branch_name)
    return await told(app, actor, step)


@router.post("/tasks/{task}/fail")
async def fail(
    task: str,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str, Body()],
    failure: Annotated[str | None, Body()] = None,
    lease: LeaseName = None,
) -> StepAnswer:
    """Say that an attempt failed; its class and the attempts left decide whether there is another."""
    step = await app.claims.fail(actor, parse_task(task), _lease(lease), reason, parse_failure(failure))
    return await told(app, actor, step)


@router.post("/tasks/{task}/escalate")
async def escalate(
    task: str, app: TheApp, actor: TheActor, message: Annotated[str, Body()], lease: LeaseName = None
) -> StepAnswer:
    """Stop with a question that a person has to answer; the claim is given back."""
    return await told(app, actor, await app.claims.escalate(actor, parse_task(task), _lease(lease), message))


def _lease(name: str | None) -> LeaseId | None:
    return None if name is None else parse_lease(name)
