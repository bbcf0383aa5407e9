"""One-line names and longer texts that people and models may write, with their limits."""

import unicodedata
from datetime import timedelta

from warploom.domain.errors import MalformedInput

NAME_LIMIT = 80
TITLE_LIMIT = 200
REASON_LIMIT = 500
TEXT_LIMIT = 20_000


def one_line(text: str, field: str, limit: int = TITLE_LIMIT) -> str:
    """Return `text` as one clean line; raise MalformedInput when it is empty or longer than `limit` characters.

    Control and format characters (newlines, escapes, direction marks) become single spaces, so that no
    name can forge a second line or recolour a terminal. Marks such as `<` stay: every door escapes them.
    """
    if len(text) > limit * 4:
        raise MalformedInput(f"The {field} has {len(text):,} characters.", f"Use at most {limit}.")
    clean = _cleaned(text)
    if not clean:
        raise MalformedInput(f"The {field} is empty.", f"Give a {field} of 1 to {limit} characters.")
    if len(clean) > limit:
        raise MalformedInput(f"The {field} has {len(clean):,} characters.", f"Use at most {limit}.")
    return clean


def optional_line(text: str | None, field: str, limit: int = TITLE_LIMIT) -> str | None:
    """Return None for a missing or blank text, otherwise `one_line`."""
    return one_line(text, field, limit) if text and text.strip() else None


def long_text(text: str | None, field: str, limit: int = TEXT_LIMIT) -> str | None:
    """Return a text of several lines as it was written, or None for a missing or blank one.

    Raise MalformedInput when it is longer than `limit` characters. Marks that a terminal or a reader of lines might obey
    (all control and format characters but newline and tab) become spaces.
    """
    if text is None or not text.strip():
        return None
    if len(text) > limit:
        raise MalformedInput(f"The {field} has {len(text):,} characters.", f"Use at most {limit:,}.")
    unified = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if unified.replace("\n", "").replace("\t", "").isprintable():
        return unified  # nothing of category C, found out fast
    clean = (mark if mark in "\n\t" or unicodedata.category(mark)[0] != "C" else " " for mark in unified)
    return "".join(clean).strip() or None


def cut_line(text: str | None, limit: int) -> str | None:
    """Clean a text as `one_line` does, but cut it where it is too long, and return None for a missing or blank one."""
    return _cleaned((text or "")[: limit * 4])[:limit] or None


def inert(text: str) -> str:
    """Make any text harmless to a terminal: escapes, newlines and direction marks become blanks."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else " " for mark in text)


def _cleaned(text: str) -> str:
    if text.isprintable():  # no blank but the plain one, and nothing of category C
        return " ".join(text.split())
    spaced = "".join(" " if unicodedata.category(mark)[0] == "C" or mark.isspace() else mark for mark in text)
    return " ".join(spaced.split())


def spoken_duration(span: timedelta) -> str:
    """Say a duration as a person would: '40 s', '12 min', '2 h 5 min', '3 d 4 h'; never negative."""
    seconds = max(0, round(span.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def spoken_memory(mib: int) -> str:
    """Say an amount of memory given in MiB: '512 MiB', '22.4 GiB', '141 GiB'."""
    if mib < 1024:
        return f"{mib} MiB"
    gib = mib / 1024
    return f"{gib:.0f} GiB" if gib >= 100 or gib == int(gib) else f"{gib:.1f} GiB"


def spoken_list(items: list[str]) -> str:
    """Join names as a sentence does: 'a', 'a and b', 'a, b and c'."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
