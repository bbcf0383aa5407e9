"""What the signals sent to `warploom run` do: end its waiting, wait a moment, or go on to its job."""

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final

FORWARDED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class Stopped(BaseException):
    """A signal asked the command to stop before its job had started or after it had ended."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """Handles the signals of one run. A signal that was ignored when the command started stays ignored, as under nohup."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._send: Callable[[int], None] | None = None
        self._holds = False
        self._held: list[int] = []

    def __enter__(self) -> "Signals":
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._arrive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stop_us(self) -> None:
        """From now on a signal raises Stopped; those that were held back are forgotten."""
        self._send, self._holds = None, False
        self._held.clear()

    def hold(self) -> None:
        """From now on signals are kept for later, so that nothing is left half done."""
        self._holds = True

    @contextmanager
    def put_off(self) -> Generator[None]:
        """Keep signals back for a block that must not be left in its middle, as where it takes locks; raise Stopped after it."""
        self._holds = True
        try:
            yield
        finally:
            self._holds = False
        if self._held:
            number = self._held[0]
            self._held.clear()
            raise Stopped(number)

    def send_to(self, send: Callable[[int], None]) -> None:
        """From now on signals go to the job, beginning with those that were held back."""
        self._send, self._holds = send, False
        while self._held:
            send(self._held.pop(0))

    def _arrive(self, number: int, _frame: FrameType | None) -> None:
        if self._holds:
            self._held.append(number)
        elif self._send is not None:
            self._send(number)
        else:
            raise Stopped(number)
