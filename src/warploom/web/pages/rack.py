"""The home page: the rack strip, with the latest events below it."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import APIRouter
from fasthx.jinja import Jinja

from warploom.domain.cards import CardState, Rack
from warploom.domain.events import EventView
from warploom.web.pages.sources import PageSources

FEED_LENGTH = 12


@dataclass(frozen=True, slots=True)
class RackPart:
    """The rack as of one moment; `states` counts the lanes by state, in the order of the states."""

    now: datetime
    rack: Rack
    cards: int
    states: list[tuple[CardState, int]]


@dataclass(frozen=True, slots=True)
class FeedPart:
    """The latest events, newest first."""

    now: datetime
    events: list[EventView]


@dataclass(frozen=True, slots=True)
class RackPage:
    """The whole home page."""

    now: datetime
    rack: Rack
    cards: int
    states: list[tuple[CardState, int]]
    events: list[EventView]


def sum_up(rack: Rack) -> RackPart:
    """Count the lanes of a rack by state."""
    counts = Counter(lane.state for host in rack.hosts for lane in host.cards)
    return RackPart(rack.at, rack, counts.total(), [(state, counts[state]) for state in CardState if counts[state]])


def add_rack_pages(router: APIRouter, jinja: Jinja, sources: PageSources) -> None:
    """Add the home page and its two parts that are swapped while it is open."""

    @router.get("", name="rack_page")
    @jinja.page("pages/rack.html")
    async def rack_page() -> RackPage:
        part, events = sum_up(await sources.read_rack()), await sources.latest_events(FEED_LENGTH)
        return RackPage(part.now, part.rack, part.cards, part.states, events[::-1])

    @router.get("/rack", name="rack_part")
    @jinja.page("parts/rack.html")
    async def rack_part() -> RackPart:
        return sum_up(await sources.read_rack())

    @router.get("/feed", name="feed_part")
    @jinja.page("parts/feed.html")
    async def feed_part() -> FeedPart:
        return FeedPart(datetime.now(UTC), (await sources.latest_events(FEED_LENGTH))[::-1])

    _ = rack_page, rack_part, feed_part
