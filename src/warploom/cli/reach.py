"""How commands reach a server with every call there is."""

import time

from warploom.cli.ways import Way
from warploom.client.connection import Client
from warploom.config import Settings
from warploom.domain.callers import Caller
from warploom.domain.cards import HostLanes

_HOST_SECONDS = 5.0
_HOST_PAUSE = 0.05


class Reach(Way[Client]):
    """A way to the server for every command."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        url: str | None = None,
        as_operator: bool = False,
        caller: Caller | None = None,
    ) -> None:
        super().__init__(Client, settings, url=url, as_operator=as_operator, caller=caller)

    def await_host(self) -> HostLanes | None:
        """Wait a little for this machine's first look at its cards, without which nothing can be granted yet."""
        give_up_at = time.monotonic() + _HOST_SECONDS
        while True:
            hosts = self.client.rack().hosts
            found = next((host for host in hosts if host.host == self.settings.host_name and host.is_present), None)
            if found is not None or time.monotonic() > give_up_at:
                return found
            time.sleep(_HOST_PAUSE)
