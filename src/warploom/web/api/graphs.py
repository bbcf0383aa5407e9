"""Graphs over HTTP: looked at whole or near a task, explained, written from plans and exported."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import PlainTextResponse, Response

from warploom.domain.graphs import (
    DEEPEST,
    MOST_NODES,
    Explanation,
    Graph,
    GraphFormat,
    as_mermaid,
    as_summary,
)
from warploom.domain.identifiers import parse_task
from warploom.domain.plans import ImportAnswer
from warploom.web.callers import TheActor, TheApp
from warploom.web.notices import told

router = APIRouter(tags=["graphs"])

_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The graph", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/graph", response_model=Graph, responses=_TEXT)
async def graph(
    app: TheApp,
    actor: TheActor,
    around: str | None = None,
    depth: Annotated[int, Query(ge=0, le=DEEPEST)] = 2,
    limit: Annotated[int, Query(ge=1, le=MOST_NODES)] = 200,
    project: str | None = None,
    form: Annotated[GraphFormat, Query(alias="format")] = GraphFormat.JSON,
) -> Graph | Response:
    """Return a project's graph, or what is near one of its tasks: as JSON, or as text (Mermaid, a summary)."""
    near = None if around is None else parse_task(around)
    found = await app.graphs.graph(actor, near, depth, limit, project)
    if form is GraphFormat.JSON:
        return await told(app, actor, found)
    return PlainTextResponse(as_mermaid(found) if form is GraphFormat.MERMAID else as_summary(found))


@router.get("/tasks/{task}/explain")
async def explain(task: str, app: TheApp, actor: TheActor) -> Explanation:
    """Say why a task is not going on: what it waits for, and who holds that."""
    return await told(app, actor, await app.graphs.explain(actor, parse_task(task)))


@router.post("/graph/import")
async def import_plan(
    app: TheApp,
    actor: TheActor,
    plan: Annotated[dict[str, Any], Body()],
    check_only: Annotated[bool, Body()] = False,
    project: Annotated[str | None, Body()] = None,
) -> ImportAnswer:
    """Write a whole plan or, where it has faults, nothing: all of them are named. With `check_only` nothing is written."""
    answer = await app.graphs.import_plan(actor, plan, check_only=check_only, project=project)
    return await told(app, actor, answer)


@router.get("/graph/export")
async def export_plan(app: TheApp, actor: TheActor, project: str | None = None) -> dict[str, Any]:
    """Return a project's graph as a plan that can be imported again."""
    return await app.graphs.export(actor, project)
