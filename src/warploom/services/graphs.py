"""Graphs: shown whole or in part, explained, imported from plans and exported as such."""

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from itertools import islice
from typing import Any

from warploom.domain.errors import CycleFound, MalformedInput
from warploom.domain.events import EventKind
from warploom.domain.graphs import DEEPEST, MOST_NODES, Explanation, Graph, GraphNode
from warploom.domain.identifiers import ProjectId, TaskId, task_name
from warploom.domain.plan_tasks import MOST_TASKS, Surroundings
from warploom.domain.plans import (
    ImportAnswer,
    Plan,
    known_numbers,
    named_tasks,
    plan_of,
    read_plan,
    refuse_cycle,
    touched_tasks,
)
from warploom.domain.sessions import Actor
from warploom.domain.task_answers import TaskLine
from warploom.domain.tasks import HeadStarts, TaskState
from warploom.services.changes import Change, Changes, repeated
from warploom.services.projects import hold_project, project_of
from warploom.services.task_views import show_lines
from warploom.services.tasks import get, no_task
from warploom.services.tickets import TicketService
from warploom.services.waits import explain_task
from warploom.store import cards as card_store
from warploom.store import graphs as graph_store
from warploom.store import plans as plan_store
from warploom.store import task_lists
from warploom.store import tasks as task_store
from warploom.store.database import Connection
from warploom.store.plans import PlanPlace, PlanRules

_KEYS_SHOWN = 200


class GraphService:
    """Shows, explains, takes in and gives out graphs."""

    def __init__(self, changes: Changes, tickets: TicketService, head_starts: HeadStarts, max_attempts: int) -> None:
        self._changes = changes
        self._tickets = tickets
        self._rules = PlanRules(head_starts, max_attempts)

    async def graph(
        self,
        actor: Actor,
        around: TaskId | None = None,
        depth: int = 2,
        limit: int = 200,
        project: str | None = None,
    ) -> Graph:
        """Return a project's graph, open tasks first, or what is up to `depth` edges away from one task.

        What does not fit into `limit` is cut. Near a task nothing else of its project is read.
        """
        if not 1 <= limit <= MOST_NODES:
            raise MalformedInput(f"{limit} tasks cannot be shown.", f"Ask for 1 to {MOST_NODES:,}.")
        if not 0 <= depth <= DEEPEST:
            raise MalformedInput(f"{depth} is not a depth.", f"Ask for 0 to {DEEPEST} edges.")
        async with self._changes.database.connection() as conn:
            if around is None:
                return await _whole(conn, await project_of(conn, actor, project), limit)
            return await _near(conn, around, depth, limit)

    async def explain(self, actor: Actor, task: TaskId) -> Explanation:
        """Say why a task is not going on: one dominant reason, everything in its way, and what can be done."""
        async with self._changes.database.connection() as conn:
            found = await get(conn, task)
            is_ticket = found.need_count > 0 and found.session is not None
            if not is_ticket or not (found.state is TaskState.READY or found.is_parked):
                return await explain_task(conn, found, None)
        ticket = await self._tickets.explain(actor, task)
        async with self._changes.database.connection() as conn:
            return await explain_task(conn, await get(conn, task), ticket)

    @repeated
    async def import_plan(
        self, actor: Actor, plan: dict[str, Any], *, check_only: bool = False, project: str | None = None
    ) -> ImportAnswer:
        """Write a whole plan, or nothing of it: raises PlanRefused with every fault it has.

        Tasks whose key the project has already stay as they are, so that importing again doubles nothing. With
        `check_only` the answer is the same, and nothing is written.
        """
        named = named_tasks(plan)
        async with self._changes.database.connection() as conn:
            around = await _surroundings(conn, await project_of(conn, actor, project), named)
        # Reading a large plan takes a while, in which nobody else should have to wait.
        read = await asyncio.to_thread(read_plan, plan, around)
        if check_only:
            return _answer(read, known_numbers(read), len(read.edges), checked_only=True)
        numbers: dict[str, TaskId] = {}
        try:
            async with self._changes.begin() as change:
                chosen = await hold_project(change.conn, actor, project)
                await task_store.lock_graph(change.conn, chosen)
                await plan_store.hold_tasks(change.conn, touched_tasks(read))
                now = await _surroundings(change.conn, chosen, named)
                if now != around:
                    read = await asyncio.to_thread(read_plan, plan, now)
                    await plan_store.hold_tasks(change.conn, touched_tasks(read))
                numbers |= await plan_store.number_plan(change.conn, read)
                edges = await self._write(change, actor, PlanPlace(chosen, actor.agent, self._rules), read, numbers)
                return _answer(read, numbers, edges)
        except CycleFound as error:
            raise refuse_cycle(error.cause, numbers) from error

    async def export(self, actor: Actor, project: str | None = None) -> dict[str, Any]:
        """Return a project's tasks as a plan that another project can import; what was cancelled is left out."""
        async with self._changes.database.connection() as conn:
            chosen = await project_of(conn, actor, project)
            tasks = await plan_store.read_project(conn, chosen)
        if len(tasks) > MOST_TASKS:
            raise MalformedInput(
                f"The project has more tasks than a plan may have ({MOST_TASKS:,}).",
                "Read it in parts with loom_graph.",
            )
        return plan_of(tasks, self._rules.max_attempts)

    async def _write(
        self, change: Change, actor: Actor, place: PlanPlace, plan: Plan, numbers: Mapping[str, TaskId]
    ) -> int:
        edges = await plan_store.write_plan(change.conn, place, plan, numbers)
        if plan.new:
            await task_store.reopen_project(change.conn, place.project)
            facts = {"agent": actor.agent_name, "count": str(len(plan.new))}
            change.tell(EventKind.GRAPH_IMPORTED, facts, project=place.project, session=actor.session)
        return edges


async def _surroundings(conn: Connection, project: ProjectId, named: tuple[list[TaskId], list[str]]) -> Surroundings:
    by_number, by_key = await plan_store.read_neighbours(conn, project, *named)
    return Surroundings(by_number, by_key, await card_store.read_cards(conn))


def _answer(plan: Plan, numbers: Mapping[str, TaskId], edges: int, *, checked_only: bool = False) -> ImportAnswer:
    new = len(plan.new)
    if checked_only:
        following = "The plan is sound, and nothing was written; import it without check_only."
    elif new:
        following = "loom_ready shows what may be claimed now, and loom_graph the whole."
    else:
        following = "Every task of it was there already; nothing was changed."
    return ImportAnswer(
        created=new,
        deduplicated=len(plan.tasks) - new,
        edges=edges,
        next=following,
        keys={key: task_name(number) for key, number in islice(numbers.items(), _KEYS_SHOWN)},
        is_cut=len(numbers) > _KEYS_SHOWN,
        checked_only=checked_only,
    )


async def _whole(conn: Connection, project: ProjectId, limit: int) -> Graph:
    counts = await graph_store.count_states(conn, project)
    tasks = await graph_store.tasks_of_project(conn, project, limit)
    return await _graph(conn, project, tasks, counts, sum(counts.values()))


async def _near(conn: Connection, around: TaskId, depth: int, limit: int) -> Graph:
    known = (await task_store.projects_of(conn, [around])).get(around)
    if known is None:
        raise no_task(task_name(around))
    found = await graph_store.tasks_near(conn, around, depth, limit + 1)
    return await _graph(conn, known, found[:limit], None, len(found), around)


async def _graph(
    conn: Connection,
    project: ProjectId,
    tasks: list[TaskId],
    counts: dict[str, int] | None,
    total: int,
    around: TaskId | None = None,
) -> Graph:
    rows = await task_lists.rows_of(conn, tasks)
    lines = show_lines(rows)
    nodes = [
        _node(line, row["unmet"], task_name(row["culprit_id"]) if row["culprit_id"] else None)
        for line, row in zip(lines, rows, strict=True)
    ]
    if counts is None:
        states = sorted(node.state.value for node in nodes)
        counts = {state: states.count(state) for state in dict.fromkeys(states)}
    return Graph(
        project=await graph_store.name_of(conn, project),
        nodes=nodes,
        edges=await graph_store.edges_among(conn, tasks),
        counts=counts,
        total=total,
        shown=len(nodes),
        is_cut=total > len(nodes),
        around=None if around is None else task_name(around),
    )


def _node(line: TaskLine, unmet: int, culprit: str | None) -> GraphNode:
    return GraphNode(**{each.name: getattr(line, each.name) for each in fields(line)}, unmet=unmet, culprit=culprit)
