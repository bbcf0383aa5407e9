"""The backstop: one look at the database every few seconds for all who wait in this process, in case a hint was lost."""

import asyncio

from warploom.bus.hints import POLL_SECONDS
from warploom.domain.errors import WarploomError
from warploom.domain.identifiers import TaskId
from warploom.services.changes import EVERYTHING, TICKETS, Changes, ticket_topic
from warploom.store import events as event_store
from warploom.store import tickets as ticket_store
from warploom.telemetry.logs import get_logger

_log = get_logger("backstop")


class Backstop:
    """Rings those who wait for tickets, and those who follow the log, when there is something new for them.

    Two statements at most, however many wait. A hint that was lost costs no more than `POLL_SECONDS`.
    """

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._end: str | None = None
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, in the background."""
        self._looking = asyncio.create_task(self._look_forever())

    async def stop(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.look()
            except WarploomError as error:
                _log.info("nobody was rung: %s", error)  # the next look finds whatever this one would have
            except Exception:  # noqa: BLE001  (the net under all who wait must survive a failed look)
                _log.exception("A look failed; the next one follows.")

    async def look(self) -> None:
        """Ring everybody who waits for a ticket that waits no more, and all who follow the log when it has gone on."""
        bus = self._changes.bus
        heard = bus.heard()
        waited_for = [TaskId(int(topic.removeprefix(TICKETS))) for topic in heard if topic.startswith(TICKETS)]
        if not waited_for and EVERYTHING not in heard:
            return
        async with self._changes.database.connection() as conn:
            moved = await ticket_store.not_waiting(conn, waited_for) if waited_for else []
            end = await event_store.last_cursor(conn) if EVERYTHING in heard else self._end
        bus.ring(ticket_topic(task) for task in moved)
        if end != self._end:
            self._end = end
            bus.ring([EVERYTHING])
