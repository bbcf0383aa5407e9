"""Ends the processes of a lease: asked first, killed after a grace, and never another one that has got its number."""

import os
import signal
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import psutil

from warploom.client.processes import identity_of, is_alive
from warploom.domain.errands import MOST_FATES, Fate, KillOrder, Outcome, ProcessFate
from warploom.domain.processes import ProcessIdentity
from warploom.host.members import Seen, look_around, members_of, untouchable_of
from warploom.host.processes import shown_command, user_of

KILL_SECONDS: Final = 5.0
_ROUNDS: Final = 3
_PAUSE: Final = 0.02


class Grip:
    """Holds on to one process, so that a signal reaches exactly it or nobody, even after its number was given away."""

    def __init__(self, identity: ProcessIdentity, descriptor: int | None) -> None:
        self._identity = identity
        self._descriptor = descriptor

    def send(self, number: signal.Signals) -> None:
        """Send a signal; raise ProcessLookupError when the process is gone, PermissionError when that is not allowed."""
        if not is_alive(self._identity):
            raise ProcessLookupError
        if self._descriptor is not None:
            signal.pidfd_send_signal(self._descriptor, number)
            return
        try:
            psutil.Process(self._identity.pid).send_signal(number)
        except psutil.AccessDenied:
            raise PermissionError from None
        except psutil.NoSuchProcess:
            raise ProcessLookupError from None


@contextmanager
def gripped(identity: ProcessIdentity) -> Generator[Grip]:
    """Hold on to a process for the length of a block, through a descriptor of it where the kernel has such."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except (OSError, AttributeError):  # gone, an old kernel, or not Linux
        yield Grip(identity, None)
        return
    try:
        yield Grip(identity, descriptor)
    finally:
        os.close(descriptor)


class Ending:
    """One order to end the processes of a lease, and what has become of each so far."""

    def __init__(self, order: KillOrder, kill_seconds: float = KILL_SECONDS) -> None:
        self._order = order
        self._kill_seconds = kill_seconds
        self._fates: dict[ProcessIdentity, ProcessFate] = {}

    def run(self) -> Outcome:
        """Do it, and return what became of every process. Doing it again finds them gone and does nothing."""
        seen = look_around()
        self._note_recorded(seen)
        self._signal(members_of(self._order, seen), signal.SIGTERM, self._order.grace_seconds)
        for _ in range(_ROUNDS):
            left = [each for each in members_of(self._order, look_around()) if self._may_end(each.identity)]
            if not left:
                break
            self._signal(left, signal.SIGKILL, self._kill_seconds)
        return Outcome(processes=list(self._fates.values())[:MOST_FATES])

    def _note_recorded(self, seen: dict[int, Seen]) -> None:
        untouchable = untouchable_of(self._order, seen)
        for each in self._order.processes:
            now = identity_of(each.pid)
            if now is None:
                self._note(each, Fate.GONE)
            elif now != each:
                self._note(each, Fate.REPLACED)
            elif each.pid in untouchable:
                self._note(each, Fate.SPARED)

    def _may_end(self, identity: ProcessIdentity) -> bool:
        known = self._fates.get(identity)
        return known is None or known.fate is not Fate.FORBIDDEN

    def _signal(self, members: Sequence[Seen], number: signal.Signals, seconds: float) -> None:
        """Send a signal to each, wait until all have ended or the time is over, and note what became of them."""
        ended = Fate.ENDED if number is signal.SIGTERM else Fate.KILLED
        with ExitStack() as stack:
            grips = {each.identity: stack.enter_context(gripped(each.identity)) for each in members}
            for identity in grips:
                self._note(identity, Fate.STAYED)
            sent = [identity for identity, grip in grips.items() if self._send(identity, grip, number)]
            await_ends(sent, seconds)
            for identity in sent:
                if not is_alive(identity):
                    self._note(identity, ended)

    def _send(self, identity: ProcessIdentity, grip: Grip, number: signal.Signals) -> bool:
        try:
            grip.send(number)
        except PermissionError:
            self._note(identity, Fate.FORBIDDEN)
            return False
        except OSError:  # it has ended in between, with its parent or by itself
            self._note(identity, Fate.GONE if number is signal.SIGTERM else Fate.ENDED)
            return False
        return True

    def _note(self, identity: ProcessIdentity, fate: Fate) -> None:
        known = self._fates.get(identity)
        is_same = identity_of(identity.pid) == identity
        command = known.command if known else shown_command(identity.pid) if is_same else None
        user = known.user if known else user_of(identity.pid) if is_same else None
        self._fates[identity] = ProcessFate(identity.pid, identity.started, fate, command, user)


def await_ends(processes: Sequence[ProcessIdentity], seconds: float) -> None:
    """Wait until all of these have ended, at most this long."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while any(is_alive(each) for each in processes) and (left := deadline - time.monotonic()) > 0:
        pause.wait(min(_PAUSE, left))
