"""`make bench`: every line with its value, its floor or peer in the same run, their ratio, the target and whether it is met.

`make bench ARGS="stack"` measures the local stack, `ARGS="graph"` the task graph, `ARGS="graph.claims"` one part of it.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

from benchmarks import graph, local_stack
from benchmarks.lines import Line

GROUPS: dict[str, Callable[[list[str]], Iterator[Line]]] = {"stack": local_stack.measure, "graph": graph.measure}


def main(wanted: list[str]) -> int:
    unknown = [name for name in wanted if name.partition(".")[0] not in GROUPS]
    if unknown:
        print(f"There is no group {unknown[0]!r}; choose from {', '.join(GROUPS)}.", file=sys.stderr)
        return 2
    lines: list[Line] = []
    for group, measure in GROUPS.items():
        chosen = [name.partition(".") for name in wanted if name.partition(".")[0] == group]
        if chosen or not wanted:
            lines += _show(measure([part for _, _, part in chosen if part]))
    words = [line.word for line in lines]
    short = [line.name for line in lines if line.word == "short"]
    print(
        f"\n{words.count('ok')} ok, {len(short)} short, {words.count('peer missing')} without a peer"
        f"{': ' + ', '.join(short) if short else ''}"
    )
    return 0


def _show(lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        print(line.render(), flush=True)
        yield line


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; medians; fsync on\n")
        sys.exit(main(sys.argv[1:]))
