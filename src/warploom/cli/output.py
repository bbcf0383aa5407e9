"""What commands print: inert text for people, one JSON value for machines."""

import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from warploom.domain.errors import PlanRefused, WarploomError
from warploom.domain.texts import inert


def say(lines: Iterable[str]) -> None:
    """Print the lines a command answers with."""
    for line in lines:
        print(inert(line))
    sys.stdout.flush()


def note(line: str) -> None:
    """Tell people something beside the answer, on stderr."""
    print(inert(line), file=sys.stderr, flush=True)


def emit(value: Any) -> None:
    """Print one value as one line of JSON."""
    print(as_json_line(value), flush=True)


def as_json_line(value: Any) -> str:
    """Write a value as JSON in which every character that a terminal might obey is escaped."""
    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else "".join(mark if mark.isprintable() else _escaped(mark) for mark in text)


def _escaped(mark: str) -> str:
    units = mark.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def present(value: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print an answer in the form that was asked for."""
    if as_json:
        emit(value)
    else:
        say(lines)


def refuse(error: WarploomError, *, as_json: bool) -> None:
    """Print a refusal: the cause and the next step on stderr, or one JSON object on stdout."""
    if as_json:
        emit({"error": {"code": error.code, "cause": error.cause, "next": error.next_step}})
        return
    for line in error.cause.splitlines() if isinstance(error, PlanRefused) else [error.cause]:
        note(line)
    note(error.next_step)
