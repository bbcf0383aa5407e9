"""The processes of the stack: started detached, watched without polling, ended politely first."""

import os
import pwd
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warploom.client.processes import identity_of, is_alive
from warploom.domain.errors import Unreachable
from warploom.domain.processes import ProcessIdentity

if sys.platform != "linux":  # Linux needs only /proc, and this is on the way of every start
    import psutil

_UNPRIVILEGED = "nobody"
_LARGEST_LOG = 5 * 1024 * 1024
_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Account:
    """A user that a server runs as because it must not, or need not, run as root."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: arguments, folder, log, and the user (None: as ourselves) and environment to run it with."""

    arguments: Sequence[str]
    folder: Path
    log: Path
    account: Account | None = None
    environment: Mapping[str, str] | None = None


def service_account() -> Account | None:
    """Return the user that Postgres and Valkey run as: nobody for root, ourselves (None) for everyone else."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(_UNPRIVILEGED)
    except KeyError:
        raise Unreachable(
            f"Postgres does not run as root, and this machine has no user {_UNPRIVILEGED}.",
            "Run Warploom as an ordinary user, or name a database in WARPLOOM_DATABASE_URL.",
        ) from None
    return Account(entry.pw_uid, entry.pw_gid)


def run_as(account: Account | None, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a short command to its end as a user and return what it said; raise OSError if it cannot be run."""
    return subprocess.run(
        list(arguments),
        cwd=folder,
        env=bare_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        user=None if account is None else account.uid,
        group=None if account is None else account.gid,
        extra_groups=None if account is None else [],
    )


def spawn(command: Command) -> ProcessIdentity:
    """Start a process in a session of its own that outlives us; raise OSError if it cannot be run.

    Its output goes to the log, never to our own stdout, which may carry a protocol.
    """
    _turn_over(command.log)
    account = command.account
    log = os.open(command.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        child = subprocess.Popen(
            list(command.arguments),
            cwd=command.folder,
            env=None if command.environment is None else dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else [],
        )
    finally:
        os.close(log)
    child.returncode = 0  # the object need not outlive this call: `reap` collects the process by its number
    return identity_of(child.pid) or ProcessIdentity(child.pid, 0)


def bare_environment() -> dict[str, str]:
    """Return an environment that says nothing about the session that happened to start the stack."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def await_end(process: ProcessIdentity, seconds: float | None = None, wake: int | None = None) -> bool:
    """Wait for a process to end and say whether it has; give up after `seconds` or once `wake` can be read."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    except (OSError, AttributeError):  # an old kernel, or not Linux
        return _watch(process, seconds, wake)
    try:
        if is_alive(process):
            _poll((descriptor, wake), seconds)
    finally:
        os.close(descriptor)
    return has_ended(process)


def has_ended(process: ProcessIdentity) -> bool:
    """Say whether a process is gone, and collect it if it was ours, so that no zombie holds its number."""
    if is_alive(process):
        return False
    reap(process.pid)
    return True


def reap(pid: int) -> None:
    """Collect a child that has ended; other processes are left alone."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def end(process: ProcessIdentity, *steps: tuple[signal.Signals, float]) -> bool:
    """Send each signal in turn and give the process its seconds after each; say whether it has ended."""
    for number, seconds in steps:
        if has_ended(process):
            return True
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        if await_end(process, seconds):
            return True
    return has_ended(process)


def command_of(pid: int) -> list[str]:
    """Return the command line of a process, also of another user's; empty when there is none to see."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            return []
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def folder_of(pid: int) -> Path | None:
    """Return a way to the working folder of a process, or None where the kernel does not let us look."""
    if sys.platform == "linux":
        return Path(f"/proc/{pid}/cwd")
    try:
        return Path(psutil.Process(pid).cwd())
    except psutil.Error:
        return None


def every_pid() -> list[int]:
    """List the numbers of all processes that can be seen."""
    if sys.platform == "linux":
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return psutil.pids()


def last_line(log: Path) -> str:
    """Return the last line that a process wrote, for a message that says why it ended."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[-300:] for line in reversed(lines) if line.strip()), "")


def _turn_over(log: Path) -> None:
    with suppress(OSError):
        if log.stat().st_size > _LARGEST_LOG:
            log.replace(log.with_suffix(".log.1"))


def _poll(descriptors: Sequence[int | None], seconds: float | None) -> bool:
    poller = select.poll()
    for descriptor in descriptors:
        if descriptor is not None:
            poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(None if seconds is None else max(0, round(seconds * 1000))))


def _watch(process: ProcessIdentity, seconds: float | None, wake: int | None) -> bool:
    deadline = None if seconds is None else time.monotonic() + seconds
    while not has_ended(process):
        if deadline is not None and time.monotonic() > deadline:
            return False
        if _poll((wake,), _PAUSE):
            return has_ended(process)
    return True
