"""Shows signs of life for a running job's lease, and remembers the most memory it was seen to use."""

import threading
from datetime import timedelta

from warploom.cli.reach import Reach
from warploom.domain.errors import WarploomError

_LONGEST_INTERVAL = timedelta(seconds=15)
_FIRST_LOOK_SECONDS = 2.0


class Vigil:
    """Beats from a thread of its own until stopped; a beat that fails is made up for by the next one."""

    def __init__(self, reach: Reach, lease: str) -> None:
        self._reach = reach
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
        interval = min(_LONGEST_INTERVAL, self._reach.settings.lease_time / 4).total_seconds()
        wait = min(_FIRST_LOOK_SECONDS, interval)
        while not self._over.wait(wait):
            wait = interval
            try:
                self._reach.client.heartbeat()
                self._look()
            except WarploomError:
                continue

    def _look(self) -> None:
        lanes = [lane for host in self._reach.client.rack().hosts for lane in host.cards]
        own = [lane.lease_mib for lane in lanes if lane.holder and lane.holder.lease == self._lease]
        used = sum(mib for mib in own if mib is not None)
        if used:
            self.peak_mib = max(used, self.peak_mib or 0)
