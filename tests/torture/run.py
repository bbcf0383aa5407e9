"""A torture run: hand-overs by many agents, one trouble after another beside them, and a verdict in the end."""

import random
import threading
import time
from collections.abc import Callable, Generator

from support.invariants import assert_whole
from torture.ledger import read_ledger
from torture.troubles import EVERY, Dice, Trouble
from torture.verdict import Judge, Verdict, table, trouble_lines
from torture.world import Plan, World, world

Tell = Callable[[str], None]

ENDING_SECONDS = 180.0
TOLD_SECONDS = 15.0


def draw_troubles(seed: int) -> Generator[tuple[Trouble, Dice, float]]:
    """Draw troubles for ever, with dice and the quiet before each (a share of the longest); each kind once in a round."""
    chance = random.Random(seed)
    while True:
        for kind in chance.sample(EVERY, len(EVERY)):
            yield kind, (chance.random(), chance.random(), chance.random()), chance.random()


class Run:
    """One run in one world."""

    def __init__(self, made: World, tell: Tell) -> None:
        self._world = made
        self._plan = made.plan
        self._tell = tell
        self._faults = 0
        self._began = self._told = time.monotonic()

    def go(self) -> Verdict:
        """Let everybody do their worst until there were enough hand-overs, then let all that waits come to its end."""
        for agent in self._world.agents:
            agent.start()
        for count, (kind, dice, quiet) in enumerate(draw_troubles(self._plan.seed)):
            if count >= len(EVERY) and self._is_enough():
                break
            threading.Event().wait(quiet * self._plan.longest_quiet)
            kind(self._world, dice)
            self._tell_progress(kind.__name__.replace("_", " "))
            self._tell_faults()
        self._end()
        verdict = Judge(self._world.book, read_ledger(self._world.postgres.url), self._plan.span).judge()
        try:
            assert_whole(self._world.postgres.url)
        except AssertionError as error:
            verdict.wrong.append(f"an invariant does not hold: {error}")
        return verdict

    def _is_enough(self) -> bool:
        spent = time.monotonic() - self._began
        if spent > self._plan.seconds:
            self._world.book.fault(f"there were not enough hand-overs in {spent:.0f} s")
            return True
        is_stuck = not any(agent.is_alive() for agent in self._world.agents)
        return is_stuck or len(self._world.book.deliveries) >= self._plan.handovers

    def _end(self) -> None:
        for agent in self._world.agents:
            agent.stopping.set()
        end = time.monotonic() + ENDING_SECONDS
        for agent in self._world.agents:
            agent.join(max(0.1, end - time.monotonic()))
            if agent.is_alive():
                self._world.book.fault(
                    f"{agent.name} ({agent.waiter.way}) has not come to an end in its turn {agent.turns}"
                )

    def _tell_progress(self, last: str) -> None:
        now = time.monotonic()
        if now - self._told >= TOLD_SECONDS:
            self._told = now
            done, faults = len(self._world.book.deliveries), len(self._world.book.faults)
            troubles = len(self._world.book.troubles)
            self._tell(f"{now - self._began:5.0f} s  {done} hand-overs, {troubles} troubles, {faults} faults; {last}")

    def _tell_faults(self) -> None:
        new = self._world.book.faults[self._faults :]
        self._faults += len(new)
        for sentence in new:
            self._tell(sentence)


def run_torture(plan: Plan, tell: Tell) -> Verdict:
    """Run a plan in a world of its own and tell what happens; the last line says what came of it."""
    tell(f"seed {plan.seed}, {plan.handovers} hand-overs")
    with world(plan) as made:
        verdict = Run(made, tell).go()
        troubles = trouble_lines(made.book.troubles)
    for line in [*troubles, *table(verdict.handovers), *verdict.wrong, *verdict.late, *verdict.idle]:
        tell(line)
    tell(f"longest idle card {verdict.longest_idle:.1f} s, of {plan.span:.0f} s that an offer lasts")
    tell(verdict.last_line)
    return verdict
