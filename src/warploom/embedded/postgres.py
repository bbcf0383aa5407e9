"""The embedded Postgres: one instance per home, found, made, started, shared, recovered and stopped.

As root the server runs as `nobody`, while the home stays root's own and 0700. It is started with the data folder as its
working folder and addresses it as `/proc/self/cwd`, which needs no way through the folders above. So the data lies in the
home like everything else (no second place that is lost with a container or left behind with a throw-away home), no mode
of a parent is changed, and no other process of `nobody` can reach the data or the socket. The socket lies in the data
folder too: whoever may enter it is this home's owner, which is why connections need no password.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from warploom.client.processes import identity_of
from warploom.domain.errors import Unreachable
from warploom.domain.processes import ProcessIdentity
from warploom.embedded.binaries import Installation, find_postgres, postgres_folders
from warploom.embedded.children import (
    Command,
    bare_environment,
    command_of,
    end,
    every_pid,
    folder_of,
    has_ended,
    last_line,
    reap,
    run_as,
    service_account,
    spawn,
)
from warploom.embedded.homes import Home
from warploom.embedded.sockets import Refused, ask_postgres, listener_at

_PORT: Final = 5432  # only a part of the socket's name: nothing listens on TCP
_USER: Final = "postgres"
_LAST_WITHOUT_BUILTIN_LOCALE: Final = 16
_STARTING_OR_STOPPING: Final = "57P"  # any other refusal comes from a server that is up
_PAUSE: Final = 0.01
_LEFTOVERS_SECONDS: Final = 10.0
_FAST: Final = (signal.SIGINT, 20.0)
_AT_ONCE: Final = (signal.SIGQUIT, 10.0)

_SETTINGS: Final = """\
# Written at every start; settings of your own belong into postgresql.conf below the include, or into `alter system`.
listen_addresses = ''
port = {port}
unix_socket_directories = '.'
unix_socket_permissions = 0700
max_connections = 100
shared_buffers = 128MB
jit = off
idle_in_transaction_session_timeout = 60s
autovacuum_naptime = 10s
autovacuum_max_workers = 2
wal_level = minimal
max_wal_senders = 0
max_replication_slots = 0
max_logical_replication_workers = 0
min_wal_size = 64MB
max_wal_size = 512MB
checkpoint_timeout = 15min
log_destination = 'stderr'
logging_collector = off
log_checkpoints = off
timezone = 'UTC'
log_timezone = 'UTC'
"""
_SETTINGS_SINCE: Final = {17: "transaction_timeout = 5min\n", 18: "io_method = sync\n"}


class Postgres:
    """The Postgres of one home; every process that makes one speaks of the same instance."""

    name = "postgres"

    def __init__(self, home: Path, folders: Sequence[Path] | None = None, patience: float = 60.0) -> None:
        self.home = Home.at(home)
        self.started_in: timedelta | None = None
        """How long the start took, or None when it already ran."""
        self._folders = folders
        self._patience = patience
        self._account = service_account()
        self._found: Installation | None = None

    @property
    def data(self) -> Path:
        """The data folder, named after the major version so that an upgrade never opens the old data."""
        return self._existing_data() or self.home.path / f"pg{self._installation().major}"

    @property
    def url(self) -> str:
        """The DSN, which is known before the start; raise Unreachable when there is no Postgres to start."""
        return f"postgresql://{_USER}@/postgres?host={self.home.address(self.data)}&port={_PORT}"

    @property
    def process(self) -> ProcessIdentity | None:
        """The running postmaster, or None."""
        pid = _first_number(self.data / "postmaster.pid")
        return identity_of(pid) if pid and self._is_ours(pid) else None

    def facts(self) -> dict[str, object]:
        """Return what a reader of the record may want to know."""
        seconds = None if self.started_in is None else round(self.started_in.total_seconds(), 2)
        return {"version": (self.data / "PG_VERSION").read_text().strip(), "seconds": seconds}

    def start(self) -> str:
        """Make sure it runs and return the DSN; raise Unreachable when it cannot be started.

        Any number of processes may do this at once: one starts it, the others find it running.
        """
        began = time.monotonic()
        self.home.prepare()
        with self.home.locked(self.name, self._patience + _LEFTOVERS_SECONDS):
            self.started_in = None
            if not self._answers():
                self._bring_up()
                self.started_in = timedelta(seconds=time.monotonic() - began)
            return self.url

    def stop(self) -> None:
        """Stop it, whoever started it, and wait until it is gone; open transactions are rolled back."""
        if self._existing_data() is None:
            return
        process = self.process
        if process is not None and not end(process, _FAST, _AT_ONCE):
            raise Unreachable(
                f"Postgres (process {process.pid}) does not stop.", f"Read {self.home.log(self.name)} for the reason."
            )
        self.home.drop_address(self.data)

    def _answers(self) -> bool:
        if not self._existing_data():
            return False
        try:
            answer = ask_postgres(self._socket, _USER, "show data_directory")
        except Refused as refusal:
            return not refusal.code.startswith(_STARTING_OR_STOPPING)
        except OSError:
            return False
        if answer == self._data_argument or _is_same(Path(answer), self.data):
            return True
        raise Unreachable(
            f"The Postgres that answers in {self.data} was started when that folder was {answer}.",
            "Move the home back and run `warploom down`, then move it again.",
        )

    def _bring_up(self) -> None:
        deadline = time.monotonic() + self._patience
        installation = self._installation()
        if self._existing_data():
            self._check_owner()
        else:
            self._make_data(installation)
        child: ProcessIdentity | None = None
        while not self._answers():
            if child is not None and has_ended(child):
                raise self._failure("Postgres ended while it was starting")
            if child is None and self.process is None:
                self._clear_stale_locks()
                child = self._spawn(installation)
            if time.monotonic() > deadline:
                raise self._failure(f"Postgres runs but did not answer within {self._patience:.0f} s")
            time.sleep(_PAUSE)

    def _spawn(self, installation: Installation) -> ProcessIdentity:
        self._write_settings(installation)
        program = str(installation.folder / "postgres")
        arguments = [program, "-D", self._data_argument, "-c", f"cluster_name={self.home.mark}"]
        log = self.home.log(self.name)
        return spawn(Command(arguments, self.data, log, self._account, bare_environment()))

    def _check_owner(self) -> None:
        owner = self.data.stat().st_uid
        if owner != (os.getuid() if self._account is None else self._account.uid):
            raise Unreachable(
                f"The data in {self.data} belongs to the user with number {owner}, so this user cannot serve it.",
                "Run Warploom as the user it was first run as, or choose another WARPLOOM_HOME.",
            )

    def _make_data(self, installation: Installation) -> None:
        """Make the cluster beside its place and move it there whole, so that a crash leaves none or a good one."""
        if self.data.exists() and any(self.data.iterdir()):
            raise Unreachable(
                f"{self.data} is not a Postgres data folder: its PG_VERSION is missing.",
                "Put back what belongs there, or choose another WARPLOOM_HOME.",
            )
        unfinished = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        if self._account is not None:
            os.chown(unfinished, self._account.uid, self._account.gid)
        answer = run_as(self._account, self._initdb(installation, unfinished), unfinished)
        if answer.returncode != 0:
            lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()] or ["no reason was given"]
            reason = next((line for line in lines if "error:" in line or "FATAL:" in line), lines[-1])
            raise Unreachable(
                f"The Postgres data folder could not be made: {reason.rstrip('.')}.",
                "Mend that and try again, or name a database in WARPLOOM_DATABASE_URL.",
            )
        with (unfinished / "postgresql.conf").open("a") as file:
            file.write("\ninclude 'warploom.conf'\n")
        unfinished.rename(self.data)

    def _initdb(self, installation: Installation, folder: Path) -> list[str]:
        locale = ["--locale=C.UTF-8"]
        if installation.major > _LAST_WITHOUT_BUILTIN_LOCALE:
            locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        place = str(folder) if self._account is None else self._data_argument
        program = str(installation.folder / "initdb")
        return [program, "-D", place, "-U", _USER, "-E", "UTF8", *locale, "-A", "trust", "--no-instructions"]

    def _write_settings(self, installation: Installation) -> None:
        newer = "".join(text for major, text in _SETTINGS_SINCE.items() if installation.major >= major)
        file = self.data / "warploom.conf"
        fresh = file.with_name("warploom.conf.new")
        fresh.write_text(_SETTINGS.format(port=_PORT) + newer)
        fresh.chmod(0o644)
        fresh.replace(file)

    def _clear_stale_locks(self) -> None:
        """Remove lock files that name a process which is not this Postgres but would keep it from starting.

        A dead one is left to Postgres itself, which also looks for leftovers in shared memory. A zombie, or a stranger
        that got the number after a reboot, is more than Postgres can tell: it is judged here, with the lock held, and only
        when nothing listens and no process of this cluster is left.
        """
        locks = [self.data / "postmaster.pid", self.data / f".s.PGSQL.{_PORT}.lock"]
        stale = [lock for lock in locks if lock.exists() and _would_block(_first_number(lock))]
        if not stale or listener_at(self._socket) is not None:
            return
        deadline = time.monotonic() + _LEFTOVERS_SECONDS
        while any(self._is_ours(pid) for pid in every_pid()):
            if time.monotonic() > deadline:
                raise self._failure("Processes of a Postgres that was killed have not ended yet")
            time.sleep(_PAUSE)
        for lock in stale:
            lock.unlink(missing_ok=True)

    def _is_ours(self, pid: int) -> bool:
        command = command_of(pid)
        if not command or "postgres" not in command[0] or identity_of(pid) is None:
            return False
        if any(self.home.mark in argument for argument in command):
            return True
        folder = folder_of(pid)
        return folder is not None and _is_same(folder, self.data)

    def _existing_data(self) -> Path | None:
        """Return the newest data folder that holds a cluster."""
        numbers = [int(file.parent.name[2:]) for file in self.home.path.glob("pg[0-9]*/PG_VERSION") if _is_data(file)]
        return self.home.path / f"pg{max(numbers)}" if numbers else None

    def _installation(self) -> Installation:
        if self._found is None:
            folders = postgres_folders() if self._folders is None else self._folders
            self._found = find_postgres(folders, self._data_version(), self._account)
        return self._found

    def _data_version(self) -> int | None:
        """Return the major version of the data that exists, as its own PG_VERSION says."""
        data = self._existing_data()
        if data is None:
            return None
        text = (data / "PG_VERSION").read_text(errors="replace").strip()
        if not text.isdigit():
            raise Unreachable(
                f"{data / 'PG_VERSION'} says {text[:20]!r} where it should name a version of Postgres.",
                "Put back that file, or choose another WARPLOOM_HOME.",
            )
        return int(text)

    @property
    def _socket(self) -> Path:
        return self.home.address(self.data) / f".s.PGSQL.{_PORT}"

    @property
    def _data_argument(self) -> str:
        if self._account is None:
            return str(self.data)
        if sys.platform != "linux":
            raise Unreachable(
                "Postgres does not run as root, and only Linux lets root run it as another user here.",
                "Run Warploom as an ordinary user.",
            )
        return "/proc/self/cwd"

    def _failure(self, what: str) -> Unreachable:
        log = self.home.log(self.name)
        line = last_line(log)
        return Unreachable(f"{what}{f': {line}' if line else '.'}", f"Read {log}, then try again.")


def _first_number(file: Path) -> int:
    try:
        return int(file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return 0


def _is_data(version_file: Path) -> bool:
    return version_file.parent.name[2:].isdigit()


def _would_block(pid: int) -> bool:
    """Say whether Postgres would take a lock file with this number (0: unreadable) for that of a living server."""
    if pid <= 0:
        return True
    reap(pid)
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
