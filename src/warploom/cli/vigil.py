"""Shows signs of life for a running job's lease, and remembers the most memory it was seen to use."""

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from warploom.cli.ways import Way
from warploom.client.holder import HolderClient
from warploom.domain.errors import WarploomError

if TYPE_CHECKING:
    from warploom.client.connection import Client
    from warploom.domain.cards import Rack

_LONGEST_INTERVAL = timedelta(seconds=15)
_FIRST_LOOK_SECONDS = 2.0


class Vigil:
    """Beats from a thread of its own until stopped; a beat that fails is made up for by the next one."""

    def __init__(self, way: Way[HolderClient], lease: str) -> None:
        self._way = way
        self._lease = lease
        self._over = threading.Event()
        self.peak_mib: int | None = None
        """The most memory of the lease in any survey that was seen, in MiB; None before the first."""

    def start(self) -> None:
        """Begin; the thread ends with the process at the latest."""
        threading.Thread(target=self._watch, name="vigil", daemon=True).start()

    def stop(self) -> None:
        """End it without waiting for a call that is on its way."""
        self._over.set()

    def _watch(self) -> None:
        interval = min(_LONGEST_INTERVAL, self._way.settings.lease_time / 4).total_seconds()
        wait = min(_FIRST_LOOK_SECONDS, interval)
        whole: Way[Client] | None = None
        while not self._over.wait(wait):
            wait = interval
            whole = whole or self._way.widened()  # only now: most commands have ended before
            try:
                whole.client.heartbeat()
                self._look(whole.client.rack())
            except WarploomError:
                continue

    def _look(self, rack: "Rack") -> None:
        lanes = [lane for host in rack.hosts for lane in host.cards]
        own = [lane.lease_mib for lane in lanes if lane.holder and lane.holder.lease == self._lease]
        used = sum(mib for mib in own if mib is not None)
        if used:
            self.peak_mib = max(used, self.peak_mib or 0)
