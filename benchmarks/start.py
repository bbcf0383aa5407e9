"""Starting: `warploom up` on an empty and on a used home, and how long one bare `warploom wait` takes."""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.lines import Line, median_ms
from benchmarks.stack import Stack
from warploom.client.connection import Client
from warploom.domain.callers import Caller
from warploom.domain.standings import Wish
from warploom.embedded.postgres import Postgres
from warploom.embedded.valkey import Valkey


def measure_up(stack: Stack) -> list[Line]:
    """Start cold, stop, start warm; the floors are the two services alone, in this process, one after the other."""
    cold = stack.run("up")
    stack.run("down")
    warm = stack.run("up")
    cold_floor, warm_floor = _services()
    return [
        Line("up, cold", cold, "s", cold_floor, "initdb + start + valkey", 3.0),
        Line("up, warm", warm, "s", warm_floor, "start + valkey", 1.2),
    ]


def _services() -> tuple[float, float]:
    home = Path(tempfile.mkdtemp(prefix="wlb-"))
    try:
        return _start_services(home), _start_services(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _start_services(home: Path) -> float:
    postgres, valkey = Postgres(home), Valkey(home)
    start = time.perf_counter()
    postgres.start()
    valkey.start()
    spent = time.perf_counter() - start
    valkey.stop()
    postgres.stop()
    return spent


_BARE = "import http.client,sys; c=http.client.HTTPConnection(*sys.argv[1:3]); c.request('GET', '/health'); c.getresponse().read()"


def measure_commands(stack: Stack, url: str) -> list[Line]:
    """Time `warploom wait` on a ticket that is granted already, and `warploom run -- true`, beside one bare HTTP call."""
    client = Client(url, Caller(session_key="bench-wait", agent="bench-wait"))
    answer = client.request(Wish("granted", "1", minutes=1))
    host, port = url.removeprefix("http://").split(":")

    def bare() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", _BARE, host, port], check=True)
        return time.perf_counter() - start

    floor = median_ms(bare, 11)
    waits = median_ms(lambda: stack.run("wait", answer.ticket), 11)
    client.release(answer.lease or "")
    runs = median_ms(lambda: stack.run("run", "--card", "1", "--", "true"), 11)
    return [
        Line("warploom wait, start to exit", waits, "ms", floor, "bare python, one HTTP call", 150.0),
        Line("warploom run -- true, warm", runs, "ms", floor, "bare python, one HTTP call", 120.0),
    ]
