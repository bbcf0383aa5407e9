"""Real server processes on a test's database, commands that speak to them, and surveys in a host agent's place."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from warploom.embedded.programs import free_port

PATIENCE = 60.0
WAKE_SECONDS = 5.0
"""A waiter learns of its card within this, whatever hint was lost on the way."""

T = TypeVar("T")


def eventually(question: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Ask until the answer is true and return it; fail when there is no such answer in time."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"it did not happen in time: {answer!r}"
        threading.Event().wait(0.02)
    return answer


def environment_of(home: Path, **settings: object) -> dict[str, str]:
    """Return an environment with nothing of Warploom but what is given here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WARPLOOM_", "CUDA_"))}
    named = {f"WARPLOOM_{name.upper()}": str(value) for name, value in settings.items()}
    return kept | {"WARPLOOM_HOME": str(home), "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"} | named


class ServerProcess:
    """One `python -m warploom.server`, which keeps its address when it is started again."""

    def __init__(self, home: Path, settings: dict[str, object]) -> None:
        self.port = free_port("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home / f"server-{self.port}.log"
        self._environment = environment_of(home, port=self.port, **settings)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and return without waiting for it."""
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "warploom.server"]
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)

    def until_healthy(self) -> None:
        """Wait until it answers."""
        eventually(self._is_healthy)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as kill -9 does."""
        self.signal(signal.SIGKILL)
        self.ended()

    def stop(self) -> int:
        """Ask it to stop and return its exit status."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Wait for its end and return its exit status."""
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        """Leave nothing running."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE)

    def _is_healthy(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        try:
            return httpx.get(f"{self.url}/health", timeout=5, verify=False).status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def server_processes(home: Path, *every: dict[str, object]) -> Generator[list[ServerProcess]]:
    """Run one server for each dict of settings, side by side, for the length of a block."""
    with ExitStack() as stack:
        servers = [ServerProcess(home, settings) for settings in every]
        for server in servers:
            stack.callback(server.close)
            server.start()
        for server in servers:
            server.until_healthy()
        yield servers


class Caller:
    """Speaks to the HTTP API as one agent's session, or as nobody in particular."""

    def __init__(self, url: str, agent: str | None = None, key: str | None = None) -> None:
        self.headers = {"X-Warploom-Agent": agent, "X-Warploom-Session": agent} if agent else {}
        authorization = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=url, headers=self.headers | authorization, timeout=PATIENCE, verify=False)

    def close(self) -> None:
        self.http.close()

    def get(self, path: str, **query: Any) -> Any:
        """Read something; fail unless it is there."""
        return _content(self.http.get(f"/api/v1{path}", params=query))

    def post(self, path: str, **body: Any) -> Any:
        """Do something; fail unless it is done."""
        return _content(self.http.post(f"/api/v1{path}", json=body))

    def request(self, job: str = "train", device: str = "0", **wish: Any) -> dict[str, Any]:
        """Ask for a card."""
        return self.post("/tickets", job=job, device=device, **wish)

    def release(self, lease: str) -> dict[str, Any]:
        """Give a card back."""
        return self.post(f"/leases/{lease}/release")

    def doctor(self, check: str) -> tuple[str, str]:
        """Return the word and the text of one of doctor's checks."""
        found = next(each for each in self.get("/doctor") if each["name"] == check)
        return found["word"], found["text"]

    def survey(self, host: str = "local", cards: int = 1) -> None:
        """Tell, as a host agent does, that a host's cards are clear."""
        self.post(f"/hosts/{host}/survey", **survey_of(host, cards))

    def listeners(self) -> int:
        """Return how many waiters listen in this server now."""
        return int(self.doctor("bus")[1].split(" waiting here")[0].rpartition(" ")[2])


def _content(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, (
        f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    )
    return answer.json()


def survey_of(host: str = "local", cards: int = 1, **facts: Any) -> dict[str, Any]:
    """Return a survey that shows clear cards, and stays fresh for as long as any test takes."""
    clear = {"model": "NVIDIA H200", "memory_mib": 144_384, "used_mib": 500, "utilisation": 0, "processes": []}
    shown = [{"uuid": f"GPU-{host}-{index:04}", "index": index, **clear} for index in range(cards)]
    return {"provider": "lab", "driver": "580.65", "version": "0", "interval_seconds": 600, "cards": shown, **facts}


class Command:
    """A `warploom` command that runs beside the test."""

    def __init__(self, arguments: tuple[str, ...], environment: dict[str, str], folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "warploom", *arguments],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def first_words(self) -> str:
        """Wait for the first line it says beside what it prints: a waiter knows then where its ticket stands."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def finish(self, seconds: float = PATIENCE) -> tuple[int, str, str]:
        """Wait for its end; return its status, what it printed and what it said beside that."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err

    def kill(self) -> None:
        """End it as kill -9 does; what it started may go on, with its pipes."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def close(self) -> None:
        """Leave nothing running."""
        self.kill()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


StartCommand = Callable[..., Command]
Serve = Callable[..., list[ServerProcess]]


@contextmanager
def commands(home: Path) -> Generator[StartCommand]:
    """Start `warploom` commands with settings as keywords; whatever still runs in the end is ended."""
    with ExitStack() as stack:

        def start(*arguments: str, **settings: object) -> Command:
            command = Command(arguments, environment_of(home, **settings), home)
            stack.callback(command.close)
            return command

        yield start
