"""The local stack: starting, idling, waking a waiter, and the commands an agent runs."""

import json
from collections.abc import Iterator

from benchmarks import crowd, idle, start, wake
from benchmarks.lines import Line
from benchmarks.stack import throw_away_stack
from warploom.embedded.postgres import Postgres


def measure(_parts: list[str]) -> Iterator[Line]:
    with throw_away_stack() as stack:
        yield from start.measure_up(stack)
        url = json.loads((stack.home / "run" / "server.json").read_text())["url"]
        yield from idle.measure(stack)
        yield wake.measure(stack, url, Postgres(stack.home).url)
        yield from crowd.measure(stack, url, Postgres(stack.home).url)
        yield from start.measure_commands(stack, url)
