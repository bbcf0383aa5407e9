"""How commands reach a server with every call there is."""

from warploom.cli.ways import Way
from warploom.client.connection import Client
from warploom.config import Settings
from warploom.domain.callers import Caller


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
