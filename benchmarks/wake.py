"""The wake: from the call of release to the waiter's process having its lease, beside the same hops bare."""

import json
import subprocess
import time
from http.client import HTTPConnection

from benchmarks.lines import Line, median_of
from benchmarks.stack import Stack, free_port, process, wait_for_http
from warploom.client.connection import Client
from warploom.domain.callers import Caller
from warploom.domain.standings import Wish

ROUNDS = 40
WARM_UP = 5


def measure(stack: Stack, url: str, dsn: str) -> Line:
    own = _own(url)
    floor = _floor(dsn)
    return Line("wake: release called -> waiter has lease", own, "ms", floor, "same hops bare", 2.0, by_ratio=True)


def _own(url: str) -> float:
    clients = [Client(url, Caller(session_key=name, agent=name)) for name in ("bench-1", "bench-2")]
    with process("benchmarks.waiter", url, "bench-1") as one, process("benchmarks.waiter", url, "bench-2") as two:
        waiters = [one, two]
        held = clients[0].request(Wish("first", "0", minutes=1)).lease
        if held is None:
            raise RuntimeError("card 0 was not free at the start")
        spent: list[float] = []
        for turn in range(ROUNDS + WARM_UP):
            holder, waiter = turn % 2, 1 - turn % 2
            ticket = clients[waiter].request(Wish(f"round {turn}", "0", minutes=1)).ticket
            _begin(waiters[waiter], ticket)
            start = time.monotonic_ns()
            clients[holder].release(held)
            ended, lease = _end(waiters[waiter])
            spent.append((ended - start) / 1e6)
            clients[waiter].accept(lease)
            held = lease
        clients[(ROUNDS + WARM_UP) % 2].release(held)
    return median_of(spent[WARM_UP:])


def _floor(dsn: str) -> float:
    port = free_port()
    spent: list[float] = []
    with process("benchmarks.bare_server", dsn, str(port)):
        wait_for_http(port)
        with (
            process("benchmarks.bare_host", str(port)),
            process("benchmarks.waiter", f"http://127.0.0.1:{port}", "bare") as waiter,
        ):
            releases = HTTPConnection("127.0.0.1", port)
            for _ in range(ROUNDS + WARM_UP):
                _begin(waiter, "bare")
                start = time.monotonic_ns()
                releases.request("POST", "/release", json.dumps({}), {"Content-Type": "application/json"})
                releases.getresponse().read()
                ended, _ = _end(waiter)
                spent.append((ended - start) / 1e6)
    return median_of(spent[WARM_UP:])


def _begin(waiter: "subprocess.Popen[str]", ticket: str) -> None:
    assert waiter.stdin is not None
    assert waiter.stdout is not None
    waiter.stdin.write(f"{ticket}\n")
    waiter.stdin.flush()
    waiter.stdout.readline()
    time.sleep(0.15)  # until the open request has surely arrived


def _end(waiter: "subprocess.Popen[str]") -> tuple[int, str]:
    assert waiter.stdout is not None
    moment, lease = waiter.stdout.readline().split()
    return int(moment), lease
