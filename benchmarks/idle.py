"""The whole stack while nothing happens: processor time and memory of all its processes."""

import json
import time

import psutil

from benchmarks.lines import Line
from benchmarks.stack import Stack

SECONDS = 20.0


def measure(stack: Stack) -> list[Line]:
    processes = _processes(stack)
    before = {process.pid: _spent(process) for process in processes}
    start = time.perf_counter()
    time.sleep(SECONDS)
    seconds = time.perf_counter() - start
    spent = sum(max(0.0, _spent(process) - before[process.pid]) for process in processes)
    memory = sum(_memory(process) for process in processes)
    return [
        Line("whole stack idle: share of a core", 100 * spent / seconds, "%", None, "", 2.0),
        Line("whole stack idle: memory (PSS)", memory / 2**20, "MiB", None, "", 350.0),
    ]


def _processes(stack: Stack) -> list[psutil.Process]:
    roots = [json.loads(path.read_text())["pid"] for path in (stack.home / "run").glob("*.json")]
    found: dict[int, psutil.Process] = {}
    for pid in roots:
        root = psutil.Process(pid)
        found |= {each.pid: each for each in (root, *root.children(recursive=True))}
    return list(found.values())


def _spent(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0
