"""The admin tools that look after projects."""

from warploom.domain.sessions import Actor
from warploom.mcp.answers import Answer, plain
from warploom.mcp.callers import Desk


class ProjectTools:
    """Tools about projects."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def loom_projects(self, archived: bool = False) -> Answer:
        """List the projects, each with its tasks by state, how many are open and done, percent, overdue and escalations.

        `is_current` marks the one this session works in. Call it before you create or switch, to find the name.

        Args:
            archived: List archived projects too.
        """

        async def work(actor: Actor) -> Answer:
            answer = await self._desk.app.projects.list(actor, archived=archived)
            return {"projects": [plain(view) for view in answer.projects], "next": answer.next}

        return await self._desk.serve(work)

    async def loom_create_project(self, name: str, description: str | None = None) -> Answer:
        """Make a project with a graph of its own, when the user wants work kept apart; cards stay shared.

        You stay in your project: call loom_switch_project to work in the new one.

        Args:
            name: Its name, unique and at most 80 characters.
            description: What it is about.
        """

        async def work(actor: Actor) -> Answer:
            return plain(await self._desk.app.projects.create(actor, name, description))

        return await self._desk.serve(work)

    async def loom_switch_project(self, name: str) -> Answer:
        """Work in another project from the next call on, when the user says so. No other session is moved.

        What you hold and wait for stays yours.

        Args:
            name: The project's name, as loom_projects shows it.
        """

        async def work(actor: Actor) -> Answer:
            return plain(await self._desk.app.projects.switch(actor, name))

        return await self._desk.serve(work)

    async def loom_archive_project(self, name: str, back: bool = False) -> Answer:
        """Hide a finished project, only when the user says so: nothing can be created or claimed in it. Nothing is deleted.

        It is refused while somebody works on its tasks; the answer names those.

        Args:
            name: The project's name, as loom_projects shows it.
            back: Bring an archived project back instead.
        """

        async def work(actor: Actor) -> Answer:
            return plain(await self._desk.app.projects.archive(actor, name, back=back))

        return await self._desk.operate(work)
