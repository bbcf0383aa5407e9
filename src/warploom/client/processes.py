"""Which process is which: a number and a start, so that a reused number is never taken for the old process."""

import sys
from pathlib import Path

from warploom.domain.processes import ProcessIdentity

if sys.platform != "linux":  # where /proc tells it all, loading psutil would only slow every command down
    import psutil

_DEPTH = 64


def identity_of(pid: int) -> ProcessIdentity | None:
    """Return the identity of a running process, or None when there is none (a zombie counts as gone)."""
    seen = _seen(pid)
    return None if seen is None else seen[0]


def is_alive(identity: ProcessIdentity) -> bool:
    """Say whether exactly this process still runs."""
    return identity_of(identity.pid) == identity


def ancestors_of(pid: int) -> list[ProcessIdentity]:
    """Return the parents of a process, nearest first, without process 1 and without itself."""
    found: list[ProcessIdentity] = []
    seen = _seen(pid)
    while seen is not None and seen[1] > 1 and len(found) < _DEPTH:
        seen = _seen(seen[1])
        if seen is not None:
            found.append(seen[0])
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


def _seen(pid: int) -> tuple[ProcessIdentity, int] | None:
    """Return the identity of a running process and its parent's number, from one look; None when there is none."""
    if sys.platform == "linux":
        fields = _stat(pid)
        if fields is None or fields[0] in "ZX":
            return None
        return ProcessIdentity(pid, int(fields[19])), int(fields[1])
    try:
        process = psutil.Process(pid)
        return ProcessIdentity(pid, round(process.create_time() * 100)), process.ppid()
    except psutil.Error:
        return None


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on; the name before them may hold blanks and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
