"""The task graph: claims, batches, an old snapshot, agents on one graph, plans and lists, beside floors and peers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import uvloop

from benchmarks import agents, claims, plans, queues, snapshot
from benchmarks.lines import Line
from benchmarks.services import Services, throw_away_services

PARTS: dict[str, Callable[[Services], AsyncIterator[Line]]] = {
    "claims": claims.measure,
    "queues": queues.measure,
    "snapshot": snapshot.measure,
    "agents": agents.measure,
    "plans": plans.measure,
}


def measure(parts: list[str]) -> Iterator[Line]:
    """Measure the named parts, or all of them, on one throw-away Postgres and Valkey."""
    with throw_away_services() as services, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for name, part in PARTS.items():
            if not parts or name in parts:
                yield from _lines(runner, part(services))


def _lines(runner: asyncio.Runner, lines: AsyncIterator[Line]) -> Iterator[Line]:
    """Hand each line on as soon as it is there."""

    async def following() -> Line | None:
        return await anext(lines, None)

    while (line := runner.run(following())) is not None:
        yield line
