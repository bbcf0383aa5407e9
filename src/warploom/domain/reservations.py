"""Reservations: a named card for a window of time, promised to one agent."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from warploom.domain.errors import Impossible, MalformedInput, Taken
from warploom.domain.identifiers import AgentId, ReservationId, reservation_name
from warploom.domain.texts import optional_line, spoken_duration

SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(hours=24)
"""What the schema allows at most."""
LATENESS = timedelta(minutes=1)
"""How far in the past a start may lie and still count as now."""
SHOWN_AHEAD = timedelta(hours=24)
"""How far ahead lanes show what is to come."""


@dataclass(frozen=True, slots=True)
class Booking:
    """A reservation of one card that is current or still to come."""

    reservation: ReservationId
    agent: AgentId
    agent_name: str
    title: str | None
    starts_at: datetime
    ends_at: datetime

    @property
    def name(self) -> str:
        """Its number as people say it."""
        return reservation_name(self.reservation)

    def is_current(self, now: datetime) -> bool:
        """Say whether its window has begun and is not over."""
        return self.starts_at <= now < self.ends_at

    def is_run_into(self, start: datetime, run: timedelta | None) -> bool:
        """Say whether a run of that length (None: of any) from `start` on would run into its window."""
        return start < self.ends_at and (run is None or start + run > self.starts_at)


def booking_at(bookings: Sequence[Booking], now: datetime) -> Booking | None:
    """Return the one whose window it is now."""
    return next((each for each in bookings if each.is_current(now)), None)


def barrier(
    bookings: Sequence[Booking], agent: AgentId | None, start: datetime, run: timedelta | None
) -> Booking | None:
    """Return the first one of somebody else that a run would run into."""
    return next((each for each in bookings if each.agent != agent and each.is_run_into(start, run)), None)


@dataclass(frozen=True, slots=True)
class ReservationWish:
    """A wish for a card and a window, as people write it; `read_window` checks it."""

    card: str
    """`0`, `local/0` or a UUID."""
    minutes: float
    starts_at: datetime | None = None
    """With its time zone; None is now."""
    title: str | None = None


@dataclass(frozen=True, slots=True)
class ReservationRules:
    """How far ahead a window may begin, how long it may be, and how many an agent may have open."""

    ahead: timedelta
    longest: timedelta
    most: int


@dataclass(frozen=True, slots=True)
class Window:
    """A checked window and what it is for."""

    starts_at: datetime
    ends_at: datetime
    title: str | None


@dataclass(frozen=True, slots=True)
class ReservationView:
    """A reservation as every door shows it."""

    reservation: str
    card: str
    agent: str
    title: str | None
    starts_at: datetime
    ends_at: datetime
    is_current: bool


@dataclass(frozen=True, slots=True)
class ReservationAnswer:
    """What making a reservation or giving one up means, or would mean when `done` is false."""

    reservation: ReservationView
    done: bool
    is_own: bool
    consequences: list[str]
    next: str
    notices: list[str] = field(default_factory=list[str])


def read_window(wish: ReservationWish, rules: ReservationRules, now: datetime) -> Window:
    """Check a wish against the rules; one sentence for the first thing wrong with it."""
    title = optional_line(wish.title, "title")
    starts_at = _read_start(wish.starts_at, rules, now)
    length = _read_length(wish.minutes, rules)
    return Window(starts_at, starts_at + length, title)


def _read_start(given: datetime | None, rules: ReservationRules, now: datetime) -> datetime:
    if given is None:
        return now
    if given.tzinfo is None:
        raise MalformedInput("The start has no time zone.", "Give it as in 2026-03-01T18:00:00+01:00.")
    if given < now - LATENESS:
        raise Impossible(f"{given:%Y-%m-%d %H:%M %Z} is past.", f"It is {now:%H:%M} UTC; choose a start from now on.")
    if given > now + rules.ahead:
        raise Impossible(
            f"{given:%Y-%m-%d %H:%M %Z} is more than {spoken_duration(rules.ahead)} away.",
            f"Choose a start before {spoken_moment(now + rules.ahead, now)}.",
        )
    return max(given.astimezone(UTC), now)


def _read_length(minutes: float, rules: ReservationRules) -> timedelta:
    if not minutes >= SHORTEST.total_seconds() / 60:
        raise MalformedInput(f"{minutes:g} minutes are too short.", "Reserve a card for a minute or more.")
    if minutes * 60 > rules.longest.total_seconds():
        raise Impossible(
            f"{minutes:g} minutes are too long: a card may be reserved for at most {spoken_duration(rules.longest)}.",
            "Reserve less. A run that is under way when its window ends goes on.",
        )
    return timedelta(minutes=minutes)


def refuse_overlap(card: str, bookings: Sequence[Booking], window: Window, now: datetime) -> None:
    """Raise Taken when a window overlaps another one of its card, with the next gap that is long enough."""
    taken = next((each for each in bookings if _overlap(each, window)), None)
    if taken is None:
        return
    length = window.ends_at - window.starts_at
    gap = _next_gap(bookings, window.starts_at, length)
    raise Taken(
        f"{card} is reserved for {taken.agent_name} {spoken_window(taken, now)} ({taken.name}).",
        f"The next gap for {spoken_duration(length)} there begins at {spoken_moment(gap, now)}.",
    )


def _overlap(booking: Booking, window: Window) -> bool:
    return booking.starts_at < window.ends_at and window.starts_at < booking.ends_at


def _next_gap(bookings: Sequence[Booking], start: datetime, length: timedelta) -> datetime:
    """Return the first moment from `start` on at which so long a window overlaps none, in order of their starts."""
    for each in bookings:
        if each.is_run_into(start, length):
            start = each.ends_at
    return start


def spoken_moment(moment: datetime, now: datetime) -> str:
    """Say a moment in universal time, with the day unless that is today: '18:00 UTC', 'Tue 3 Mar 18:00 UTC'."""
    return f"{moment:%H:%M} UTC" if moment.date() == now.date() else f"{moment:%a %-d %b %H:%M} UTC"


def spoken_window(window: Booking | Window, now: datetime) -> str:
    """Say a window that is to come, 'from 18:00 to 20:00 UTC', or one that has begun, 'until 20:00 UTC'."""
    ends = spoken_moment(window.ends_at, now)
    if window.starts_at <= now:
        return f"until {ends}"
    same_day = window.ends_at.date() == window.starts_at.date()
    starts = spoken_moment(window.starts_at, now)
    return f"from {starts.removesuffix(' UTC')} to {f'{window.ends_at:%H:%M} UTC' if same_day else ends}"


def say_barrier(card: str, booking: Booking, run: timedelta | None, now: datetime) -> str:
    """Say why a ticket must wait for a card although nobody holds it, and what to do about it."""
    reserved = f"{card} is reserved for {booking.agent_name} {spoken_window(booking, now)} ({booking.name})"
    if booking.is_current(now):
        return reserved
    if run is None:
        return f"{reserved}; say how long you need with --minutes to go before it"
    return f"{reserved}, and {spoken_duration(run)} would run into it"


def show_booking(booking: Booking, card: str, now: datetime) -> ReservationView:
    """Present a reservation of a card."""
    return ReservationView(
        booking.name,
        card,
        booking.agent_name,
        booking.title,
        booking.starts_at,
        booking.ends_at,
        booking.is_current(now),
    )
