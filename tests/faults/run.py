"""A fault run: steps in the order of their draw, a judge beside them, and every card back in the pool at the end."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from end_to_end.localstack import LocalStack, local_stack
from faults.draws import Draw, draw_steps
from faults.ending import stuck_cards
from faults.steps import STEPS, WEIGHTS
from faults.verdict import Violation, judge
from faults.world import SETTINGS, SURVEY_SECONDS, World

JUDGED_EVERY = 20
WHOLE_EVERY = 100
TOLD_EVERY = 250

Tell = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    grants: int = 0
    violations: list[Violation] = field(default_factory=list[Violation])
    stuck: list[str] = field(default_factory=list[str])
    broken: list[str] = field(default_factory=list[str])
    """Invariants of the database that did not hold."""

    @property
    def last_line(self) -> str:
        """Sum it up in the words that a run ends with."""
        return f"grants {self.grants}, onto occupied cards {len(self.violations)}, stuck cards {len(self.stuck)}"

    @property
    def is_good(self) -> bool:
        """Say whether nothing was wrong."""
        return not (self.violations or self.stuck or self.broken)


class Run:
    """One run against one stack."""

    def __init__(self, stack: LocalStack, tell: Tell) -> None:
        self._world = World(stack)
        self._tell = tell
        self._outcome = Outcome()
        self._done: Counter[str] = Counter()
        self._notes: list[tuple[float, str]] = []
        self._began = time.monotonic()

    def go(self, draws: list[Draw]) -> Outcome:
        """Do every step, then take every cause away and look whether every card comes back."""
        try:
            for draw in draws:
                self._step(draw)
            self._tell_progress(len(draws))
            self._world.quiet()
            self._world.until_healthy()
            self._outcome.stuck = stuck_cards(self._world)
            self._judge()
            self._check()
        finally:
            self._world.close()
        return self._outcome

    def _step(self, draw: Draw) -> None:
        threading.Event().wait(draw.pause)
        self._world.number = draw.number
        self._world.tend()
        told = STEPS[draw.kind](self._world, draw.dice)
        if told is not None:
            self._done[draw.kind] += 1
            self._notes.append((time.time(), f"step {draw.number}: {told}"))
        if draw.number % JUDGED_EVERY == 0 and self._world.healthy_at is None:
            self._judge()
        if draw.number % WHOLE_EVERY == 0 and self._world.healthy_at is None:
            self._check()
        if draw.number % TOLD_EVERY == 0:
            self._tell_progress(draw.number)

    def _judge(self) -> None:
        grants = self._world.witness.grants()
        new = judge(grants[self._outcome.grants :], self._world.truth.spells(), SURVEY_SECONDS)
        self._outcome.grants = len(grants)
        self._outcome.violations += new
        for violation in new:
            self._tell_story(violation)

    def _check(self) -> None:
        try:
            self._world.stack.assert_whole()
        except AssertionError as error:
            self._outcome.broken.append(str(error))
            self._tell(f"Broken: {error}")

    def _tell_story(self, violation: Violation) -> None:
        """Tell everything about a card around a grant that it should not have got."""
        at, card = violation.grant.at, violation.card
        since, until = at - violation.taken_for - 5, at + 3
        lines = [*self._world.witness.story(card, since, until)]
        lines += [note for note in self._notes if since <= note[0] <= until]
        for spell in self._world.truth.spells(card):
            lines += [(spell.since, f"begins: {spell.cause}"), (spell.until, f"ends: {spell.cause}")]
        self._tell(f"Violation: {violation.sentence}")
        for moment, line in sorted(lines):
            if since <= moment <= until:
                self._tell(f"  {moment - at:+8.3f} s  {line}")

    def _tell_progress(self, number: int) -> None:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self._done.items()))
        spent = time.monotonic() - self._began
        self._tell(f"{number} steps in {spent:.0f} s, {self._outcome.grants} grants: {counts}")
        said = [f"{lane['card']} {lane['say']}" for lane in self._world.lanes()]
        self._tell(f"  now {'; '.join(said) or 'the server does not answer'}; {', '.join(self._world.causes)}")


def run_faults(seed: int, steps: int, tell: Tell) -> Outcome:
    """Run a seed's steps against a stack of their own and tell what happens; the last line says what came of it."""
    tell(f"seed {seed}, {steps} steps")
    with local_stack(**SETTINGS) as stack:
        outcome = Run(stack, tell).go(draw_steps(seed, steps, WEIGHTS))
    for line in [*outcome.broken, *outcome.stuck]:
        tell(line)
    tell(outcome.last_line)
    return outcome
