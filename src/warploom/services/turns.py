"""Turns: who gets the next tasks of a project that need nothing but that, when many ask at once."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from warploom.domain.identifiers import ProjectId
from warploom.services.changes import repeated
from warploom.services.convoys import Convoy
from warploom.store import convoys as convoy_store
from warploom.store.claims import Place
from warploom.store.convoys import Taker
from warploom.store.database import Database
from warploom.store.tasks import Task

MEMORY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Wish:
    """One task for each of these takers; how far the search may rely on what was found a moment ago."""

    takers: Sequence[Taker]
    past_special: bool = False
    """The caller has just seen that the tasks which need something special cannot have it."""
    is_afresh: bool = False
    """Nothing that was found a moment ago is believed."""


@dataclass(frozen=True, slots=True)
class Catch:
    """The tasks that were claimed, and how they were searched."""

    tasks: list[Task]
    past_special: bool
    is_afresh: bool


@dataclass(slots=True)
class _Memory:
    """What the last search of a project found, believed for a moment: below `watermark` nothing was ready, and what
    needs something special could not have it."""

    until: float
    watermark: Place | None = None
    past_special: bool = False


class Turns:
    """Claims for all callers of this server, those of the same moment together.

    What is remembered of earlier searches makes a search shorter and never decides what a caller does next: it may be
    forgotten, or be another caller's, by the time that an answer comes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._memories: dict[ProjectId, _Memory] = {}
        self._convoys: dict[ProjectId, Convoy[Wish, Catch]] = {}

    async def take(self, project: ProjectId, wish: Wish) -> Catch:
        """Claim the first tasks of a project; where none is caught, none was ready from the very start of its order on."""
        convoy = self._convoys.setdefault(project, Convoy(partial(self._take, project)))
        catch = await convoy.call(wish)
        if catch.tasks or catch.is_afresh:
            return catch
        return await convoy.call(replace(wish, is_afresh=True))

    def pass_special(self, project: ProjectId) -> None:
        """Remember that what needs something special could not have it."""
        self._recall(project).past_special = True

    def forget(self, project: ProjectId) -> None:
        """Remember nothing of a project."""
        self._memories.pop(project, None)

    @repeated
    async def _take(self, project: ProjectId, wishes: Sequence[Wish]) -> list[Catch]:
        """Claim for several callers in one statement, in the order in which they came."""
        memory = self._recall(project)
        watermark = None if any(wish.is_afresh for wish in wishes) else memory.watermark
        past_special = memory.past_special or any(wish.past_special for wish in wishes)
        takers = [taker for wish in wishes for taker in wish.takers]
        async with self._database.connection() as conn:
            found = await convoy_store.claim_together(
                conn, project, takers, watermark=watermark, past_special=past_special
            )
        if found:
            memory.watermark = max(place for _, place in found)
        tasks = iter([task for task, _ in found])
        return [Catch(list(islice(tasks, len(wish.takers))), past_special, watermark is None) for wish in wishes]

    def _recall(self, project: ProjectId) -> _Memory:
        now = time.monotonic()
        memory = self._memories.get(project)
        if memory is None or memory.until < now:
            memory = self._memories[project] = _Memory(now + MEMORY_SECONDS)
        return memory
