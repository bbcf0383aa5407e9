"""The agents of a demo as processes: started, cued, listened to, ended with all that they started."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from warploom.demo.happenings import Happening, Kind, decode, now
from warploom.demo.parts import Part
from warploom.demo.stage import Stage

_POLITE_SECONDS: Final = 5.0


@contextlib.contextmanager
def performers(
    parts: Sequence[Part], stage: Stage, hear: Callable[[Happening], object]
) -> Generator[list["Performer"]]:
    """Start an agent for each part, and end all that is left of them at the end.

    They may start before the stack does: each loads what it needs and waits for its first cue.
    """
    cast: list[Performer] = []
    try:
        for part in parts:
            cast.append(Performer(part, stage.environment, stage.logs / f"{part.name}.log", hear))
        yield cast
    finally:
        for performer in cast:
            performer.end()


class Performer:
    """One agent at work. `hear` is called from a thread of its own, for each thing that the agent tells."""

    def __init__(
        self, part: Part, environment: Mapping[str, str], log: Path, hear: Callable[[Happening], object]
    ) -> None:
        self.name = part.name
        self._log = log
        self._hear = hear
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "warploom.demo.agent", msgspec.json.encode(part).decode()],
                env={**environment, "WARPLOOM_AGENT": part.name},
                cwd=environment["WARPLOOM_HOME"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                process_group=0,
            )
        threading.Thread(target=self._listen, name=part.name, daemon=True).start()

    def cue(self) -> None:
        """Let the agent go on to its next step; one that has ended meanwhile is told of by its last words."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"go on\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """End the agent and whatever it started, if it has not ended by itself."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLITE_SECONDS)
                return

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._hear(self._understood(line))
        status = self._process.wait()
        if status != 0:
            self._hear(now(self.name, Kind.FAILED, f"its process ended with status {status}; {self._log} says why"))

    def _understood(self, line: bytes) -> Happening:
        try:
            return decode(line)
        except msgspec.DecodeError:
            return now(self.name, Kind.FAILED, f"it said something that makes no sense: {line[:80]!r}")
