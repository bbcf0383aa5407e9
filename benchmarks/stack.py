"""A throw-away local stack to measure, and processes that end with it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

WARPLOOM = str(Path(sys.executable).parent / "warploom")
HOUSE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Stack:
    """A home and the environment that points to it."""

    home: Path
    environment: dict[str, str]

    def run(self, *arguments: str) -> float:
        """Run a warploom command and return the seconds it took; raise when it failed."""
        start = time.perf_counter()
        done = subprocess.run([WARPLOOM, *arguments], env=self.environment, capture_output=True, text=True, check=False)
        spent = time.perf_counter() - start
        if done.returncode != 0:
            raise RuntimeError(f"warploom {' '.join(arguments)} failed: {done.stderr[-800:]}{done.stdout[-400:]}")
        return spent


@contextmanager
def throw_away_stack() -> Iterator[Stack]:
    """Make a home, and stop and remove whatever was started in it."""
    home = Path(tempfile.mkdtemp(prefix="wlb-"))
    settings = {"WARPLOOM_HOME": str(home), "WARPLOOM_FAKE_GPUS": "2", "WARPLOOM_PORT": str(free_port())}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WARPLOOM_")}
    stack = Stack(home, inherited | settings)
    try:
        yield stack
    finally:
        stack.run("down")
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def process(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run `python -m …` with pipes for the length of a block."""
    child = subprocess.Popen(
        [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HOUSE
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_http(port: int, path: str = "/health", seconds: float = 15) -> None:
    """Return once the port answers; raise TimeoutError when it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection = HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.02)
        finally:
            connection.close()
    raise TimeoutError(f"nothing answers on port {port}")
