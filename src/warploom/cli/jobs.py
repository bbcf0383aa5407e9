"""A command that runs in the foreground as a shell would run it: its own process group, the terminal, Ctrl-Z."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from warploom.cli.signals import Signals

_FROM_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)


@dataclass(frozen=True, slots=True)
class Streams:
    """The descriptors that the job's output goes to."""

    stdout: int = 1
    stderr: int = 2


class Terminal:
    """The terminal that this command was typed into, whose foreground passes to the job and back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def ours(cls) -> "Terminal | None":
        """Return the terminal when this command alone has it; in a pipeline its neighbours need it too."""
        if not os.isatty(0) or not os.isatty(1):
            return None
        try:
            terminal = cls(os.open("/dev/tty", os.O_RDWR))
        except OSError:
            return None
        return terminal if terminal.is_ours() else None

    def is_ours(self) -> bool:
        """Say whether this command is in the foreground."""
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        return False

    def give(self, group: int) -> None:
        """Put a process group into the foreground."""
        with _stop_signals_blocked(), contextlib.suppress(OSError):
            os.tcsetpgrp(self._descriptor, group)

    def take(self) -> None:
        """Put this command back into the foreground."""
        self.give(os.getpgrp())


class Job:
    """A running command. It outlives this process when that is killed."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], streams: Streams) -> None:
        """Start the command; raises OSError when it cannot be started."""
        self._terminal = Terminal.ours()
        # Behind a pipe but at a terminal, the job stays in the group that the terminal's own signals go to.
        self._has_group = self._terminal is not None or not os.isatty(0)
        self._process = subprocess.Popen(
            list(command),
            env=dict(environment),
            stdout=streams.stdout,
            stderr=streams.stderr,
            process_group=0 if self._has_group else None,
            preexec_fn=self._enter_foreground if self._terminal else None,
        )
        if self._terminal:
            self._terminal.give(self._process.pid)

    def send(self, number: int) -> None:
        """Pass a signal on to the job and what it started."""
        with contextlib.suppress(ProcessLookupError):
            if self._has_group:
                os.killpg(self._process.pid, number)
            elif number not in _FROM_THE_TERMINAL:
                os.kill(self._process.pid, number)

    def wait(self, signals: Signals) -> int:
        """Wait for the job's end, stopping along with it, and return its status as a shell does: 128 + n for signal n."""
        signals.send_to(self.send)
        while True:
            _, status = os.waitpid(self._process.pid, os.WUNTRACED if self._terminal else 0)
            if not os.WIFSTOPPED(status):
                break
            self._stop_along()
        signals.hold()
        if self._terminal:
            self._terminal.take()
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _enter_foreground(self) -> None:
        if self._terminal:
            self._terminal.give(os.getpid())

    def _stop_along(self) -> None:
        if self._terminal is None:
            return
        self._terminal.take()
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        if self._terminal.is_ours():
            self._terminal.give(self._process.pid)
        self.send(signal.SIGCONT)


@contextlib.contextmanager
def _stop_signals_blocked() -> Generator[None]:
    """Changing the foreground from the background would stop whoever does it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
