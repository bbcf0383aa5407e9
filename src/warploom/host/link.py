"""The host agent's connection to its server: looked for again when it is lost, which is said once."""

import logging
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from warploom.domain.errors import Unreachable, WarploomError
from warploom.domain.hosts import Orders, Survey, SurveyAnswer

T = TypeVar("T")
log = logging.getLogger(__name__)


class Server(Protocol):
    """What a host agent needs of a client."""

    @property
    def url(self) -> str:
        """The server's address."""
        ...

    def survey(self, host: str, survey: Survey, /) -> SurveyAnswer:
        """Tell what was seen."""
        ...

    def orders(self, host: str, cursor: str | None, seconds: float, /) -> Orders:
        """Wait for orders."""
        ...

    def close(self) -> None:
        """Close the kept connections."""
        ...


class Link:
    """Calls the server from any thread. `connect` finds the server anew: after a restart it may have another address."""

    def __init__(self, connect: Callable[[], Server]) -> None:
        self._connect = connect
        self._server = connect()
        self._lock = threading.Lock()
        self._trouble: str | None = None

    def call(self, ask: Callable[[Server], T]) -> T | None:
        """Return the server's answer; None when it is away or refuses, which is logged when it begins and when it ends."""
        server = self._server
        try:
            answer = ask(server)
        except WarploomError as error:
            self._failed(server, error)
            return None
        self._answered(server)
        return answer

    def _failed(self, server: Server, error: WarploomError) -> None:
        with self._lock:
            if self._trouble is None:
                log.warning("%s Trying again until it answers.", error)
            self._trouble = error.cause
            if isinstance(error, Unreachable) and server is self._server:
                server.close()
                self._server = self._connect()

    def _answered(self, server: Server) -> None:
        with self._lock:
            if self._trouble is not None:
                log.info("%s answers again", server.url)
            self._trouble = None
