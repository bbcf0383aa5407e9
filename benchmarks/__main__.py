"""`make bench`: every line with its value, its floor in the same run, their ratio, the target and `ok` or `short`."""

import json
import os
import sys
from contextlib import suppress

from benchmarks import idle, start, wake
from benchmarks.lines import Line
from benchmarks.stack import throw_away_stack
from warploom.embedded.postgres import Postgres


def main() -> int:
    lines: list[Line] = []
    with throw_away_stack() as stack:
        lines += _show(start.measure_up(stack))
        url = json.loads((stack.home / "run" / "server.json").read_text())["url"]
        lines += _show(idle.measure(stack))
        lines += _show([wake.measure(stack, url, Postgres(stack.home).url)])
        lines += _show(start.measure_commands(stack, url))
    short = [line.name for line in lines if not line.is_met]
    print(f"\n{len(lines) - len(short)} ok, {len(short)} short{': ' + ', '.join(short) if short else ''}")
    return 0


def _show(lines: list[Line]) -> list[Line]:
    for line in lines:
        print(line.render(), flush=True)
    return lines


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; medians; fsync on\n")
        sys.exit(main())
