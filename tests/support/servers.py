"""A real Postgres and a real Valkey for a whole test run: in containers where Docker answers, else from the wheels."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from warploom.embedded.postgres import Postgres
from warploom.embedded.valkey import Valkey

_DOCKER_SOCKET = "/var/run/docker.sock"
_GUARD = Path(__file__).with_name("guard.py")
_MEMORY = Path("/dev/shm")
_ROOM = 2**30


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the two listen; the Postgres user may create databases."""

    postgres_url: str
    redis_url: str


@contextmanager
def running_servers() -> Generator[Servers]:
    """Run both for the length of a block; containers that cannot be had, such as without a registry, are no error."""
    with ExitStack() as stack:
        yield (_in_containers(stack) if _docker_answers() else None) or _from_wheels(stack)


def _docker_answers() -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            client.connect(_DOCKER_SOCKET)
            client.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in client.recv(64)
    except OSError:
        return False


def _in_containers(stack: ExitStack) -> Servers | None:
    from testcontainers.community.postgres import PostgresContainer
    from testcontainers.community.valkey import ValkeyContainer

    with ExitStack() as tried:
        try:
            postgres = tried.enter_context(PostgresContainer("postgres:18-alpine", driver=None))
            valkey = tried.enter_context(ValkeyContainer("valkey/valkey:9-alpine"))
        except Exception:  # noqa: BLE001 - whatever an engine or a registry answers, the wheels serve as well
            return None
        stack.enter_context(tried.pop_all())
        redis_url = valkey.get_connection_url().replace("valkey://", "redis://")
        return Servers(postgres.get_connection_url(driver=None), redis_url)


def _from_wheels(stack: ExitStack) -> Servers:
    home = temporary_home(stack)
    postgres, valkey = Postgres(home), Valkey(home)
    stack.callback(postgres.stop)
    stack.callback(valkey.stop)
    return Servers(postgres.start(), valkey.start())


def temporary_home(stack: ExitStack) -> Path:
    """Return an empty, private folder for servers, in memory where there is room for it.

    It is removed when the stack closes; when the test run is killed, what runs in it is stopped too.
    """
    is_roomy = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM
    home = Path(tempfile.mkdtemp(prefix="warploom-test-", dir=_MEMORY if is_roomy else None))
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    guard = subprocess.Popen(
        [sys.executable, str(_GUARD), str(home)], stdin=subprocess.PIPE, start_new_session=True, cwd="/"
    )
    stack.callback(guard.communicate)
    return home
