"""Moments and lengths of time as people write them on a command line, and as they read them."""

import re
from datetime import datetime, time, timedelta
from typing import Final

from warploom.domain.errors import MalformedInput
from warploom.domain.reservations import ReservationView

_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_LENGTH = re.compile(
    r"(?:([0-9]{1,4}(?:\.[0-9]+)?)\s*h(?:ours?)?)?\s*(?:([0-9]{1,6}(?:\.[0-9]+)?)\s*(?:m|min|minutes?)?)?", re.ASCII
)
_MOMENTS: Final = "Give now, 18:00, +90min, or a date and time such as 2026-03-01T18:00."


def read_moment(text: str, now: datetime) -> datetime | None:
    """Read `now` (None), `18:00` (the next one by the caller's clock), `+90min`, or a date and time, with its zone or local."""
    given = text.strip()
    if given.lower() == "now":
        return None
    if given.startswith("+"):
        return now + timedelta(minutes=read_minutes(given[1:]))
    found = _TIME.fullmatch(given)
    if found is not None:
        return _next(time(int(found[1]), int(found[2])), now)
    try:
        return datetime.fromisoformat(given).astimezone()
    except (ValueError, OverflowError, OSError):
        raise MalformedInput(f"{given[:40]!r} is not a moment.", _MOMENTS) from None


def _next(clock: time, now: datetime) -> datetime:
    today = datetime.combine(now.date(), clock).astimezone()
    return today if today >= now else datetime.combine(now.date() + timedelta(days=1), clock).astimezone()


def read_minutes(text: str) -> float:
    """Read `2h`, `90min`, `1h30` or `90` as minutes."""
    given = text.strip().lower()
    found = _LENGTH.fullmatch(given)
    if not given or found is None:
        raise MalformedInput(f"{text.strip()[:40]!r} is not a length of time.", "Give it as in 2h, 90min or 1h30.")
    return 60 * float(found[1] or 0) + float(found[2] or 0)


def window_text(starts_at: datetime, ends_at: datetime, now: datetime) -> str:
    """Write a window as the reader's own clock shows it, with the zone: '18:00–20:00 CET', with the day unless that is today."""
    starts, ends = starts_at.astimezone(), ends_at.astimezone()
    day = "" if starts.date() == now.astimezone().date() else f"{starts:%a %-d %b} "
    next_day = "" if ends.date() == starts.date() else f"{ends:%a %-d %b} "
    return f"{day}{starts:%H:%M}–{next_day}{ends:%H:%M} {ends:%Z}"


def reservation_text(view: ReservationView) -> str:
    """Write a reservation in one line: 'R-3: local/0 for ada, 18:00–20:00 CET 'sweep''."""
    title = f" '{view.title}'" if view.title else ""
    window = window_text(view.starts_at, view.ends_at, datetime.now().astimezone())
    return f"{view.reservation}: {view.card} for {view.agent}, {window}{title}"
