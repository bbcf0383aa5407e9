"""Has a card prove that it works, in a process of its own that is given up when the driver hangs."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from warploom.host.probe import Proof

DEADLINE: Final = timedelta(seconds=20)
_CUDA_PROBE: Final = (sys.executable, "-P", "-m", "warploom.host.cuda_probe")
_GIVE_UP_SECONDS: Final = 2.0
_NOT_PASSED_ON: Final = ("CUDA_", "WARPLOOM_")


class Prover:
    """Runs a probe of one card and reads its answer. While one runs, `pids` has it: a survey leaves it out."""

    def __init__(self, command: Sequence[str] = _CUDA_PROBE, deadline: timedelta = DEADLINE) -> None:
        self._command = command
        self._seconds = deadline.total_seconds()
        self._lock = threading.Lock()
        self.pids: frozenset[int] = frozenset()

    def prove(self, uuid: str) -> Proof:
        """Probe a card, or a MIG instance, by its UUID; bounded in time."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}
        process = subprocess.Popen(
            list(self._command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=kept | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": uuid},
            start_new_session=True,
        )
        self._note({process.pid}, set())
        try:
            return self._answer(process)
        finally:
            self._note(set(), {process.pid})

    def _note(self, begun: set[int], ended: set[int]) -> None:
        with self._lock:
            self.pids = (self.pids | begun) - ended

    def _answer(self, process: subprocess.Popen[str]) -> Proof:
        try:
            told, said = process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            return Proof(False, f"CUDA did not answer within {self._seconds:g} s{_give_up(process)}")
        with suppress(ValueError, KeyError, TypeError):
            answer = json.loads(told)
            return Proof(answer["passed"], str(answer["text"]))
        if process.returncode < 0:
            return Proof(False, f"the probe was ended by {signal.Signals(-process.returncode).name}")
        return Proof(
            None, f"the probe ended with {process.returncode}: {(said.strip().splitlines() or ['no word'])[-1]}"
        )


def _give_up(process: subprocess.Popen[str]) -> str:
    """Kill a probe with all it started, and say so when not even that ends it; it is waited for no longer."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_GIVE_UP_SECONDS)
    except subprocess.TimeoutExpired:
        return f", and its process {process.pid} hangs in the driver"
    return ""
