"""The embedded Valkey: one instance per home, on a private socket, with nothing on disk."""

import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from warploom.domain.errors import Unreachable
from warploom.domain.processes import ProcessIdentity
from warploom.embedded.binaries import find_valkey
from warploom.embedded.children import (
    Command,
    await_end,
    bare_environment,
    end,
    has_ended,
    last_line,
    service_account,
    spawn,
)
from warploom.embedded.homes import Home
from warploom.embedded.sockets import listener_at, ping_valkey, shut_down_valkey

_SOCKET: Final = "valkey.sock"
_PAUSE: Final = 0.005
_SHUTDOWN_SECONDS: Final = 1.0
_POLITE: Final = (signal.SIGTERM, 5.0)
_AT_ONCE: Final = (signal.SIGKILL, 5.0)
_OPTIONS: Final = (
    *("--port", "0", "--unixsocket", _SOCKET, "--unixsocketperm", "700"),
    *("--save", "", "--appendonly", "no", "--maxmemory", "128mb", "--maxmemory-policy", "allkeys-lru"),
    *("--hz", "1", "--daemonize", "no"),
)


class Valkey:
    """The Valkey of one home; every process that makes one speaks of the same instance. It holds hints, never truth."""

    name = "valkey"

    def __init__(self, home: Path, patience: float = 15.0) -> None:
        self.home = Home.at(home)
        self.started_in: timedelta | None = None
        """How long the start took, or None when it already ran."""
        self._patience = patience
        self._account = service_account()

    @property
    def folder(self) -> Path:
        """The folder it works in; only its socket lies there."""
        return self.home.path / "valkey"

    @property
    def url(self) -> str:
        """The URL for redis-py, which is known before the start."""
        return f"unix://{self._socket}"

    @property
    def process(self) -> ProcessIdentity | None:
        """The running server, or None."""
        return listener_at(self._socket) if self.folder.exists() else None

    def facts(self) -> dict[str, object]:
        """Return what a reader of the record may want to know."""
        return {"seconds": None if self.started_in is None else round(self.started_in.total_seconds(), 2)}

    def start(self) -> str:
        """Make sure it runs and return the URL; raise Unreachable when it cannot be started."""
        began = time.monotonic()
        self.home.prepare()
        with self.home.locked(self.name, 2 * self._patience):
            self.started_in = None
            if not self._answers():
                self._bring_up()
                self.started_in = timedelta(seconds=time.monotonic() - began)
            return self.url

    def stop(self) -> None:
        """Stop it, whoever started it, and wait until it is gone."""
        process = self.process
        if process is not None:
            shut_down_valkey(self._socket)
            if not await_end(process, _SHUTDOWN_SECONDS) and not end(process, _POLITE, _AT_ONCE):
                raise Unreachable(
                    f"Valkey (process {process.pid}) does not stop.", f"Read {self.home.log(self.name)} for the reason."
                )
        self.home.drop_address(self.folder)

    def _answers(self) -> bool:
        try:
            return self.folder.exists() and ping_valkey(self._socket)
        except OSError:
            return False

    def _bring_up(self) -> None:
        silent = self.process
        if silent is not None:
            end(silent, _AT_ONCE)  # it listens but does not answer, and holds nothing that could be lost
        deadline = time.monotonic() + self._patience
        child = self._spawn()
        while not self._answers():
            if has_ended(child):
                raise self._failure("Valkey ended while it was starting")
            if time.monotonic() > deadline:
                raise self._failure(f"Valkey did not answer within {self._patience:.0f} s")
            time.sleep(_PAUSE)

    def _spawn(self) -> ProcessIdentity:
        program = find_valkey(self._account)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if self._account is not None:
            os.chown(self.folder, self._account.uid, self._account.gid)
        arguments = [
            str(program),
            *_OPTIONS,
        ]  # relative names: the path above may be too long, or closed to its account
        return spawn(Command(arguments, self.folder, self.home.log(self.name), self._account, bare_environment()))

    @property
    def _socket(self) -> Path:
        return self.home.address(self.folder) / _SOCKET

    def _failure(self, what: str) -> Unreachable:
        log = self.home.log(self.name)
        line = last_line(log)
        return Unreachable(f"{what}{f': {line}' if line else '.'}", f"Read {log}, then try again.")
