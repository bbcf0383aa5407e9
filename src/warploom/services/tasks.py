"""Tasks: created, changed, read, listed and waited for; what their holders do with them is with the claims."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from warploom.bus.hints import POLL_SECONDS
from warploom.domain.errors import CycleFound, MalformedInput, NotFound, NotReady, WarploomError
from warploom.domain.events import EventKind
from warploom.domain.identifiers import CardId, ProjectId, TaskId, parse_task, task_name
from warploom.domain.leases import run_length
from warploom.domain.sessions import Actor
from warploom.domain.task_answers import AwaitAnswer, ManyAnswer, ReadyAnswer, TaskAnswer, TaskLine
from warploom.domain.tasks import (
    OPEN_STATES,
    HeadStarts,
    NeedsWish,
    NewTask,
    TaskChanges,
    TaskKind,
    TaskState,
    TaskWish,
    parse_priority,
    read_attempts,
    read_deadline,
    read_task,
    read_upstreams,
)
from warploom.domain.texts import long_text, one_line, spoken_list
from warploom.domain.tickets import CardNeed, parse_need, resolve_cards
from warploom.services.changes import Change, Changes, graph_topic, repeated
from warploom.services.projects import hold_project, project_of
from warploom.services.task_views import show_lines, show_task
from warploom.services.waits import why_nothing_ready
from warploom.store import cards as card_store
from warploom.store import task_lists
from warploom.store import tasks as task_store
from warploom.store.database import Connection
from warploom.store.tasks import KnownTask, Task, TaskEdit, TaskInsert

LONGEST_WAIT_SECONDS = 55.0
MOST_LISTED = 1_000
MOST_AWAITED = 200
COMMENT_LIMIT = 4_000
_OVER = (TaskState.DONE, TaskState.CANCELLED, TaskState.DEAD_LETTER)


@dataclass(frozen=True, slots=True)
class TaskRules:
    """How priorities count, and how often a task is tried where it does not say itself."""

    head_starts: HeadStarts
    max_attempts: int


class TaskService:
    """What anybody can do with tasks."""

    def __init__(self, changes: Changes, rules: TaskRules) -> None:
        self._changes = changes
        self._rules = rules

    async def create(
        self, actor: Actor, wish: TaskWish, home: str | None = None, project: str | None = None
    ) -> TaskAnswer:
        """Create a task, ready at once when nothing it depends on is open.

        Creating it again (by key, or by the same content while it is open) returns the task that is there, with
        `deduplicated`. `home` is the caller's own host. Raises CycleFound with the path, Impossible for cards that
        nobody has.
        """
        new = read_task(wish)
        return await self._insert(actor, new, home, project)

    async def idea(
        self, actor: Actor, title: str, context: str | None = None, project: str | None = None
    ) -> TaskAnswer:
        """Keep an idea outside the graph until somebody promotes it."""
        new = replace(read_task(TaskWish(title, context)), kind=TaskKind.IDEA)
        return await self._insert(actor, new, None, project)

    @repeated
    async def update(self, actor: Actor, task: TaskId, changes: TaskChanges) -> TaskAnswer:
        """Change what a task says, whom it depends on and how urgent it is; an empty text empties a field."""
        edit, upstreams = self._edit(changes), changes.depends_on
        wanted = None if upstreams is None else read_upstreams(upstreams)
        if task == edit.parent or task in (wanted or ()):
            raise CycleFound(f"{task_name(task)} cannot wait for itself.", "Name another task.")
        async with self._changes.begin() as change:
            found = await get(change.conn, task)
            if found.state in _OVER:
                raise NotReady(f"{task_name(task)} is {found.state.value}.", "Create a new task instead.")
            if wanted is not None or "parent" in edit.sets:
                await task_store.lock_graph(change.conn, found.project)
                found = await get(change.conn, task)
                await task_store.known_tasks(change.conn, [*found.upstreams, *(wanted or ())])
            await task_store.lock_tasks(change.conn, [task])
            found = await get(change.conn, task)
            if "parent" in edit.sets:
                await self._move(change.conn, found, edit.parent)
            await task_store.change_task(change.conn, task, edit)
            if wanted is not None:
                await self._relink(change.conn, found, wanted)
            fields = spoken_list(sorted(_changed(changes)))
            _tell(change, EventKind.TASK_UPDATED, actor, found, fields=fields)
            return show_task(await get(change.conn, task))

    async def read(self, actor: Actor, task: TaskId) -> TaskAnswer:
        """Show one task whole."""
        async with self._changes.database.connection() as conn:
            return show_task(await get(conn, task))

    async def find(
        self, actor: Actor, states: Sequence[TaskState], limit: int = 50, project: str | None = None
    ) -> list[TaskLine]:
        """List the newest tasks in any of these states; the open ones when none is given."""
        async with self._changes.database.connection() as conn:
            chosen = await project_of(conn, actor, project)
            rows = await task_lists.rows_in_states(conn, chosen, states or OPEN_STATES, _within(limit, MOST_LISTED))
        return show_lines(rows)

    async def ready(
        self, actor: Actor, priority: str | None = None, limit: int = 10, project: str | None = None
    ) -> ReadyAnswer:
        """List the tasks that may be claimed, in the order in which they are handed out."""
        wanted = None if priority is None else int(parse_priority(priority))
        async with self._changes.database.connection() as conn:
            chosen = await project_of(conn, actor, project)
            rows = await task_lists.ready_rows(conn, chosen, wanted, _within(limit, MOST_LISTED))
            if rows:
                return ReadyAnswer(
                    show_lines(rows), 'Take one with loom_claim("T-…"), or the next one with loom_claim().'
                )
            reason = await why_nothing_ready(conn, chosen)
            ideas = await task_store.count_ideas(conn, chosen)
        return ReadyAnswer([], nothing_to_do(ideas), reason, ideas)

    @repeated
    async def comment(self, actor: Actor, task: TaskId, body: str) -> TaskAnswer:
        """Say something about a task, for whoever works on it next."""
        text = required_text(body, "comment")
        async with self._changes.begin() as change:
            found = await get(change.conn, task)
            await task_store.add_comment(change.conn, task, actor.agent_name, text)
            _tell(change, EventKind.TASK_COMMENTED, actor, found)
            return show_task(await get(change.conn, task))

    async def promote(self, actor: Actor, tasks: Sequence[TaskId]) -> ManyAnswer:
        """Turn ideas into tasks that may be claimed."""
        return await each(tasks, lambda task: self._promote(actor, task), "They may be claimed now.")

    @repeated
    async def drop(self, actor: Actor, task: TaskId) -> TaskAnswer:
        """Take an idea out of the backlog; it is kept as cancelled."""
        async with self._changes.begin() as change:
            found = await get(change.conn, task)
            if not await task_store.drop_idea(change.conn, task):
                raise NotReady(f"{task_name(task)} is no idea any more.", "`warploom cancel` gives a task up.")
            _tell(change, EventKind.TASK_CANCELLED, actor, found, reason="the idea was dropped")
            return show_task(await get(change.conn, task))

    async def wait(self, actor: Actor, tasks: Sequence[TaskId], seconds: float) -> AwaitAnswer:
        """Wait until all of these tasks are over, at most `seconds` (55 at most); holds no database connection."""
        if not 1 <= len(tasks) <= MOST_AWAITED:
            raise MalformedInput("No task was named, or too many.", f"Name 1 to {MOST_AWAITED} tasks.")
        end, bus = time.monotonic() + _bounded(seconds), self._changes.bus
        projects = await self._projects_of(tasks)
        with bus.listen(*map(graph_topic, projects)) as listener:
            while True:
                lines = await self._lines(tasks)
                is_over = all(line.state in _OVER for line in lines)
                if is_over or bus.is_closing or time.monotonic() >= end:
                    return AwaitAnswer(lines, timed_out=not is_over)
                await listener.wait(min(POLL_SECONDS, end - time.monotonic()))

    async def wait_ready(self, actor: Actor, seconds: float, project: str | None = None) -> ReadyAnswer:
        """Wait until something may be claimed, at most `seconds` (55 at most)."""
        end, bus = time.monotonic() + _bounded(seconds), self._changes.bus
        async with self._changes.database.connection() as conn:
            chosen = await project_of(conn, actor, project)
        with bus.listen(graph_topic(chosen)) as listener:
            while True:
                answer = await self.ready(actor, project=project)
                if answer.tasks or bus.is_closing or time.monotonic() >= end:
                    return answer
                await listener.wait(min(POLL_SECONDS, end - time.monotonic()))

    @repeated
    async def _insert(self, actor: Actor, new: NewTask, home: str | None, project: str | None) -> TaskAnswer:
        while True:
            async with self._changes.begin() as change:
                chosen = await hold_project(change.conn, actor, project)
                task = await self._try_insert(change, actor, new, chosen, home)
                if task is not None:
                    return show_task(await get(change.conn, task))
                same = await task_store.find_same(change.conn, chosen, new.key, new.fingerprint)
                if same is not None:
                    return replace(show_task(await get(change.conn, same)), deduplicated=True)

    async def _try_insert(
        self, change: Change, actor: Actor, new: NewTask, project: ProjectId, home: str | None
    ) -> TaskId | None:
        conn = change.conn
        edges = bool(new.upstreams) or new.parent is not None
        if edges:
            await task_store.lock_graph(conn, project)
            await _check_neighbours(conn, project, new.upstreams, new.parent)
        need, cards = await resolve(conn, new.needs, home)
        insert = TaskInsert(
            project=project,
            creator=actor.agent,
            new=new,
            state=_first_state(new),
            need=need,
            cards=cards,
            head_start=self._rules.head_starts.of(new.priority),
            max_attempts=new.max_attempts or self._rules.max_attempts,
            fingerprint=new.fingerprint,
        )
        task = await task_store.insert_task(conn, insert)
        if task is None:
            return None
        await task_store.reopen_project(conn, project)
        if edges:
            up = [(task, upstream) for upstream in new.upstreams]
            await task_store.link(conn, [*up, *([(new.parent, task)] if new.parent else [])])
        facts = {"agent": actor.agent_name, "title": new.title}
        change.tell(EventKind.TASK_CREATED, facts, project=project, task=task, session=actor.session)
        return task

    def _edit(self, changes: TaskChanges) -> TaskEdit:
        priority = None if changes.priority is None else parse_priority(changes.priority)
        nullable = ("context", "done_when", "deadline")
        sets = {name for name in nullable if getattr(changes, name) is not None}
        return TaskEdit(
            title=None if changes.title is None else one_line(changes.title, "title"),
            context=long_text(changes.context, "context"),
            done_when=long_text(changes.done_when, "done_when"),
            priority=None if priority is None else int(priority),
            head_start=None if priority is None else self._rules.head_starts.of(priority),
            deadline=read_deadline(changes.deadline),
            max_attempts=read_attempts(changes.max_attempts),
            run=run_length(changes.minutes),
            parent=parse_task(changes.parent_id) if changes.parent_id and changes.parent_id.strip() else None,
            sets=frozenset(sets | ({"parent"} if changes.parent_id is not None else set())),
        )

    async def _relink(self, conn: Connection, found: Task, wanted: Sequence[TaskId]) -> None:
        children = await task_store.children_of(conn, found.task) if found.kind is TaskKind.EPIC else set[TaskId]()
        before, after = set(found.upstreams) - children, set(wanted) - children
        await _check_neighbours(conn, found.project, sorted(after - before), None)
        await task_store.link(conn, [(found.task, upstream) for upstream in sorted(after - before)])
        await task_store.unlink(conn, found.task, sorted(before - after))

    async def _move(self, conn: Connection, found: Task, parent: TaskId | None) -> None:
        if parent == found.parent:
            return
        if parent is not None:
            await _check_neighbours(conn, found.project, (), parent)
            await task_store.link(conn, [(parent, found.task)])
        if found.parent is not None:
            await task_store.unlink(conn, found.parent, [found.task])

    @repeated
    async def _promote(self, actor: Actor, task: TaskId) -> None:
        async with self._changes.begin() as change:
            found = await get(change.conn, task)
            if not await task_store.promote_idea(change.conn, task):
                raise NotReady(f"{task_name(task)} is no idea.", "`warploom ideas` lists the ideas.")
            await task_store.reopen_project(change.conn, found.project)
            _tell(change, EventKind.TASK_PROMOTED, actor, found)

    async def _lines(self, tasks: Sequence[TaskId]) -> list[TaskLine]:
        async with self._changes.database.connection() as conn:
            return show_lines(await task_lists.rows_of(conn, tasks))

    async def _projects_of(self, tasks: Sequence[TaskId]) -> set[ProjectId]:
        async with self._changes.database.connection() as conn:
            known = await task_store.projects_of(conn, tasks)
        require_all(tasks, known)
        return set(known.values())


async def get(conn: Connection, task: TaskId) -> Task:
    """Read a task; raise NotFound when there is none of that number."""
    found = await task_store.get_task(conn, task)
    if found is None:
        raise no_task(task_name(task))
    return found


def no_task(named: str) -> NotFound:
    """Return the refusal of a task, or of several, of which there is none."""
    return NotFound(f"There is no task {named}.", "loom_status or `warploom tasks` lists the tasks of a project.")


async def resolve(conn: Connection, needs: NeedsWish, home: str | None) -> tuple[CardNeed | None, list[CardId]]:
    """Return what a wish needs of cards and the cards it names; raise Impossible for what nobody could ever have."""
    if not needs.wants_cards:
        return None, []
    need = parse_need(needs.device or "any", max(needs.cards, 1), needs.memory_gib, needs.model)
    cards = await card_store.read_cards(conn)
    allowed = resolve_cards(need, cards, home)
    return need, sorted(allowed) if need.named else []


def required_text(text: str, field: str, limit: int = COMMENT_LIMIT) -> str:
    """Read a text that must not be empty."""
    clean = long_text(text, field, limit)
    if clean is None:
        raise MalformedInput(f"The {field} is empty.", f"Write 1 to {limit:,} characters.")
    return clean


def require_all(tasks: Sequence[TaskId], known: "dict[TaskId, ProjectId] | dict[TaskId, KnownTask]") -> None:
    """Raise NotFound for tasks that are not there."""
    missing = [task_name(task) for task in tasks if task not in known]
    if missing:
        raise no_task(spoken_list(missing[:8]))


def nothing_to_do(ideas: int) -> str:
    """Say what to do when nothing may be claimed."""
    wait = "`warploom wait --ready` returns when there is."
    if ideas:
        backlog = "is 1 idea" if ideas == 1 else f"are {ideas} ideas"
        return f'Nothing to claim now. There {backlog} in the backlog: see loom_status(filter="idea"). {wait}'
    return f"Nothing to claim now. {wait}"


async def each(tasks: Sequence[TaskId], work: Callable[[TaskId], Awaitable[object]], next_step: str) -> ManyAnswer:
    """Do something with each of several tasks; one that is refused keeps no other from it."""
    if not 1 <= len(tasks) <= MOST_AWAITED:
        raise MalformedInput("No task was named, or too many.", f"Name 1 to {MOST_AWAITED} tasks.")
    done: list[str] = []
    refused: dict[str, str] = {}
    for task in dict.fromkeys(tasks):
        try:
            await work(task)
        except WarploomError as refusal:
            refused[task_name(task)] = str(refusal)
        else:
            done.append(task_name(task))
    return ManyAnswer(done, refused, next_step if done else "Nothing was changed.")


def _first_state(new: NewTask) -> TaskState:
    if new.kind is TaskKind.IDEA:
        return TaskState.IDEA
    if new.kind is TaskKind.EPIC:
        return TaskState.PENDING
    return TaskState.READY


async def _check_neighbours(
    conn: Connection, project: ProjectId, upstreams: Sequence[TaskId], parent: TaskId | None
) -> None:
    """Check that what a task is to depend on and belong to is there, of its project, and can still be waited for."""
    named = [*upstreams, *([parent] if parent is not None else [])]
    known = await task_store.known_tasks(conn, named)
    require_all(named, known)
    strange = [task_name(task) for task, each in known.items() if each.project != project]
    if strange:
        raise MalformedInput(
            f"{spoken_list(strange[:8])} belong to another project.", "Graphs are not shared between projects."
        )
    ideas = [task_name(task) for task in upstreams if known[task].kind is TaskKind.IDEA]
    if ideas:
        raise NotReady(f"{spoken_list(ideas)} are only ideas.", "Promote them first.")
    if parent is not None:
        _check_parent(known[parent])


def _check_parent(parent: KnownTask) -> None:
    name = task_name(parent.task)
    if parent.kind is not TaskKind.EPIC:
        raise MalformedInput(f"{name} is no epic.", "Give the number of an epic, or leave parent_id out.")
    if parent.state in _OVER:
        raise NotReady(f"The epic {name} is {parent.state.value}.", "Create a new epic for further tasks.")


def _changed(changes: TaskChanges) -> list[str]:
    return [name for name in TaskChanges.__slots__ if getattr(changes, name) is not None]


def _within(limit: int, most: int) -> int:
    return max(1, min(limit, most))


def _bounded(seconds: float) -> float:
    return max(0.0, min(seconds, LONGEST_WAIT_SECONDS))


def _tell(change: Change, kind: EventKind, actor: Actor, task: Task, **facts: str) -> None:
    told = {"agent": actor.agent_name, "title": task.title} | facts
    change.tell(kind, told, project=task.project, task=task.task, session=actor.session)
