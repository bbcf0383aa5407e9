"""The draw: which steps a seed means, whatever becomes of them."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

MEAN_PAUSE_SECONDS = 0.03


@dataclass(frozen=True, slots=True)
class Draw:
    """One intended step: its kind, the dice that choose what it is done to, and the wait before it."""

    number: int
    kind: str
    dice: tuple[float, float, float]
    pause: float


def draw_steps(seed: int, count: int, weights: Mapping[str, float]) -> list[Draw]:
    """Draw steps by weight; the same seed draws the same."""
    chance = random.Random(seed)
    kinds, odds = list(weights), list(weights.values())
    return [
        Draw(
            number,
            chance.choices(kinds, odds)[0],
            (chance.random(), chance.random(), chance.random()),
            min(0.5, chance.expovariate(1 / MEAN_PAUSE_SECONDS)),
        )
        for number in range(1, count + 1)
    ]
