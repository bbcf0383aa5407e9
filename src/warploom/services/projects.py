"""Projects: made, listed with their progress, switched to by one session, archived and brought back."""

import difflib
import shlex
from dataclasses import replace

from warploom.domain.callers import Role
from warploom.domain.errors import NotFound, NotReady, Taken
from warploom.domain.events import EventKind
from warploom.domain.identifiers import ProjectId
from warploom.domain.projects import ProjectAnswer, ProjectsAnswer, ProjectView
from warploom.domain.sessions import Actor
from warploom.domain.texts import NAME_LIMIT, long_text, one_line, spoken_list
from warploom.services.changes import Changes
from warploom.services.sessions import require
from warploom.store import projects as project_store
from warploom.store.database import Connection
from warploom.store.projects import KnownProject

_DESCRIPTION_LIMIT = 2_000
_NAMES_SHOWN = 8
_NAMES_SEARCHED = 500


async def project_of(conn: Connection, actor: Actor, name: str | None, *, for_writing: bool = False) -> ProjectId:
    """Return the project of a name, or the actor's own without one; raise NotFound with the names there are.

    With `for_writing` an archived one raises NotReady. It may be archived right after: see `hold_project`.
    """
    if name is None and not for_writing:
        return actor.project
    found = await _known(conn, actor, name, hold=False)
    if for_writing:
        _require_open(found)
    return found.project


async def hold_project(conn: Connection, actor: Actor, name: str | None) -> ProjectId:
    """Return a project that tasks may be written to, which nobody archives before the transaction ends."""
    found = await _known(conn, actor, name, hold=True)
    _require_open(found)
    return found.project


async def _known(conn: Connection, actor: Actor, name: str | None, *, hold: bool) -> KnownProject:
    wanted = None if name is None else one_line(name, "project name", NAME_LIMIT)
    found = await project_store.look_at_project(conn, actor.project, wanted, hold=hold)
    if found is None:
        raise await _not_found(conn, wanted or "")
    return found


def _require_open(project: KnownProject) -> None:
    if project.archived_at is not None:
        raise NotReady(
            f"The project '{project.name}' is archived: nothing can be created or claimed in it.",
            "Switch to another one, or ask an operator to bring it back: loom_projects lists those there are.",
        )


async def _not_found(conn: Connection, name: str) -> NotFound:
    names = await project_store.project_names(conn, _NAMES_SEARCHED)
    near = difflib.get_close_matches(name, names, _NAMES_SHOWN) or names[:_NAMES_SHOWN]
    more = ", …" if len(names) > len(near) else ""
    choice = f"Choose one of: {', '.join(near)}{more}; " if near else ""
    return NotFound(f"There is no project '{name}'.", f"{choice}loom_create_project makes a new one.")


class ProjectService:
    """Looks after projects. Everybody may make one and switch to it; archiving is an operator's."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    async def list(self, actor: Actor, *, archived: bool = False) -> ProjectsAnswer:
        """Return every project with its progress, the session's own marked; archived ones only where asked for."""
        async with self._changes.database.connection() as conn:
            views = await project_store.read_projects(conn, actor.project, archived=archived)
        return ProjectsAnswer(views, _next_of_list(views))

    async def read(self, actor: Actor, project: str | None = None) -> ProjectView:
        """Return one project, archived or not, by default the session's own."""
        async with self._changes.database.connection() as conn:
            return await _view(conn, actor, (await _known(conn, actor, project, hold=False)).project)

    async def create(self, actor: Actor, name: str, description: str | None = None) -> ProjectAnswer:
        """Make a project; raise Taken when there is one of that name. The session stays in its own."""
        clean = one_line(name, "project name", NAME_LIMIT)
        about = long_text(description, "description", _DESCRIPTION_LIMIT)
        async with self._changes.begin() as change:
            project = await project_store.create_project(change.conn, clean, about)
            if project is None:
                raise Taken(f"There is already a project '{clean}'.", f"Switch to it: {_switch(clean)}.")
            facts = {"agent": actor.agent_name, "title": clean}
            change.tell(EventKind.PROJECT_CREATED, facts, project=project, session=actor.session)
            view = await _view(change.conn, actor, project)
        return ProjectAnswer(view, f"You are still in your own project; {_switch(clean)} goes there.")

    async def switch(self, actor: Actor, name: str) -> ProjectAnswer:
        """Let this session work in another project from its next call on; all other sessions stay where they are."""
        async with self._changes.begin() as change:
            project = await hold_project(change.conn, actor, name)
            await project_store.switch_session(change.conn, actor.session, project)
            view = await _view(change.conn, replace(actor, project=project), project)
        return ProjectAnswer(
            view, "Sessions that run already stay where they are. loom_ready lists what may be claimed here."
        )

    async def archive(self, actor: Actor, name: str, *, back: bool = False) -> ProjectAnswer:
        """Hide a project, in which nothing can be created or claimed until it is brought `back`.

        Raises NotReady while somebody works on its tasks or waits with one for a card, and names those. Doing it twice is
        success.
        """
        require(actor, Role.OPERATOR)
        clean = one_line(name, "project name", NAME_LIMIT)
        async with self._changes.begin() as change:
            found = await project_store.lock_project(change.conn, clean)
            if found is None:
                raise await _not_found(change.conn, clean)
            if not back:
                await _refuse_while_busy(change.conn, found)
            is_changed = await project_store.archive_project(change.conn, found.project, back=back)
            if is_changed:
                kind = EventKind.PROJECT_RESTORED if back else EventKind.PROJECT_ARCHIVED
                facts = {"agent": actor.agent_name, "title": found.name}
                change.tell(kind, facts, project=found.project, session=actor.session)
            view = await _view(change.conn, actor, found.project)
        return ProjectAnswer(view, _next_of_archive(found.name, back=back))


async def _refuse_while_busy(conn: Connection, project: KnownProject) -> None:
    busy = await project_store.busy_tasks(conn, project.project, _NAMES_SHOWN + 1)
    if busy:
        more = " and others" if len(busy) > _NAMES_SHOWN else ""
        are = "is" if len(busy) == 1 else "are"
        raise NotReady(
            f"In the project '{project.name}' {spoken_list(busy[:_NAMES_SHOWN])}{more} {are} claimed or in a card's queue.",
            "Archive it when they are finished; loom_recover says whose holders have gone.",
        )


async def _view(conn: Connection, actor: Actor, project: ProjectId) -> ProjectView:
    return (await project_store.read_projects(conn, actor.project, only=project))[0]


def _switch(name: str) -> str:
    return f"loom_switch_project('{name}') or `warploom project switch {shlex.quote(name)}`"


def _next_of_list(views: list[ProjectView]) -> str:
    if any(view.is_current for view in views):
        return "Tools work in the current project unless they are given another; loom_switch_project changes it."
    return "This session's project is archived: switch to one of these with loom_switch_project."


def _next_of_archive(name: str, *, back: bool) -> str:
    if back:
        return f"'{name}' is back: its tasks can be claimed again."
    return "Nothing was deleted. loom_archive_project with back=true, or `warploom project archive --back`, undoes it."
