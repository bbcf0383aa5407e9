"""The supervisor of one home: starts Postgres, Valkey, the server and the host agent side by side and keeps them running."""

import json
import os
import signal
import sys
from collections.abc import Sequence

from warploom.client.processes import identity_of
from warploom.config import PREFIX, Settings
from warploom.domain.errors import WarploomError
from warploom.domain.processes import ProcessIdentity
from warploom.embedded.homes import Home, try_lock
from warploom.embedded.keeper import Board, Halt, Keeper, Service, say
from warploom.embedded.postgres import Postgres
from warploom.embedded.programs import Program, Programs, Server, stack_environment
from warploom.embedded.records import forget
from warploom.embedded.valkey import Valkey

_STOPPING_SECONDS = 15.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run in the foreground until SIGTERM, SIGINT or SIGHUP; return 1 when this home has a supervisor already.

    An argument, when there is one, is a JSON object with the commands of `Programs`.
    """
    given = sys.argv[1:] if arguments is None else arguments
    try:
        return run(Settings.load(), Programs(**json.loads(given[0])) if given else Programs())
    except WarploomError as error:
        say(str(error))
        return 2


def run(settings: Settings, programs: Programs) -> int:
    """Supervise a home's stack until asked to stop."""
    home = Home.at(settings.home)
    home.prepare()
    with (home.path / "run" / "daemon.lock").open("a") as lock:
        if not try_lock(lock.fileno()):
            say(f"A supervisor runs in {home.path} already.")
            return 1
        halt = Halt()
        halt.listen(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        board = Board(home, _ourselves())
        keepers = [Keeper(service, halt, board) for service in _services(home, settings, programs)]
        for keeper in keepers:
            keeper.start()
        home.hold_links()
        halt.wait()
        board.stop()
        _stop(keepers)
        forget(home, "daemon")
        return 0


def _services(home: Home, settings: Settings, programs: Programs) -> list[Service]:
    """List what to run, in the order of starting: what takes longest first, and last what needs the others."""
    environment = stack_environment(settings)
    embedded: list[Service] = []
    if settings.database_url is None:
        postgres = Postgres(home.path)
        environment[f"{PREFIX}DATABASE_URL"] = postgres.url
        embedded.append(postgres)
    if settings.redis_url is None:
        valkey = Valkey(home.path)
        environment[f"{PREFIX}REDIS_URL"] = valkey.url
        embedded.append(valkey)
    server = Server(home, programs.server, environment, settings.bind, settings.port)
    host = Program(home, "host", programs.host, lambda: {**environment, f"{PREFIX}URL": server.url})
    server.moved = host.stop
    return [server, *embedded, host] if programs.host else [server, *embedded]


def _stop(keepers: Sequence[Keeper]) -> None:
    """Stop the services in the order in which they need one another: host, server, Valkey, Postgres."""
    order = ("host", "server", "valkey", "postgres")
    for keeper in sorted(keepers, key=lambda keeper: order.index(keeper.service.name)):
        try:
            keeper.service.stop()  # also wakes a keeper that waits for this service to come up
            keeper.join(_STOPPING_SECONDS)
            keeper.service.stop()
            forget(keeper.service.home, keeper.service.name)
        except (WarploomError, OSError) as error:
            say(f"{keeper.service.name}: {error}")


def _ourselves() -> ProcessIdentity:
    return identity_of(os.getpid()) or ProcessIdentity(os.getpid(), 0)


if __name__ == "__main__":
    sys.exit(main())
