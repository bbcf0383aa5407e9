"""Listens for the critical errors (Xids) of NVIDIA cards, each card through a queue of its own."""

import threading
from typing import Any, Final

import pynvml  # pyright: ignore[reportMissingTypeStubs]  (it ships none)

from warploom.domain.xids import MOST_XIDS

_AT_ONCE: Final = 0


class XidWatch:
    """The Xids of each GPU since they were last taken, by its UUID.

    The driver tells of what happens while somebody listens and of nothing before. Where it does not support that, or does
    not allow it, there are none. Each GPU may be looked at in a thread of its own.
    """

    def __init__(self, library: Any) -> None:
        self._nvml = library
        self._queues: dict[int, tuple[str, Any]] = {}
        self._seen: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def listen(self, slot: int, uuid: str, handle: Any) -> None:
        """Begin to listen to the GPU in a slot; nothing where that is done already."""
        if slot in self._queues and self._queues[slot][0] == uuid:
            return
        queue = None
        try:
            queue = self._nvml.nvmlEventSetCreate()
            self._nvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, queue)
        except pynvml.NVMLError:
            queue = None
        self._queues[slot] = (uuid, queue)

    def collect(self, slot: int) -> None:
        """Note what a slot's GPU has told since; a GPU that is lost has told why all the same."""
        uuid, queue = self._queues.get(slot, ("", None))
        if queue is None:
            return
        xids = self._waiting(queue)
        with self._lock:
            if xids:
                self._seen[uuid] = [*self._seen.get(uuid, []), *xids][-MOST_XIDS:]

    def take(self, uuid: str) -> list[int]:
        """Return the Xids of a GPU that nobody has taken yet."""
        with self._lock:
            return self._seen.pop(uuid, [])

    def close(self) -> None:
        """Note what was told so far and stop listening, before the library is closed."""
        for slot in list(self._queues):
            self.collect(slot)
        self._queues.clear()

    def _waiting(self, queue: Any) -> list[int]:
        xids: list[int] = []
        try:
            while len(xids) < MOST_XIDS:
                xids.append(self._nvml.nvmlEventSetWait_v2(queue, _AT_ONCE).eventData)
        except pynvml.NVMLError:
            return xids
        return xids
