"""Tells which processes use the fake cards just now, from the files that they wrote."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from warploom.domain.hosts import ProcessFact
from warploom.host.fake_cards import FIRST_LEFT_PID
from warploom.host.processes import ProcessBook

T = TypeVar("T")

_BUSY_PERCENT = 95


class Files(Generic[T]):
    """Decoded files, read again only when they were replaced."""

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self._decode = decode
        self._known: dict[Path, tuple[tuple[int, int, int], T]] = {}

    def read(self, path: Path) -> T | None:
        """Return a file's content, None when there is no file; raise what `decode` raises."""
        try:
            seen = path.stat()
            version = (seen.st_ino, seen.st_mtime_ns, seen.st_size)
            known = self._known.get(path)
            if known is None or known[0] != version:
                known = self._known[path] = (version, self._decode(path.read_bytes()))
        except FileNotFoundError:
            self._known.pop(path, None)
            return None
        return known[1]


@dataclass(frozen=True, slots=True)
class Context:
    """A process's use of a card, as `fake_context.occupy` wrote it down; `started` None where it could not tell."""

    pid: int
    uuid: str
    memory_mib: int
    started: int | None = None
    utilisation: int | None = None


@dataclass(slots=True)
class Use:
    """What the contexts of one card come to."""

    processes: list[ProcessFact] = field(default_factory=list[ProcessFact])
    utilisation: int = 0
    draining_mib: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """What follows on a card when a process that uses it ends: a child stays for a while, then its memory drains."""

    linger_seconds: float = 0
    drain_seconds: float = 0


class Contexts:
    """The contexts of one home. One counts while exactly its process runs, and then for as long as its `Ending` says.

    It ends with its process, or when that gives the card back. A child stays only of a process that was seen here.
    """

    def __init__(self, folder: Path, book: ProcessBook) -> None:
        self._folder = folder
        self._book = book
        self._files = Files(_decode)
        self._starts: dict[Path, int] = {}
        self._ended_at: dict[Path, float] = {}
        self._seen: dict[Path, tuple[Context, ProcessFact]] = {}

    def uses(self, endings: Mapping[str, Ending]) -> dict[str, Use]:
        """Return the use of each card named in `endings`."""
        uses = {uuid: Use() for uuid in endings}
        for path, context in self._contexts().items():
            self._count(path, context, uses.get(context.uuid) or Use(), endings.get(context.uuid) or Ending())
        return uses

    def _contexts(self) -> dict[Path, Context]:
        """Return those there are, and those that were given back since they were seen."""
        present = {path: context for path in self._paths() if (context := self._files.read(path)) is not None}
        return {path: context for path, (context, _) in self._seen.items()} | present

    def _paths(self) -> list[Path]:
        try:
            names = [entry.name for entry in os.scandir(self._folder)]
        except FileNotFoundError:
            return []
        return [self._folder / name for name in sorted(names) if name.endswith(".json") and name[0] != "."]

    def _count(self, path: Path, context: Context, use: Use, ending: Ending) -> None:
        fact = self._living(path, context)
        if fact is None:
            self._count_ended(path, context, use, ending)
            return
        self._seen[path] = (context, fact)
        self._ended_at.pop(path, None)
        use.processes.append(fact)
        busy = _BUSY_PERCENT if context.utilisation is None else context.utilisation
        use.utilisation = min(100, use.utilisation + busy)

    def _living(self, path: Path, context: Context) -> ProcessFact | None:
        if not path.exists():
            return None
        fact = self._book.fact(context.pid, memory_mib=context.memory_mib)
        started = context.started or self._starts.setdefault(path, 0 if fact is None else fact.started)
        return fact if fact is not None and fact.started == started else None

    def _count_ended(self, path: Path, context: Context, use: Use, ending: Ending) -> None:
        now = time.monotonic()
        gone_for = now - self._ended_at.setdefault(path, now)
        if path in self._seen and gone_for < ending.linger_seconds:
            use.processes.append(_child(self._seen[path][1]))
            return
        drained_for = gone_for - (ending.linger_seconds if path in self._seen else 0)
        if drained_for < ending.drain_seconds:
            use.draining_mib += round(context.memory_mib * (1 - drained_for / ending.drain_seconds))
            return
        path.unlink(missing_ok=True)
        for known in (self._starts, self._ended_at, self._seen):
            known.pop(path, None)


def _child(parent: ProcessFact) -> ProcessFact:
    """Return a child that outlives its parent: it has the same lease in its environment, and nobody above it any more."""
    return replace(parent, pid=FIRST_LEFT_PID + parent.pid, ancestors=[])


def _decode(content: bytes) -> Context | None:
    try:
        return msgspec.json.decode(content, type=Context)
    except msgspec.DecodeError:
        return None
