"""The world of a fault run: a real local stack, its agents and holders, and the causes of trouble that are at work."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from end_to_end.localstack import LocalStack
from faults.agents import Agent
from faults.holders import Holder, end_child, end_holder
from faults.truth import Truth
from faults.witness import Witness

CARDS = 4
AGENTS = 8
SURVEY_SECONDS = 0.2
SETTINGS = {
    "fake_gpus": CARDS,
    "survey_seconds": SURVEY_SECONDS,
    "lease_minutes": 0.08,
    "offer_seconds": 1.5,
    "missed_offers": 3,
    "settle_seconds": 1,
    "foreign_quiet_seconds": 0.5,
}
LONGEST_TROUBLE = 14
T = TypeVar("T")


@dataclass(slots=True)
class Cause:
    """Something that keeps cards out of the pool until its step has come."""

    due: int
    end: Callable[[], None]


class World:
    """Everything that steps act on. `number` is the step that is being done."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.cards = stack.cards
        self.uuids = [stack.cards.uuid(card) for card in range(CARDS)]
        self.truth = Truth()
        self.witness = Witness(stack.database_url)
        self.agents = [Agent(f"agent-{number}", stack.caller(f"agent-{number}")) for number in range(AGENTS)]
        self.operator = Agent("operator", stack.caller("operator"))
        self.holders: list[Holder] = []
        self.ends: dict[int, int] = {}
        self.causes: dict[str, Cause] = {}
        self.number = 0
        self.healthy_at: int | None = None

    def trouble(self, name: str, dice: float, end: Callable[[], None]) -> None:
        """Note a cause of trouble, which ends by itself after some steps."""
        self.causes[name] = Cause(self.number + 1 + round(dice * LONGEST_TROUBLE), end)

    def end_trouble(self, name: str) -> None:
        """Take a cause away now, if it is there."""
        cause = self.causes.pop(name, None)
        if cause is not None:
            cause.end()

    def spells(self, cards: Sequence[int], cause: str) -> list[int]:
        """Say of cards, by number, that they are taken from now on."""
        return [self.truth.open(self.uuids[card], cause) for card in cards]

    def recover_within(self, steps: int) -> None:
        """Go on for some steps with a part of the stack dead, then wait until all answers again."""
        self.healthy_at = self.number + steps

    def until_healthy(self) -> None:
        """Wait until the stack answers."""
        self.healthy_at = None
        self.stack.until_healthy()

    def tend(self) -> None:
        """Let what is due end, and two agents show signs of life."""
        for name in [name for name, cause in self.causes.items() if cause.due <= self.number]:
            self.end_trouble(name)
        if self.healthy_at is not None and self.healthy_at <= self.number:
            self.until_healthy()
        for place, sign in enumerate((Agent.beat, Agent.synchronise)):
            agent = self.agents[(self.number + place * AGENTS // 2) % AGENTS]
            if not agent.is_silent:
                sign(agent)
        for holder in [holder for holder in self.holders if self.ends[id(holder)] <= self.number]:
            self.end_holder(holder)

    def add_holder(self, holder: Holder, steps: int) -> None:
        """Keep a holder for at most some steps."""
        self.ends[id(holder)] = self.number + steps
        self.holders.append(holder)

    def end_holder(self, holder: Holder, *, politely: bool = False, spare_child: bool = False) -> None:
        """End a holder; a child that is spared ends when the holder's time is over."""
        if holder.main.poll() is None:
            end_holder(self.truth, holder, politely=politely, spare_child=spare_child)
        elif not spare_child:
            end_child(self.truth, holder)
        if not holder.members:
            self.holders.remove(holder)

    def leases(self) -> list[tuple[Agent, str]]:
        """Return what agents believe to hold."""
        return [(agent, lease) for agent in self.agents for lease in agent.leases]

    def holder_of(self, lease: str) -> Holder | None:
        """Return the holder whose main process was started with a lease and runs."""
        return next((each for each in self.holders if each.lease == lease and each.main.poll() is None), None)

    def lanes(self) -> list[dict[str, Any]]:
        """Return how the cards stand; nothing while the server does not answer."""
        rack = self.operator.call("GET", "/rack")
        return [] if rack is None else rack["hosts"][0]["cards"]

    def quiet(self) -> None:
        """Take every cause away and end every process."""
        for name in list(self.causes):
            self.end_trouble(name)
        for holder in list(self.holders):
            self.end_holder(holder)

    def close(self) -> None:
        """Leave no process behind, whatever happened."""
        with suppress(Exception):
            self.quiet()
        for holder in self.holders:
            holder.main.kill()


def choose(dice: float, among: Sequence[T]) -> T | None:
    """Choose by dice, None when there is nothing to choose from."""
    return among[int(dice * len(among))] if among else None
