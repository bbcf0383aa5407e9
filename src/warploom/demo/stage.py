"""Where a demo plays: a stack of its own in a throw-away home, and the proof that nothing of it is left running."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from warploom.config import PREFIX, Settings
from warploom.embedded.stack import StackInfo, start, stop

CARDS: Final = 2
_SHORT: Final = Path("/tmp")  # noqa: S108  # sockets need a short path; the folder made there is private
_SWEEP_SECONDS: Final = 30.0
_PAUSE: Final = 0.1
_OF_THE_CALLER: Final = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


class Stage:
    """A private home with a stack on a free port, whatever the settings of the caller's own stack are.

    With faults to come, cards are trusted again after seconds where others take minutes.
    """

    def __init__(self, *, has_faults: bool = False) -> None:
        parent = _SHORT if os.access(_SHORT, os.W_OK | os.X_OK) else None
        self.home = Path(tempfile.mkdtemp(prefix="warploom-demo-", dir=parent)).resolve()
        ours = {f"{PREFIX}HOME": str(self.home), f"{PREFIX}FAKE_GPUS": str(CARDS), f"{PREFIX}PORT": "0"}
        if has_faults:
            ours |= {f"{PREFIX}FOREIGN_QUIET_SECONDS": "3", f"{PREFIX}SETTLE_SECONDS": "5"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        self.environment = {name: value for name, value in kept.items() if name not in _OF_THE_CALLER} | ours
        self.settings = Settings.load(self.environment)
        self.logs.mkdir(mode=0o700)

    @property
    def logs(self) -> Path:
        """Where everything that runs here writes its log."""
        return self.home / "logs"

    def open(self, on_fact: Callable[[str], None]) -> StackInfo:
        """Start the stack exactly as `warploom up` does; raise Unreachable when it does not come up."""
        return start(self.settings, on_fact)

    def close(self) -> list[str]:
        """Stop the stack and return what still runs after that, which is nothing unless something went wrong.

        A supervisor that was just being started can only be stopped once it has written itself down, hence the repetition.
        """
        give_up_at = time.monotonic() + _SWEEP_SECONDS
        while True:
            stop(self.settings)
            left = processes_of(self.home)
            if not left or time.monotonic() > give_up_at:
                return left
            time.sleep(_PAUSE)

    def remove(self) -> None:
        """Delete the home."""
        shutil.rmtree(self.home, ignore_errors=True)


def processes_of(home: Path) -> list[str]:
    """List the processes of a home, ourselves left out: by their environment, their arguments or their working folder."""
    us = os.getpid()
    return [_told(process) for process in psutil.process_iter() if process.pid != us and _belongs(process, home)]


def _belongs(process: psutil.Process, home: Path) -> bool:
    looks: tuple[Callable[[], list[str]], ...] = (
        lambda: [process.environ().get(f"{PREFIX}HOME", "")],
        process.cmdline,
        lambda: [process.cwd()],
    )
    try:
        return process.status() != psutil.STATUS_ZOMBIE and any(_names(look, home) for look in looks)
    except psutil.NoSuchProcess:
        return False


def _names(look: Callable[[], list[str]], home: Path) -> bool:
    try:
        return any(text == str(home) or f"{home}{os.sep}" in text for text in look())
    except psutil.AccessDenied:
        return False


def _told(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline()[:4])}".strip()
    except psutil.Error:
        return str(process.pid)
