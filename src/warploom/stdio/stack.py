"""The server a session speaks to: a given one, or the local stack, which is started when it is needed."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from warploom.client.connection import Client
from warploom.client.identity import server_url
from warploom.config import Settings
from warploom.domain.errors import Unreachable, WarploomError

# Without the working directory on its path: an agent's project may hold modules of any name.
START_COMMAND = (sys.executable, "-P", "-m", "warploom", "up")
_START_SECONDS = 120
_SHOWN = 400
_OF_THE_SESSION = ("WARPLOOM_SESSION", "WARPLOOM_AGENT", "WARPLOOM_LEASE", "WARPLOOM_URL", "CUDA_VISIBLE_DEVICES")


class Stack:
    """Where the server is. Only a stack that the settings leave to us is ever started."""

    def __init__(self, settings: Settings, start_command: Sequence[str] = START_COMMAND) -> None:
        self._settings = settings
        self._command = start_command
        self._lock = threading.Lock()
        self._start: Future[None] | None = None

    @property
    def is_ours(self) -> bool:
        """Say whether the local stack is meant, which may be started, and not a server that somebody else runs."""
        return self._settings.url is None

    def url(self) -> str:
        """Return the server's present address; a restarted local stack may have another port."""
        return server_url(self._settings)

    def start(self) -> Future[None]:
        """See to it that the server runs, in a thread of its own; callers meanwhile share one attempt.

        The future ends with Unreachable when the server does not run and cannot be started.
        """
        with self._lock:
            if self._start is None or self._start.done():
                self._start = Future()
                threading.Thread(target=self._run, args=(self._start,), name="stack", daemon=True).start()
            return self._start

    def _run(self, started: Future[None]) -> None:
        try:
            if not self._answers():
                self._bring_up()
        except BaseException as error:  # noqa: BLE001  (whatever it was, the callers who wait are told)
            started.set_exception(error)
        else:
            started.set_result(None)

    def _answers(self) -> bool:
        try:
            with Client(self.url()) as client:
                client.health()
        except Unreachable:
            if not self.is_ours:
                raise
            return False
        except WarploomError:
            return True
        return True

    def _bring_up(self) -> None:
        with tempfile.TemporaryFile() as output:
            status = _run_detached(self._command, output.fileno())
            output.seek(0)
            told = output.read().decode(errors="replace")
        if status != 0:
            lines = " ".join(told.split())[-_SHOWN:] or f"`warploom up` ended with status {status}"
            raise Unreachable(
                f"The local stack could not be started: {lines}", "Run `warploom doctor`; it says what is wrong."
            )


def _run_detached(command: Sequence[str], output: int) -> int:
    """Run a command in a session of its own, so that it ends neither with this process nor with its terminal."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_THE_SESSION}
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
            timeout=_START_SECONDS,
            check=False,
        ).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unreachable(
            f"The local stack could not be started: {error}.", "Run `warploom up` by hand; it says what is wrong."
        ) from error
