"""Calls about graphs: look at them, have them explained, write them from plans, export them."""

from typing import TYPE_CHECKING, Any

from warploom.client.calls import Calls, part, query_of

if TYPE_CHECKING:
    from warploom.domain.graphs import Explanation, Graph
    from warploom.domain.plans import ImportAnswer

IMPORT_SECONDS = 120.0


class GraphCalls(Calls):
    """Calls about graphs."""

    def graph(self, around: str | None = None, depth: int = 2, limit: int = 200, project: str | None = None) -> "Graph":
        """Read a project's graph, or what is near one of its tasks."""
        from warploom.domain.graphs import Graph  # noqa: PLC0415 - rare, and slow to load

        query = query_of(around=around, depth=depth, limit=limit, project=project)
        return self._call("GET", f"/api/v1/graph{query}", Graph)

    def explain_task(self, task: str) -> "Explanation":
        """Say why a task is not going on."""
        from warploom.domain.graphs import Explanation  # noqa: PLC0415 - rare, and slow to load

        return self._call("GET", f"/api/v1/tasks/{part(task)}/explain", Explanation)

    def import_plan(
        self, plan: dict[str, Any], *, check_only: bool = False, project: str | None = None
    ) -> "ImportAnswer":
        """Write a whole plan or, where it has faults, nothing; with `check_only` only look for faults."""
        from warploom.domain.plans import ImportAnswer  # noqa: PLC0415 - rare, and slow to load

        body = {"plan": plan, "check_only": check_only, "project": project}
        return self._call("POST", "/api/v1/graph/import", ImportAnswer, body, seconds=IMPORT_SECONDS)

    def export_plan(self, project: str | None = None) -> dict[str, Any]:
        """Return a project's graph as a plan that can be imported again."""
        path = f"/api/v1/graph/export{query_of(project=project)}"
        return self._call("GET", path, dict[str, Any], seconds=IMPORT_SECONDS)
