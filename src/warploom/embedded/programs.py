"""Our own programs of the stack, the server and the host agent: started, found again and stopped."""

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from warploom.config import PREFIX, SETTINGS, Settings
from warploom.domain.errors import Unreachable
from warploom.domain.processes import ProcessIdentity
from warploom.embedded.children import Command, end, spawn
from warploom.embedded.homes import Home
from warploom.embedded.records import living

_PERSONAL: Final = frozenset({"home", "agent", "project", "session", "url"})
_POLITE: Final = (signal.SIGTERM, 8.0)
_AT_ONCE: Final = (signal.SIGKILL, 5.0)


@dataclass(frozen=True, slots=True)
class Programs:
    """What the supervisor runs beside Postgres and Valkey; an empty host means that there is none."""

    server: Sequence[str] = (sys.executable, "-P", "-m", "warploom.serve")
    host: Sequence[str] = (sys.executable, "-P", "-m", "warploom.host")


class Program:
    """One program that is told everything by its environment, which is asked for anew at every start."""

    def __init__(
        self, home: Home, name: str, arguments: Sequence[str], environment: Callable[[], Mapping[str, str]]
    ) -> None:
        self.home = home
        self.name = name
        self._arguments = arguments
        self._environment = environment
        self._process: ProcessIdentity | None = None

    @property
    def process(self) -> ProcessIdentity | None:
        """The process that was started or taken over here."""
        return self._process

    def facts(self) -> dict[str, object]:
        """Return what a reader of the record may want to know."""
        return {"command": _fingerprint(self._arguments, self._environment())}

    def start(self) -> str:
        """Take over the one that runs with the same command and settings, or else start one; return what it serves at."""
        record = living(self.home, self.name)
        if record is not None and record.details.get("command") == self.facts()["command"]:
            self._process = record.process
            return self._taken_over(record.details)
        self.stop()
        address, environment = self._prepared()
        try:
            log = self.home.log(self.name)
            self._process = spawn(Command(self._arguments, self.home.path, log, environment=environment))
        except OSError as error:
            raise Unreachable(
                f"The {self.name} could not be started: {error.strerror}.", "Install Warploom again, then try again."
            ) from error
        return address

    def stop(self) -> None:
        """Stop it, whoever started it, and wait until it is gone."""
        record = living(self.home, self.name)
        process = self._process if record is None else record.process
        if process is not None and not end(process, _POLITE, _AT_ONCE):
            raise Unreachable(
                f"The {self.name} (process {process.pid}) does not stop.",
                f"Read {self.home.log(self.name)} for the reason.",
            )
        self._process = None

    def _taken_over(self, details: Mapping[str, object]) -> str:
        del details
        return ""

    def _prepared(self) -> tuple[str, Mapping[str, str]]:
        return "", self._environment()


class Server(Program):
    """The server, which gets a free port when the one it should have is taken, and keeps the one it got while it can."""

    def __init__(
        self, home: Home, arguments: Sequence[str], environment: Mapping[str, str], bind: str, port: int
    ) -> None:
        super().__init__(home, "server", arguments, lambda: environment)
        self._bind = bind
        self._port = port
        record = living(home, self.name)
        if record is None or not self._taken_over(record.details):
            self._port = free_port(bind, port)
        self.moved: Callable[[], object] = lambda: None
        """Called when a restart gave it another address."""

    @property
    def url(self) -> str:
        """Where it listens, or will."""
        return f"http://{_within_url(self._bind)}:{self._port}"

    def facts(self) -> dict[str, object]:
        """Return the address with the rest."""
        return {**super().facts(), "url": self.url}

    def _taken_over(self, details: Mapping[str, object]) -> str:
        port = str(details.get("url", "")).rpartition(":")[2]
        if not port.isdigit():
            return ""
        self._port = int(port)
        return self.url

    def _prepared(self) -> tuple[str, Mapping[str, str]]:
        port = free_port(self._bind, self._port)
        if port != self._port:
            self._port = port
            self.moved()
        return self.url, {**self._environment(), f"{PREFIX}PORT": str(port)}


def stack_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of the stack's programs: the settings of the stack, and nothing of the session that starts it.

    A lease, an agent's name or a project in it would be taken for those of every process that descends from the stack.
    """
    ours = {entry.name for entry in SETTINGS} - _PERSONAL
    stack = {f"{PREFIX}{name.upper()}": value for name, value in settings.source.items() if name in ours and value}
    others = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return others | stack | {f"{PREFIX}HOME": str(settings.home)}


def _fingerprint(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    ours = sorted(item for item in environment.items() if item[0].startswith(PREFIX))
    return sha256(repr((list(arguments), ours)).encode()).hexdigest()[:16]


def free_port(bind: str, wanted: int) -> int:
    """Return the wanted port if it can be listened on, and else one that the kernel chooses."""
    for port in (wanted, 0):
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((bind, port))
                probe.listen(1)
            except OSError as error:
                reason = error.strerror
                continue
            return probe.getsockname()[1]
    raise Unreachable(
        f"The server cannot listen on {bind}: {reason}.", "Set WARPLOOM_BIND to an address of this machine."
    )


def _within_url(bind: str) -> str:
    if bind in ("0.0.0.0", "::", ""):  # noqa: S104  # asked for by the settings; this is how to reach it from here
        return "127.0.0.1" if ":" not in bind else "[::1]"
    return f"[{bind}]" if ":" in bind else bind
