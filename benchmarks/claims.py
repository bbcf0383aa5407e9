"""Listing, claiming, and claiming and finishing, on a thousand, a hundred thousand and a million ready tasks."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.lines import Line, rate
from benchmarks.listing import compare_lists
from benchmarks.rows import fill_bare, fill_tasks
from benchmarks.services import Services
from benchmarks.workers import Rounds, Step, bare_claim, bare_pair, bare_pool, own_claim, own_pair
from warploom.app import App
from warploom.domain.sessions import Actor

SMALL, MIDDLE, LARGE = 1_000, 100_000, 1_000_000
WORKERS = (1, 8, 32)

OwnStep = Callable[[App, Actor], Step]
BareStep = Callable[[Any, str], Step]


@dataclass(frozen=True)
class Ground:
    """The same number of ready rows in Warploom's table and in the floors'."""

    services: Services
    bare: str
    size: int
    actors: list[Actor]

    @property
    def rounds(self) -> int:
        return 9 if self.size == SMALL else 3

    async def refill(self) -> None:
        """Put everything back that a round took, where a round takes all."""
        if self.size == SMALL:
            await fill_tasks(self.services.dsn, self.size)
            await fill_bare(self.bare, self.size)


async def measure(services: Services) -> AsyncIterator[Line]:
    """Warploom's services against the same work on a bare table of the same size, through pools of the same size."""
    bare = await services.database("bare")
    claimed: dict[int, float] = {}
    listed: dict[int, float] = {}  # beside their floors of the same moment, which meet what else the machine does too
    for size in (SMALL, MIDDLE, LARGE):
        await fill_bare(bare, size)
        ground = Ground(services, bare, size, await fill_tasks(services.dsn, size))
        spent, floor = await _lists(ground)
        listed[size] = spent / floor
        name = f"list the first ten of {size:,} ready"
        yield Line(name, spent, "ms", floor, "bare indexed select", 3, by_ratio=True)
        claims = await _compare(ground, 8, own_claim, bare_claim)
        claimed[size] = claims.own / claims.floor
        yield rate(f"claim one, 8 workers, {size:,} ready", claims.own, claims.floor, "bare SKIP LOCKED claim", 0.5)
        for workers in WORKERS:
            pairs = await _compare(ground, workers, own_pair, bare_pair)
            name = f"claim + complete, {workers} worker{'s' if workers > 1 else ''}, {size:,} ready"
            yield rate(name, pairs.own, pairs.floor, "bare two-statement loop", 0.5)
    itself = f"the same at {SMALL:,} ready"
    name = f"claim one beside its floor, {LARGE:,} ready"
    yield Line(name, claimed[LARGE], "x", claimed[SMALL], itself, 0.8, by_ratio=True, is_rate=True)
    name = f"list the first ten beside its floor, {LARGE:,} ready"
    yield Line(name, listed[LARGE], "x", listed[SMALL], itself, 1.5, by_ratio=True)


async def _lists(ground: Ground) -> tuple[float, float]:
    async with ground.services.app() as app, bare_pool(ground.bare) as pool:
        return await compare_lists(app, ground.actors[0], pool)


async def _compare(ground: Ground, workers: int, own: OwnStep, bare: BareStep) -> Rounds:
    async with ground.services.app() as app, bare_pool(ground.bare) as pool:
        rounds = Rounds(
            [own(app, actor) for actor in ground.actors[:workers]],
            [bare(pool, f"worker {n}") for n in range(workers)],
        )
        for _ in range(ground.rounds):
            await ground.refill()
            await rounds.run()
    return rounds
