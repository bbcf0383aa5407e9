"""A stand-in server and raw clients, cleaned up whatever happens."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rawclient import COMMAND, RawClient, environment_for
from standin import StandIn


@pytest.fixture
def server() -> Iterator[StandIn]:
    standin = StandIn()
    standin.start()
    yield standin
    standin.stop()


@pytest.fixture
def connect(server: StandIn, tmp_path: Path) -> Iterator[Callable[..., RawClient]]:
    """Start a stdio server for the stand-in, with further settings as keywords."""
    clients: list[RawClient] = []

    def start(command: tuple[str, ...] = COMMAND, **further: Any) -> RawClient:
        clients.append(RawClient(environment_for(server.url, tmp_path, **further), tmp_path, command))
        return clients[-1]

    yield start
    for client in clients:
        client.close()
