"""The Jinja environment of the pages: escaping always on, undefined names refused, and the few filters they share."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from warploom.domain.calibrations import say_record
from warploom.domain.cards import GLYPHS, CardState, line_up
from warploom.domain.reservations import ReservationView
from warploom.domain.texts import spoken_duration, spoken_memory
from warploom.web.pages.static import StaticFiles

_COMMAND = re.compile(r"`([^`]+)`|(\bgpu_[a-z]+\([^()]*\))")
_JUST_NOW = timedelta(seconds=2)
SHAPES: Final = {
    "○": "ring",
    "◇": "outline",
    "●": "disc",
    "◐": "half",
    "⧗": "hourglass",
    "▲": "triangle",
    "◆": "diamond",
    "✕": "cross",
    "‖": "bars",
}


def make_templates(folder: Path, static: StaticFiles) -> Jinja2Templates:
    """Prepare the templates of `folder`."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(  # pyright: ignore[reportUnknownMemberType]
        spoken_since=spoken_since,
        spoken_ago=spoken_ago,
        utc=utc,
        iso=iso,
        shape=shape,
        count=count,
        commands=commands,
        memory_of=memory_of,
        share_of=share_of,
        card_path=card_path,
        link_cards=link_cards,
        window=window,
        line_up=line_up,
        say_record=say_record,
    )
    environment.globals["static"] = static.address  # pyright: ignore[reportUnknownMemberType]
    return Jinja2Templates(env=environment)


def spoken_since(moment: datetime, now: datetime) -> str:
    """Say how long ago a moment was: '12 min'."""
    return spoken_duration(now - moment)


def spoken_ago(moment: datetime, now: datetime) -> str:
    """Say when a moment was: '12 min ago', 'just now'."""
    return "just now" if now - moment < _JUST_NOW else f"{spoken_since(moment, now)} ago"


def utc(moment: datetime, pattern: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """Write a moment in universal time."""
    return moment.astimezone(UTC).strftime(pattern)


def window(reservation: ReservationView, now: datetime) -> str:
    """Write a reservation's window in universal time: '18:00–20:00 UTC', with the day unless that is today."""
    day = "" if reservation.starts_at.astimezone(UTC).date() == now.astimezone(UTC).date() else "%a %-d %b "
    return f"{utc(reservation.starts_at, f'{day}%H:%M')}–{utc(reservation.ends_at, '%H:%M UTC')}"


def iso(moment: datetime) -> str:
    """Write a moment for machines, to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def shape(state: CardState) -> str:
    """Name the shape that a state is drawn with, the same as the glyph it has in a terminal."""
    return SHAPES[GLYPHS[state]]


def count(number: int) -> str:
    """Write a number with thousands apart."""
    return f"{number:,}"


def commands(text: str) -> Markup:
    """Escape a sentence and set the commands in it as code."""
    found: list[Markup] = []
    end = 0
    for match in _COMMAND.finditer(text):
        found += [escape(text[end : match.start()]), Markup("<code>{}</code>").format(match[1] or match[2])]
        end = match.end()
    return Markup("").join([*found, escape(text[end:])])


def memory_of(used_mib: int | None, total_mib: int) -> str:
    """Say how much memory is used of how much: '96 / 141 GiB', or that the driver does not say."""
    total = spoken_memory(total_mib)
    if used_mib is None:
        return f"not reported / {total}"
    used, unit = spoken_memory(used_mib).split(" ")
    return f"{used} / {total}" if total.endswith(unit) else f"{used} {unit} / {total}"


def share_of(part: float | None, whole: float | None) -> float:
    """Return a part in percent of a whole, between 0 and 100; 0 where either is missing."""
    if not part or not whole:
        return 0.0
    return round(min(100.0, max(0.0, 100 * part / whole)), 1)


def card_path(card: str) -> str:
    """Write a card's name for an address or an anchor."""
    return quote(card, safe="/")


def link_cards(text: str, cards: Sequence[str] | None) -> Markup:
    """Escape a sentence and link each of `cards` in it to its lane."""
    if not cards:
        return escape(text)
    names = "|".join(re.escape(card) for card in sorted(cards, key=len, reverse=True))
    pieces = re.split(rf"(?<!\S)({names})(?![\w/])", text)
    return Markup("").join(
        Markup('<a class="id" href="#card-{}">{}</a>').format(card_path(piece), piece) if place % 2 else escape(piece)
        for place, piece in enumerate(pieces)
    )
