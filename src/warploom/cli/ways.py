"""Ways to a server: the one that is set, or the local stack, which is started when it does not answer."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from warploom.cli.output import note
from warploom.client.calls import Calls
from warploom.client.identity import shell_caller, written_url
from warploom.client.pauses import pause_before
from warploom.config import Settings
from warploom.domain.callers import Caller
from warploom.domain.errors import Busy, Unreachable
from warploom.domain.texts import spoken_duration

if TYPE_CHECKING:
    from warploom.client.connection import Client

C = TypeVar("C", bound=Calls)
Other = TypeVar("Other", bound=Calls)
T = TypeVar("T")

_ATTEMPTS_BETWEEN_STARTS = 6


class Way(Generic[C]):
    """A way to the server that survives its restarts, and its coming back at another address.

    `kind` is the client it hands out: with every call there is, or with few, which loads faster.
    """

    def __init__(
        self,
        kind: type[C],
        settings: Settings | None = None,
        *,
        url: str | None = None,
        as_operator: bool = False,
        caller: Caller | None = None,
    ) -> None:
        """Speak to the server the settings name, or to the one at `url`, for `caller` or else for this very command."""
        self._kind = kind
        self._url = url
        self._as_operator = as_operator
        self.settings = settings or Settings.load()
        keys = (self.settings.key, self.settings.operator_key)
        self._key = next(filter(None, reversed(keys) if as_operator else keys), None)
        self.caller = caller or shell_caller(self.settings)
        self._client: C | None = None

    def of(self, kind: "type[Other]") -> "Way[Other]":
        """Return the same way with the calls of another kind of client."""
        return Way(kind, self.settings, url=self._url, as_operator=self._as_operator, caller=self.caller)

    def widened(self) -> "Way[Client]":
        """Return the same way with every call there is."""
        from warploom.client.connection import Client

        return self.of(Client)

    @property
    def is_ours(self) -> bool:
        """Say whether the local stack is meant, which may be started, and not a server that somebody else runs."""
        return self.settings.url is None

    @property
    def client(self) -> C:
        """A client for the server's present address; raises Unreachable while this home's own stack is not running."""
        url = self._url or self.settings.url or written_url(self.settings.home)
        if url is None:
            raise Unreachable(
                f"The local stack of {self.settings.home} is not running.",
                "`warploom up` starts it; WARPLOOM_URL names a server elsewhere.",
            )
        if self._client is None or self._client.url != url:
            self._client = self._kind(url, self.caller, self._key)
        return self._client

    def call(self, action: Callable[[C], T]) -> T:
        """Do one thing with the server, starting the local stack when nothing answers."""
        try:
            return action(self.client)
        except Unreachable:
            if not self.is_ours:
                raise
        self._start()
        return action(self.client)

    def insist(self, action: Callable[[C], T], patience: float) -> T:
        """Do one thing with the server, trying again for `patience` seconds while it cannot be reached.

        A local stack that crashed is started again; one that was stopped on purpose is not.
        """
        give_up_at, attempt = time.monotonic() + patience, 0
        while True:
            try:
                return action(self.client)
            except (Unreachable, Busy) as error:
                left = give_up_at - time.monotonic()
                if left <= 0:
                    raise
                if attempt == 0:
                    note(f"{error.cause} Trying again for up to {spoken_duration(timedelta(seconds=patience))}.")
            if attempt % _ATTEMPTS_BETWEEN_STARTS == 0 and self._has_crashed():
                self._try_start()
            attempt += 1
            time.sleep(min(pause_before(attempt), left))

    def _has_crashed(self) -> bool:
        """An orderly stop removes the supervisor's record; a crash leaves it behind with a process that is gone."""
        if not self.is_ours:
            return False
        from warploom.client.processes import is_alive
        from warploom.domain.processes import ProcessIdentity

        try:
            record = json.loads((self.settings.home / "run" / "daemon.json").read_text(encoding="utf-8"))
            return not is_alive(ProcessIdentity(int(record["pid"]), int(record["started"])))
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _try_start(self) -> None:
        try:
            self._start()
        except Unreachable as error:
            note(str(error))

    def _start(self) -> None:
        from warploom.cli.presence import await_host
        from warploom.client.cards import CardCalls
        from warploom.embedded.stack import start

        note("Starting the local stack …")
        start(self.settings)
        await_host(self.of(CardCalls))
