"""Calls about projects."""

from warploom.client.calls import Calls, part, query_of
from warploom.domain.projects import ProjectAnswer, ProjectsAnswer, ProjectView


class ProjectCalls(Calls):
    """Calls about projects; archiving needs the operators' key where keys are set."""

    def projects(self, *, archived: bool = False) -> ProjectsAnswer:
        """List projects with their progress; the session's own is marked."""
        return self._call("GET", f"/api/v1/projects{query_of(archived=archived)}", ProjectsAnswer)

    def project(self, name: str) -> ProjectView:
        """Look at one project, archived or not."""
        return self._call("GET", f"/api/v1/projects/{part(name)}", ProjectView)

    def create_project(self, name: str, description: str | None = None) -> ProjectAnswer:
        """Make a project; the session stays in its own."""
        return self._call("POST", "/api/v1/projects", ProjectAnswer, {"name": name, "description": description})

    def switch_project(self, name: str) -> ProjectAnswer:
        """Work in a project from now on, in this session alone."""
        return self._call("POST", f"/api/v1/projects/{part(name)}/switch", ProjectAnswer, {})

    def archive_project(self, name: str, *, back: bool = False) -> ProjectAnswer:
        """Hide a project and close it to claims and new tasks; with `back` undo that."""
        return self._call("POST", f"/api/v1/projects/{part(name)}/archive", ProjectAnswer, {"back": back})
