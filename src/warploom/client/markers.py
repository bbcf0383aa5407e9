"""Completion markers: how a task ended, written down on this machine while no server could be told."""

import fcntl
import json
import os
import stat
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast

from warploom.client.files import write_whole
from warploom.domain.errors import MalformedInput
from warploom.domain.identifiers import lease_name, parse_lease, parse_task, task_name

FOLDER: Final = "completions"
_ARCHIVE: Final = "applied"
_LONGEST: Final = 1024 * 1024


class Verb(StrEnum):
    """How a holder ended its task."""

    DONE = "done"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Marker:
    """What a holder would have told the server. Its lease is always named, so that it can never count for a later one."""

    task: str
    lease: str
    verb: Verb
    server: str
    """Which server the task is of: 'local', or an address; see `server_of`."""
    agent: str | None
    written_at: datetime
    output: Any = None
    branch: str | None = None
    reason: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A marker's file; `marker` is None where it cannot be read, and `fault` says why."""

    path: Path
    marker: Marker | None
    fault: str = ""


class Completions:
    """The markers of one home: those that wait, and the archive of those that were told."""

    def __init__(self, home: Path) -> None:
        self.folder = home / FOLDER
        self.archive = self.folder / _ARCHIVE

    def write(self, marker: Marker) -> Path:
        """Write a marker down; once this returns it survives a crash."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / f"{marker.lease}-{uuid.uuid4().hex}.json"
        write_whole(path, _text(marker))
        return path

    def waiting(self) -> list[Found]:
        """List what has not been told yet, the oldest first; what cannot be read comes last."""
        found = [_read(path) for path in sorted(self.folder.glob("[!.]*.json"))]
        late = datetime.max.replace(tzinfo=UTC)
        return sorted(
            (each for each in found if each), key=lambda each: each.marker.written_at if each.marker else late
        )

    @contextmanager
    def taken(self, found: Found) -> Generator[bool]:
        """Hold a marker for the length of a block, so that no two processes apply it at once; False where it is gone."""
        try:
            descriptor = os.open(found.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            yield False
            return
        try:
            yield _is_held(descriptor, found.path)
        finally:
            os.close(descriptor)

    def settle(self, found: Found, outcome: str, text: str) -> None:
        """Move a marker into the archive with what became of it. A crash on the way leaves it waiting, to be told again."""
        if found.marker is None:
            return
        facts = {"outcome": outcome, "told": text, "settled_at": datetime.now(UTC).isoformat(timespec="seconds")}
        write_whole(self.archive / found.path.name, _text(found.marker, **facts))
        found.path.unlink(missing_ok=True)


def _is_held(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _text(marker: Marker, **facts: str) -> str:
    values = {**asdict(marker), "written_at": marker.written_at.isoformat(timespec="seconds"), **facts}
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def _read(path: Path) -> Found | None:
    """Read one marker; None when it has just been taken away."""
    try:
        seen = path.lstat()
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _LONGEST:
            return Found(path, None, "it is no file, or too large")
        return Found(path, _marker(json.loads(path.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, MalformedInput) as error:
        return Found(path, None, f"{type(error).__name__}: {error}"[:200])


def _marker(value: Any) -> Marker:
    """Check what a file holds; anybody may have written it."""
    if not isinstance(value, dict):
        raise MalformedInput("It is no object.", "")
    facts = cast("dict[str, Any]", value)
    written_at = datetime.fromisoformat(facts["written_at"])
    return Marker(
        task=task_name(parse_task(facts["task"])),
        lease=lease_name(parse_lease(facts["lease"])),
        verb=Verb(facts["verb"]),
        server=str(facts["server"]),
        agent=_line(facts, "agent"),
        written_at=written_at if written_at.tzinfo else written_at.replace(tzinfo=UTC),
        output=facts.get("output"),
        branch=_line(facts, "branch"),
        reason=_line(facts, "reason"),
        failure=_line(facts, "failure"),
    )


def _line(facts: dict[str, Any], name: str) -> str | None:
    text = facts.get(name)
    return text if isinstance(text, str) else None
