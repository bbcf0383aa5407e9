"""What the pages need from the rest of the server, as functions that they are given."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from warploom.domain.callers import Role
from warploom.domain.cards import Rack, ServiceAnswer
from warploom.domain.events import EventView


class ChangeService(Protocol):
    """Drains or undrains a card."""

    async def __call__(self, card: str, reason: str | None, *, role: Role, preview: bool) -> ServiceAnswer:
        """Change the service of a card such as `local/0` in a role; with `preview` only say what that would do."""
        ...


@dataclass(frozen=True, slots=True)
class PageSources:
    """Everything that the pages read and do; each raises the domain's errors."""

    read_rack: Callable[[], Awaitable[Rack]]
    latest_events: Callable[[int], Awaitable[list[EventView]]]
    """At most so many of the newest lines, the oldest of them first."""
    drain: ChangeService
    undrain: ChangeService
