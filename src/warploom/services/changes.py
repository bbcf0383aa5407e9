"""One change: a transaction, the events written in it, and the hints that follow its commit."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import wraps
from random import Random
from typing import Any, ParamSpec, TypeVar

from warploom.bus.hints import Bus
from warploom.domain.errors import Collision
from warploom.domain.events import EventKind
from warploom.domain.identifiers import CardId, ErrandId, HostId, LeaseId, ProjectId, SessionId, TaskId
from warploom.store.database import Connection, Database
from warploom.store.events import insert_events

EVERYTHING = "events"
TICKETS = "ticket:"
Given = ParamSpec("Given")
Answer = TypeVar("Answer")

_PAUSES = (0.01, 0.05, 0.2)
_random = Random()  # noqa: S311  (spreads repetitions, no secret)


def ticket_topic(task: TaskId) -> str:
    """Name the topic on which a ticket's waiters listen."""
    return f"{TICKETS}{task}"


def graph_topic(project: ProjectId) -> str:
    """Name the topic on which those listen who wait for tasks of a project."""
    return f"graph:{project}"


def host_topic(host: str) -> str:
    """Name the topic on which a host agent listens for its orders."""
    return f"host:{host}"


def errand_topic(errand: ErrandId) -> str:
    """Name the topic on which those listen who wait for what comes of an errand."""
    return f"errand:{errand}"


class Change:
    """A transaction under way. What is told here is written in it and hinted at once it has committed."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.topics: set[str] = set()
        self._lines: list[dict[str, Any]] = []

    def tell(
        self,
        kind: EventKind,
        facts: dict[str, str],
        *,
        project: ProjectId | None = None,
        task: TaskId | None = None,
        lease: LeaseId | None = None,
        session: SessionId | None = None,
        host: HostId | None = None,
        cards: Iterable[CardId] = (),
    ) -> None:
        """Add an event to the log; a ticket's waiters hear of every event of theirs."""
        self._lines.append(
            {
                "kind": kind.value,
                "facts": facts,
                "project_id": project,
                "task_id": task,
                "lease_id": lease,
                "session_id": session,
                "host_id": host,
                "card_ids": list(cards),
            }
        )
        if task is not None:
            self.topics.add(ticket_topic(task))
        if project is not None and kind.value.startswith(("task.", "graph.", "project.")):
            self.topics.add(graph_topic(project))

    def order_survey(self, host: str) -> None:
        """Ask a host agent for a look at its cards, and for the errands that wait for it, as soon as this has committed."""
        self.topics.add(host_topic(host))

    async def write_events(self) -> None:
        """Write what was told, as the last statement before the commit."""
        if self._lines:
            self.topics.add(EVERYTHING)
            await insert_events(self.conn, self._lines)


class Changes:
    """Opens changes on a database and publishes their hints."""

    def __init__(self, database: Database, bus: Bus) -> None:
        self.database = database
        self.bus = bus

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[Change]:
        """Run a block as one change: commit what it did with its events, then hint; roll everything back if it raises."""
        async with self.database.transaction() as conn:
            change = Change(conn)
            yield change
            await change.write_events()
        if change.topics:
            self.bus.publish(change.topics)


def repeated(
    change: Callable[Given, Coroutine[Any, Any, Answer]],
) -> Callable[Given, Coroutine[Any, Any, Answer]]:
    """Repeat what is one change, all or nothing, when it met another one: three times, after pauses that differ, then give up."""

    @wraps(change)
    async def until_alone(*given: Given.args, **options: Given.kwargs) -> Answer:
        for pause in _PAUSES:
            try:
                return await change(*given, **options)
            except Collision:
                await asyncio.sleep(pause * _random.uniform(0.5, 1.5))
        return await change(*given, **options)

    return until_alone


def names(cards: Iterable[str]) -> str:
    """Join card names for an event's facts."""
    return ", ".join(cards)
