"""What can be known of a process on a card: its user, its command, the lease it names and its parents."""

import re
from dataclasses import replace
from itertools import dropwhile
from pathlib import PurePath

import psutil

from warploom.client.processes import ancestors_of, command_of, identity_of
from warploom.domain.hosts import ProcessFact, ProcessKind
from warploom.domain.processes import ProcessIdentity

_COMMAND_LIMIT = 80
_LEASE_LIMIT = 24
_REMEMBERED = 2048
_PYTHON_FLAGS = re.compile("-[bBdEiIOPqsSuv]+")


class ProcessBook:
    """Facts of processes, read once for each.

    Remembering is also right where reading again would not be: a process whose parent ended is handed to another, but
    it still descends from the session that its first look named.
    """

    def __init__(self) -> None:
        self._known: dict[ProcessIdentity, ProcessFact] = {}

    def fact(
        self, pid: int, kind: ProcessKind = ProcessKind.COMPUTE, memory_mib: int | None = None
    ) -> ProcessFact | None:
        """Tell of a running process; None when there is none of that number (a zombie counts as gone)."""
        identity = identity_of(pid)
        if identity is None:
            return None
        known = self._known.get(identity) or self._learn(identity)
        return None if known is None else replace(known, kind=kind, memory_mib=memory_mib)

    def _learn(self, identity: ProcessIdentity) -> ProcessFact | None:
        fact = ProcessFact(
            identity.pid,
            identity.started,
            user=user_of(identity.pid),
            command=shown_command(identity.pid),
            lease=lease_of(identity.pid),
            ancestors=ancestors_of(identity.pid),
        )
        if identity_of(identity.pid) != identity:
            return None
        while len(self._known) >= _REMEMBERED:
            self._known.pop(next(iter(self._known)), None)
        self._known[identity] = fact
        return fact


def short_command(arguments: list[str]) -> str | None:
    """Name a command in one short line: the program and the first thing it is given, never an option's value.

    What follows may hold passwords and tokens, and every user of the cards can read this line.
    """
    if not arguments or not arguments[0]:
        return None
    program = PurePath(arguments[0]).name
    rest = arguments[1:]
    if program.startswith("python"):
        rest = list(dropwhile(_PYTHON_FLAGS.fullmatch, rest))
    words = [program, *_subject(rest)]
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in " ".join(words)).split())
    return line if len(line) <= _COMMAND_LIMIT else line[: _COMMAND_LIMIT - 1] + "…"


def _subject(rest: list[str]) -> list[str]:
    if rest[:1] == ["-m"]:
        return rest[:2]
    first = rest[0] if rest else "-"
    return ["-c"] if first == "-c" else [] if first.startswith("-") or "=" in first else [PurePath(first).name]


def shown_command(pid: int) -> str | None:
    """Name the command of a running process in one short line; None when it is gone."""
    return short_command(command_of(pid)) or _name(pid)


def user_of(pid: int) -> str | None:
    """Return the name of a process's user; None when it is gone."""
    try:
        return psutil.Process(pid).username()
    except (psutil.Error, OSError):
        return None


def _name(pid: int) -> str | None:
    try:
        return psutil.Process(pid).name()[:_COMMAND_LIMIT] or None
    except (psutil.Error, OSError):
        return None


def lease_of(pid: int) -> str | None:
    """Return the lease that a process's environment names; None when it names none or may not be read."""
    try:
        named = psutil.Process(pid).environ().get("WARPLOOM_LEASE")
    except (psutil.Error, OSError):
        return None
    return named[:_LEASE_LIMIT] if named and named.isprintable() else None
