"""The whole local stack as others use it: start it (or find it running), say where it is, stop it."""

import http.client
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from warploom.config import Settings
from warploom.domain.errors import Unreachable, WarploomError
from warploom.domain.processes import ProcessIdentity
from warploom.embedded.children import Command, await_end, end, has_ended, last_line, spawn
from warploom.embedded.homes import Home
from warploom.embedded.postgres import Postgres
from warploom.embedded.programs import Program, Programs, free_port, stack_environment
from warploom.embedded.records import Record, forget, living
from warploom.embedded.valkey import Valkey

_SUPERVISOR: Final = (sys.executable, "-P", "-m", "warploom.embedded.daemon")
_PAUSE: Final = 0.02
_HEALTH_SECONDS: Final = 5.0
_SPAWNS: Final = 3
_CRASHES: Final = 2
_POLITE: Final = (signal.SIGTERM, 75.0)
_AT_ONCE: Final = (signal.SIGKILL, 5.0)


@dataclass(frozen=True, slots=True)
class StackInfo:
    """A running stack: where its server is, how it came up, and what `/health` said."""

    url: str
    was_running: bool
    seconds: float
    facts: tuple[str, ...]
    """One short phrase a service, as in "Postgres 18 ready (private socket, 0.6 s)"."""
    health: Mapping[str, Any]
    daemon: ProcessIdentity


def start(
    settings: Settings,
    on_progress: Callable[[str], None] = lambda _: None,
    programs: Programs | None = None,
    patience: float = 60.0,
) -> StackInfo:
    """Start the stack of a home, or find it running, and return once its server is healthy.

    Any number of processes may do this at once: one supervisor results, and all return. `on_progress` is told each fact
    when it becomes true. Raise Unreachable, with the log to read, when it cannot be started; then what this call started is
    stopped again.
    """
    home = Home.at(settings.home)
    home.prepare()
    ascent = _Ascent(home, settings, on_progress, programs or Programs(), patience)
    try:
        return ascent.climb()
    except WarploomError:
        if ascent.spawned:
            with suppress(WarploomError):  # why it did not start is what the caller needs to read
                stop(settings)
        raise


def stop(settings: Settings) -> bool:
    """Stop a home's stack, also what a killed supervisor left; say whether anything ran. Jobs go on."""
    home = Home.at(settings.home)
    if not home.path.exists():
        return False
    supervisor = living(home, "daemon")
    if supervisor is not None and not end(supervisor.process, _POLITE, _AT_ONCE):
        raise Unreachable(
            f"The supervisor (process {supervisor.process.pid}) does not stop.", f"Read {home.log('daemon')}."
        )
    left = [Program(home, name, (), dict) for name in ("host", "server")]
    services = [*left, Valkey(home.path), Postgres(home.path)]
    ran = supervisor is not None or any(living(home, service.name) for service in services)
    for service in services:
        service.stop()
        forget(home, service.name)
    forget(home, "daemon")
    return ran


def running_url(settings: Settings) -> str | None:
    """Return the address of the home's own server while its process lives, or None."""
    record = living(Home.at(settings.home), "server")
    return None if record is None else record.details.get("url")


@dataclass(slots=True)
class _Ascent:
    """One attempt to bring a stack up: what was started, what was told, until when to try."""

    home: Home
    settings: Settings
    tell: Callable[[str], None]
    programs: Programs
    patience: float
    began: float = field(default_factory=time.monotonic)
    began_at: float = field(default_factory=time.time)
    spawned: int = 0
    child: ProcessIdentity | None = None
    facts: dict[str, str] = field(default_factory=dict[str, str])
    obstacle: str = "its server has not answered yet"

    def climb(self) -> StackInfo:
        """Go on until the server is healthy; raise Unreachable when it is clear that it will not be."""
        was_running = living(self.home, "daemon") is not None
        while True:
            supervisor = self._supervisor()
            if supervisor is not None:
                self._look_at_services()
                self._look_for_failures(supervisor)
                health = self._health()
                if health is not None and len(self.facts) == 2:
                    self._note("schema", "schema current")
                    return self._reached(supervisor, health, was_running=was_running)
            if time.monotonic() - self.began > self.patience:
                raise Unreachable(
                    f"The local stack did not come up within {self.patience:.0f} s: {self.obstacle}.",
                    f"Read {self.home.log('server')} and {self.home.log('daemon')}.",
                )
            time.sleep(_PAUSE)

    def _supervisor(self) -> Record | None:
        """Return the living supervisor; start one where there is none and none is on its way."""
        supervisor = living(self.home, "daemon")
        if supervisor is not None and supervisor.details.get("stopping"):
            await_end(supervisor.process, self.patience)
            return None
        if supervisor is None and (self.child is None or has_ended(self.child)):
            self._spawn()
        return supervisor

    def _spawn(self) -> None:
        log = self.home.log("daemon")
        if self.spawned == _SPAWNS:
            raise Unreachable(f"The supervisor ends at once: {last_line(log)}.", f"Read {log}.")
        if self.settings.database_url is None:
            _ = Postgres(self.home.path).url  # what is plainly missing is better said here than read in a log
        free_port(self.settings.bind, self.settings.port)
        self.spawned += 1
        arguments = list(_SUPERVISOR)
        if self.programs != Programs():
            arguments.append(json.dumps(asdict(self.programs)))
        self.child = spawn(Command(arguments, Path("/"), log, environment=stack_environment(self.settings)))

    def _look_at_services(self) -> None:
        if self.settings.database_url is not None:
            self._note("postgres", "database by WARPLOOM_DATABASE_URL")
        elif (record := living(self.home, "postgres")) is not None:
            self._note("postgres", f"Postgres {record.details.get('version')} ready ({_how(record, 'private socket')})")
        if self.settings.redis_url is not None:
            without = self.settings.redis_url == "none"
            self._note("valkey", "no Redis, by setting" if without else "Redis by WARPLOOM_REDIS_URL")
        elif living(self.home, "valkey") is not None:
            self._note("valkey", "Valkey ready")

    def _look_for_failures(self, supervisor: Record) -> None:
        """Raise what keeps the stack down; without Valkey it comes up all the same, and wakes by polling."""
        failures: dict[str, dict[str, Any]] = supervisor.details.get("failures", {})
        for name, failure in failures.items():
            if failure["at"] < self.began_at:
                continue
            if name == "valkey":
                self._note("valkey", f"Valkey did not start, so wakes come by polling ({failure['cause']})")
            elif name == "postgres" or (name == "server" and failure["times"] >= _CRASHES):
                raise Unreachable(f"The local stack could not be started: {failure['cause']}", failure["next"])

    def _health(self) -> Mapping[str, Any] | None:
        record = living(self.home, "server")
        if record is None:
            return None
        status, answer = ask_health(str(record.details.get("url", "")))
        if status == 200:
            return answer
        if status:
            self.obstacle = str(answer.get("error", {}).get("cause", f"its server answers {status}")).rstrip(".")
        return None

    def _note(self, name: str, fact: str) -> None:
        if name not in self.facts:
            self.facts[name] = fact
            self.tell(fact)

    def _reached(self, supervisor: Record, health: Mapping[str, Any], *, was_running: bool) -> StackInfo:
        return StackInfo(
            url=running_url(self.settings) or "",
            was_running=was_running,
            seconds=time.monotonic() - self.began,
            facts=tuple(self.facts[name] for name in ("postgres", "valkey", "schema")),
            health=health,
            daemon=supervisor.process,
        )


def ask_health(url: str) -> tuple[int, Mapping[str, Any]]:
    """Return the status and body of a server's `/health`; status 0 when it does not answer."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_HEALTH_SECONDS)
    try:
        connection.request("GET", "/health")
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"{}")
    except (OSError, http.client.HTTPException, ValueError):
        return 0, {}
    finally:
        connection.close()


def _how(record: Record, place: str) -> str:
    seconds = record.details.get("seconds")
    return place if seconds is None else f"{place}, {seconds:.1f} s"
