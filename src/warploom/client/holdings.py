"""What the shells of this machine have claimed, written down so that a lease is known while no server can be asked."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from warploom.config import Settings
from warploom.domain.callers import Caller
from warploom.domain.errors import MalformedInput
from warploom.domain.identifiers import lease_name, parse_lease, parse_task, task_name
from warploom.domain.processes import ProcessIdentity

_FOLDER: Final = "claims"
_KEPT_SECONDS: Final = 14 * 24 * 3600.0
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class Holdings:
    """The claims that sessions of one home made at one server; one small file for each lease."""

    def __init__(self, home: Path, server: str) -> None:
        self._folder = home / _FOLDER
        self._server = server

    def remember(self, task: str, lease: str, caller: Caller) -> None:
        """Write down that a session claimed a task; where that is not possible, nothing but the memory is lost."""
        facts = {
            "server": self._server,
            "task": task,
            "lease": lease,
            "session": caller.session_key,
            "process": None if caller.process is None else [caller.process.pid, caller.process.started],
        }
        with suppress(OSError):
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = self._folder / f".{lease}.{os.getpid()}.partial"
            partial.write_text(json.dumps(facts), encoding="utf-8")
            partial.replace(self._folder / f"{lease}.json")
            self._forget_old()

    def lease_of(self, task: str, caller: Caller) -> str | None:
        """Return the latest lease under which this very session claimed a task; None where it is not known."""
        own = [facts for facts in self._all() if facts["task"] == task and _is_of(facts, caller)]
        latest = max(own, key=lambda facts: int(facts["lease"][2:]), default=None)
        return None if latest is None else latest["lease"]

    def task_of(self, lease: str) -> str | None:
        """Return the task a lease was claimed for, whoever claimed it; None where it is not known."""
        return next((facts["task"] for facts in self._all() if facts["lease"] == lease), None)

    def _all(self) -> list[dict[str, Any]]:
        found = [_read(path) for path in self._folder.glob("L-*.json")]
        return [facts for facts in found if facts is not None and facts["server"] == self._server]

    def _forget_old(self) -> None:
        before = time.time() - _KEPT_SECONDS
        for path in self._folder.iterdir():
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)


def claims_in(content: Any) -> list[tuple[str, str]]:
    """Find what a tool's answer says was claimed: each task with its lease; nothing where it says no such thing."""
    if not isinstance(content, dict):
        return []
    answer = cast("dict[str, Any]", content)
    several = answer.get("claims")
    claims: list[Any] = cast("list[Any]", several) if isinstance(several, list) else [answer]
    return [pair for claim in claims if (pair := _claim(claim)) is not None]


def _claim(claim: Any) -> tuple[str, str] | None:
    try:
        task, lease = claim["task"]["task"], claim["lease"]
        return task_name(parse_task(task)), lease_name(parse_lease(lease))
    except (KeyError, TypeError, AttributeError, MalformedInput):
        return None


def server_of(settings: Settings) -> str:
    """Name the server that commands speak to, so that nothing written down for one is ever told to another.

    Everything on this machine is 'local': its address changes from one start to the next.
    """
    if settings.url is None or urlsplit(settings.url).hostname in _LOOPBACK:
        return "local"
    return settings.url


def _read(path: Path) -> dict[str, Any] | None:
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        is_whole = all(isinstance(facts[name], str) for name in ("server", "task", "lease"))
        return facts if is_whole and facts["lease"][2:].isdecimal() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_of(facts: dict[str, Any], caller: Caller) -> bool:
    """A session is known by the name it gave itself, else by its process, which is an ancestor of what it runs."""
    if caller.session_key is not None or facts.get("session") is not None:
        return facts.get("session") == caller.session_key
    process: Any = facts.get("process")
    if not isinstance(process, list):
        return False
    return any([step.pid, step.started] == process for step in _processes(caller))


def _processes(caller: Caller) -> list[ProcessIdentity]:
    return [*caller.ancestors, *([caller.process] if caller.process else [])]
