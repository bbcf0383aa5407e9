"""Keeps one service of the stack running: starts it, sleeps until it ends, and starts it again."""

import os
import select
import signal
import sys
import threading
import time
from types import FrameType
from typing import Protocol

from warploom.domain.errors import WarploomError
from warploom.domain.processes import ProcessIdentity
from warploom.embedded.children import await_end, last_line
from warploom.embedded.homes import Home
from warploom.embedded.records import forget, write_record

_FIRST_DELAY = 0.1
_LONGEST_DELAY = 15.0
_STEADY_SECONDS = 10.0


class Service(Protocol):
    """Something that can be kept running; `start` finds a living one or makes one."""

    home: Home

    @property
    def name(self) -> str:
        """Its name in records, logs and messages."""
        ...

    @property
    def process(self) -> ProcessIdentity | None:
        """The running process, or None."""
        ...

    def start(self) -> str:
        """Make sure it runs; raise a WarploomError when it cannot."""
        ...

    def stop(self) -> None:
        """Stop it and wait until it is gone."""
        ...

    def facts(self) -> dict[str, object]:
        """Return what a reader of its record may want to know."""
        ...


class Halt:
    """A request to stop that any number of threads can wait for, also together with other descriptors."""

    def __init__(self) -> None:
        self.descriptor, self._sender = os.pipe()
        os.set_blocking(self._sender, False)

    def listen(self, *numbers: signal.Signals) -> None:
        """Take these signals as requests to stop, from the main thread.

        The wake-up descriptor is written by the C handler itself: without it a signal that comes just before a wait
        begins, or to another thread, would be noticed only when that wait ends.
        """
        signal.set_wakeup_fd(self._sender)
        for number in numbers:
            signal.signal(number, self._on_signal)

    def ask(self) -> None:
        """Ask everybody to stop; more than once is once."""
        os.write(self._sender, b"x")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.ask()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until asked to stop, or for some seconds; say whether it was asked."""
        poller = select.poll()
        poller.register(self.descriptor, select.POLLIN)
        return bool(poller.poll(None if seconds is None else round(seconds * 1000)))


class Board:
    """The supervisor's own record, in which it says what fails and whether it is stopping."""

    def __init__(self, home: Home, process: ProcessIdentity) -> None:
        self._home = home
        self._process = process
        self._lock = threading.Lock()
        self._failures: dict[str, dict[str, object]] = {}
        self._stopping = False
        self._write()

    def fail(self, name: str, cause: str, next_step: str, times: int) -> None:
        """Say that a service fails, and how often in a row it has."""
        say(f"{name}: {cause}")
        with self._lock:
            self._failures[name] = {"cause": cause, "next": next_step, "times": times, "at": time.time()}
            self._write()

    def clear(self, name: str) -> None:
        """Say that a service is well."""
        with self._lock:
            if self._failures.pop(name, None) is not None:
                self._write()

    def stop(self) -> None:
        """Say that the supervisor is stopping everything."""
        with self._lock:
            self._stopping = True
            self._write()

    def _write(self) -> None:
        write_record(self._home, "daemon", self._process, {"stopping": self._stopping, "failures": self._failures})


class Keeper(threading.Thread):
    """The thread of one service. It sleeps in the kernel while the service lives, so keeping it costs nothing."""

    def __init__(self, service: Service, halt: Halt, board: Board) -> None:
        super().__init__(name=service.name, daemon=True)
        self.service = service
        self._halt = halt
        self._board = board
        self._failures = 0

    def run(self) -> None:
        """Go round until asked to stop, pausing longer after each failure in a row."""
        while not self._halt.wait(self._delay()):
            process = self._start()
            if process is not None:
                self._watch(process)

    def _delay(self) -> float:
        return delay_before(self._failures)

    def _start(self) -> ProcessIdentity | None:
        service = self.service
        try:
            address = service.start()
            process = service.process
            if process is None:
                self._fail(f"{service.name} is not a process of this machine", "Use one home per machine.")
                return None
            write_record(service.home, service.name, process, service.facts())
        except WarploomError as error:
            self._fail(error.cause, error.next_step)
            return None
        except Exception as error:  # noqa: BLE001  (a keeper outlives whatever one round met)
            self._fail(f"{service.name} could not be started: {error!r}.", "Mend that; it is tried again by itself.")
            return None
        say(f"{service.name} runs as process {process.pid} {address}".rstrip())
        return process

    def _watch(self, process: ProcessIdentity) -> None:
        ended = await_end(process, _STEADY_SECONDS, self._halt.descriptor)
        if not ended and not self._halt.wait(0):
            self._failures = 0
            self._board.clear(self.service.name)
            ended = await_end(process, None, self._halt.descriptor)
        if ended and not self._halt.wait(0):
            forget(self.service.home, self.service.name)
            log = self.service.home.log(self.service.name)
            line = last_line(log)
            self._fail(f"{self.service.name} ended{f': {line}' if line else '.'}", f"Read {log}.")

    def _fail(self, cause: str, next_step: str) -> None:
        self._failures += 1
        if not self._halt.wait(0):
            self._board.fail(self.service.name, cause, next_step, self._failures)


def delay_before(attempt: int) -> float:
    """Return the pause before the attempt that follows so many failures: none, then doubling up to a cap."""
    return min(_LONGEST_DELAY, _FIRST_DELAY * 2 ** (attempt - 1)) if attempt else 0.0


def say(text: str) -> None:
    """Write one line to the supervisor's log, or to the terminal where it runs in the foreground."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
    sys.stderr.flush()
