"""Projects over HTTP: list them, make them, switch to one, archive one."""

from typing import Annotated

from fastapi import APIRouter, Body

from warploom.domain.projects import ProjectAnswer, ProjectsAnswer, ProjectView
from warploom.web.callers import TheActor, TheApp
from warploom.web.notices import told

router = APIRouter(prefix="/projects", tags=["projects"])


@router.get("")
async def projects(app: TheApp, actor: TheActor, archived: bool = False) -> ProjectsAnswer:
    """List projects with their progress; the caller's own is marked."""
    return await told(app, actor, await app.projects.list(actor, archived=archived))


@router.post("")
async def create(
    app: TheApp,
    actor: TheActor,
    name: Annotated[str, Body()],
    description: Annotated[str | None, Body()] = None,
) -> ProjectAnswer:
    """Make a project; the caller's session stays in its own."""
    return await told(app, actor, await app.projects.create(actor, name, description))


@router.get("/{name:path}")
async def project(name: str, app: TheApp, actor: TheActor) -> ProjectView:
    """Return one project, archived or not."""
    return await app.projects.read(actor, name)


@router.post("/{name:path}/switch")
async def switch(name: str, app: TheApp, actor: TheActor) -> ProjectAnswer:
    """Let the caller's session, and no other, work in a project from now on."""
    return await told(app, actor, await app.projects.switch(actor, name))


@router.post("/{name:path}/archive")
async def archive(
    name: str, app: TheApp, actor: TheActor, back: Annotated[bool, Body(embed=True)] = False
) -> ProjectAnswer:
    """Hide a project and close it to claims and new tasks; with `back` undo that."""
    return await told(app, actor, await app.projects.archive(actor, name, back=back))
