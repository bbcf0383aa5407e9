"""Tasks over HTTP: write them, look at them, wait for them."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request

from warploom.domain.identifiers import parse_task
from warploom.domain.task_answers import AwaitAnswer, ManyAnswer, ReadyAnswer, TaskAnswer, TaskLine
from warploom.domain.tasks import TaskChanges, TaskWish, read_states
from warploom.web.callers import TheActor, TheApp, read_caller, role_of
from warploom.web.notices import told

router = APIRouter(tags=["tasks"])

Limit = Annotated[int, Query(ge=1, le=1000)]
Seconds = Annotated[float, Query(ge=0, le=55)]


@dataclass(frozen=True, slots=True)
class TaskBody(TaskWish):
    """A task to write, and the project it belongs to where that is not the session's."""

    project: str | None = None


@router.post("/tasks")
async def create(wish: TaskBody, request: Request, app: TheApp, actor: TheActor) -> TaskAnswer:
    """Write a task; the answer is the one that was there when it says `deduplicated`."""
    home = read_caller(request.headers, role_of(request)).host
    return await told(app, actor, await app.tasks.create(actor, wish, home, wish.project))


@router.get("/tasks")
async def find(
    app: TheApp, actor: TheActor, state: str | None = None, limit: Limit = 50, project: str | None = None
) -> list[TaskLine]:
    """List tasks in one state, or in several with commas between."""
    return await app.tasks.find(actor, read_states(state), limit, project)


@router.get("/tasks/ready")
async def ready(
    app: TheApp, actor: TheActor, priority: str | None = None, limit: Limit = 10, project: str | None = None
) -> ReadyAnswer:
    """List what may be claimed now, in the order in which it is handed out; with nothing, why."""
    return await told(app, actor, await app.tasks.ready(actor, priority, limit, project))


@router.get("/tasks/ready/wait")
async def wait_ready(app: TheApp, actor: TheActor, seconds: Seconds = 25, project: str | None = None) -> ReadyAnswer:
    """Answer as soon as something may be claimed, or after `seconds` with nothing."""
    return await told(app, actor, await app.tasks.wait_ready(actor, seconds, project))


@router.get("/tasks/wait")
async def wait(
    app: TheApp, actor: TheActor, task: Annotated[list[str], Query(max_length=100)], seconds: Seconds = 25
) -> AwaitAnswer:
    """Answer as soon as all tasks are over, or after `seconds` with where they stand."""
    return await told(app, actor, await app.tasks.wait(actor, [parse_task(each) for each in task], seconds))


@router.get("/tasks/{task}")
async def read(task: str, app: TheApp, actor: TheActor) -> TaskAnswer:
    """Read one task whole, with its comments and what it left behind."""
    return await told(app, actor, await app.tasks.read(actor, parse_task(task)))


@router.patch("/tasks/{task}")
async def update(task: str, changes: TaskChanges, app: TheApp, actor: TheActor) -> TaskAnswer:
    """Change what is given; null leaves a field as it is, an empty text empties it."""
    return await told(app, actor, await app.tasks.update(actor, parse_task(task), changes))


@router.post("/tasks/{task}/comments")
async def comment(task: str, app: TheApp, actor: TheActor, text: Annotated[str, Body(embed=True)]) -> TaskAnswer:
    """Say something about a task that others will read with it."""
    return await told(app, actor, await app.tasks.comment(actor, parse_task(task), text))


@router.post("/ideas")
async def idea(
    app: TheApp,
    actor: TheActor,
    title: Annotated[str, Body()],
    context: Annotated[str | None, Body()] = None,
    project: Annotated[str | None, Body()] = None,
) -> TaskAnswer:
    """Note something for the backlog, outside the graph."""
    return await told(app, actor, await app.tasks.idea(actor, title, context, project))


@router.post("/tasks/{task}/promote")
async def promote(task: str, app: TheApp, actor: TheActor) -> ManyAnswer:
    """Make a task of an idea."""
    return await told(app, actor, await app.tasks.promote(actor, [parse_task(task)]))


@router.post("/tasks/{task}/drop")
async def drop(task: str, app: TheApp, actor: TheActor) -> TaskAnswer:
    """Take an idea out of the backlog."""
    return await told(app, actor, await app.tasks.drop(actor, parse_task(task)))
