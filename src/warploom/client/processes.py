"""Which process is which: a number and a start, so that a reused number is never taken for the old process."""

import sys
from pathlib import Path

from warploom.domain.processes import ProcessIdentity

if sys.platform != "linux":  # where /proc tells it all, loading psutil would only slow every command down
    import psutil

_DEPTH = 64


def identity_of(pid: int) -> ProcessIdentity | None:
    """Return the identity of a running process, or None when there is none (a zombie counts as gone)."""
    if sys.platform == "linux":
        fields = _stat(pid)
        return None if fields is None or fields[0] in "ZX" else ProcessIdentity(pid, int(fields[19]))
    try:
        return ProcessIdentity(pid, round(psutil.Process(pid).create_time() * 100))
    except psutil.Error:
        return None


def is_alive(identity: ProcessIdentity) -> bool:
    """Say whether exactly this process still runs."""
    return identity_of(identity.pid) == identity


def ancestors_of(pid: int) -> list[ProcessIdentity]:
    """Return the parents of a process, nearest first, without process 1 and without itself."""
    found: list[ProcessIdentity] = []
    parent = _parent(pid)
    while parent > 1 and len(found) < _DEPTH:
        identity = identity_of(parent)
        if identity is None:
            break
        found.append(identity)
        parent = _parent(parent)
    return found


def command_of(pid: int) -> list[str]:
    """Return the arguments a process was started with; empty when it is gone or may not be seen."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")[:-1]
        except OSError:
            return []
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def _parent(pid: int) -> int:
    if sys.platform == "linux":
        fields = _stat(pid)
        return 0 if fields is None else int(fields[1])
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return 0


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on; the name before them may hold blanks and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
