"""The host agent's connection to its server: looked for again when it is lost, which is said once."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from warploom.domain.errands import ErrandView, Outcome
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

    def orders(self, host: str, cursor: str | None, seconds: float, having: Sequence[str], /) -> Orders:
        """Wait for orders."""
        ...

    def answer_errand(self, host: str, errand: str, outcome: Outcome, /) -> ErrandView:
        """Tell what came of an errand."""
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
        self._troubles: dict[str, str] = {}

    def call(self, matter: str, ask: Callable[[Server], T]) -> T | None:
        """Return the server's answer; None when it is away or refuses.

        Each trouble is logged when it begins and when it has ended in every matter.
        """
        server = self._server
        try:
            answer = ask(server)
        except WarploomError as error:
            self._failed(matter, server, error)
            return None
        self._answered(matter, server)
        return answer

    def _failed(self, matter: str, server: Server, error: WarploomError) -> None:
        with self._lock:
            if error.code not in self._troubles.values():
                log.warning("%s Trying again until that is over.", error)
            self._troubles[matter] = error.code
            if isinstance(error, Unreachable) and server is self._server:
                server.close()
                self._server = self._connect()

    def _answered(self, matter: str, server: Server) -> None:
        if not self._troubles:
            return
        with self._lock:
            past = self._troubles.pop(matter, None)
            if past is not None and past not in self._troubles.values():
                log.info("%s answers again", server.url)
