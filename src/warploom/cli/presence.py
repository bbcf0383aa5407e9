"""Whether the host agent of this machine has reported its cards, right after a start."""

import time

from warploom.cli.ways import Way
from warploom.client.cards import CardCalls
from warploom.domain.cards import HostLanes

_SECONDS = 5.0
_PAUSE = 0.02


def await_host(way: Way[CardCalls]) -> HostLanes | None:
    """Wait a little for this machine's first look at its cards, without which nothing can be granted yet."""
    give_up_at = time.monotonic() + _SECONDS
    while True:
        hosts = way.client.rack().hosts
        found = next((host for host in hosts if host.host == way.settings.host_name and host.is_present), None)
        if found is not None or time.monotonic() > give_up_at:
            return found
        time.sleep(_PAUSE)
