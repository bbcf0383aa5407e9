"""The checks of `doctor`: each has a word, what was seen and what to do."""

from dataclasses import dataclass
from enum import StrEnum


class Word(StrEnum):
    """How a check came out; only `bad` makes `doctor` exit with 1."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `doctor`. `fix` says what to do, and never names a destructive command."""

    word: Word
    name: str
    text: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """A server's own word that it and its database answer; `schema` is the database's revision."""

    status: str
    version: str
    schema: str
