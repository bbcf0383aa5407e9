"""Runs calls that may hang, each on a thread of its own and with a deadline."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Overdue(Exception):
    """A call has not answered for this long; it may still be running."""

    def __init__(self, running_for: timedelta) -> None:
        self.sentence = (
            f"the driver has not answered for {running_for.total_seconds():.0f} s; "
            "leases are kept, and nothing is granted until it does"
        )
        super().__init__(self.sentence)


def reason_of(error: Exception) -> str:
    """Say in a sentence why a card or its driver did not answer."""
    return error.sentence if isinstance(error, Overdue) else f"the driver answers '{error}'"


class Guard:
    """Keeps one thread per name, so that a call that hangs delays nothing but later calls of its own name.

    The threads are daemons: one that hangs in a driver does not keep the process from ending.
    """

    def __init__(self, deadline: timedelta) -> None:
        self.deadline = deadline
        self._lanes: dict[str, _Lane] = {}

    def run(self, calls: Mapping[str, Callable[[], T]]) -> dict[str, T | Exception]:
        """Run the calls side by side and return, within the deadline, what each answered or raised.

        A call without an answer is given as Overdue; until it returns, its name is not called again nor waited for.
        """
        started = {name: self._lane(name).start(call) for name, call in calls.items()}
        fresh = [call.future for call in started.values() if not call.is_stale]
        wait(fresh, timeout=self.deadline.total_seconds())
        return {name: call.answer() for name, call in started.items()}

    def _lane(self, name: str) -> "_Lane":
        if name not in self._lanes:
            self._lanes[name] = _Lane(name)
        return self._lanes[name]


class _Call:
    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.future: Future[Any] = Future()
        self.is_stale = False
        self.started_at = time.monotonic()

    def answer(self) -> Any:
        if self.is_stale or not self.future.done():
            self.is_stale = True
            return Overdue(timedelta(seconds=time.monotonic() - self.started_at))
        return self.future.exception() or self.future.result()


class _Lane:
    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._latest: _Call | None = None
        threading.Thread(target=self._work, name=f"probe {name}", daemon=True).start()

    def start(self, call: Callable[[], Any]) -> _Call:
        """Start a call, or return the one that still runs: its answer, when it comes, is too old to be used."""
        if self._latest is None or self._latest.future.done():
            self._latest = _Call(call)
            self._calls.put(self._latest)
        return self._latest

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            try:
                call.future.set_result(call.call())
            except Exception as error:  # noqa: BLE001  (handed to whoever asked)
                call.future.set_exception(error)
