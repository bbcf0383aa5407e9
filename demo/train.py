"""Trains a small neural network on handwritten digits, as a job on a card: reports its steps, prints its accuracy.

Plain Python without numpy, so that it runs wherever Warploom does. The sums are computed by the processor; the card is
one of Warploom's fake ones, which this process takes up as CUDA would take up a real one.
"""

import argparse
import csv
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from pathlib import Path

import warploom
from warploom.host.fake_context import occupy

DATA = Path(__file__).with_name("digits.csv")
DIGITS = 10
BRIGHTEST = 16.0
HELD_OUT = 5  # one image in so many is not learned from

Vector = list[float]


@dataclass(frozen=True, slots=True)
class Example:
    """One image of 8 × 8 pixels from 0 to 1, with a constant behind them, and the digit it shows."""

    pixels: Vector
    digit: int


def read_examples(path: Path) -> list[Example]:
    """Read a table whose lines are 64 pixels from 0 to 16 and the digit."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        next(lines)
        return [Example([*(int(pixel) / BRIGHTEST for pixel in line[:-1]), 1.0], int(line[-1])) for line in lines]


class Network:
    """A perceptron with one hidden layer; each row of weights ends with the unit's bias."""

    def __init__(self, inputs: int, hidden: int, chance: random.Random) -> None:
        self._hidden = _weights(hidden, inputs, chance)
        self._output = _weights(DIGITS, hidden + 1, chance)

    def guess(self, pixels: Vector) -> int:
        """Return the likeliest digit."""
        _, likelihoods = self._look(pixels)
        return max(range(DIGITS), key=likelihoods.__getitem__)

    def learn(self, example: Example, rate: float) -> float:
        """Take one step of gradient descent and return the cross entropy before it."""
        active, likelihoods = self._look(example.pixels)
        errors = [likelihood - (digit == example.digit) for digit, likelihood in enumerate(likelihoods)]
        blame = [sum(map(mul, errors, column)) for column in zip(*self._output, strict=True)]
        slopes = [fault * (1.0 - unit * unit) for fault, unit in zip(blame, active[:-1], strict=False)]
        _descend(self._output, errors, active, rate)
        _descend(self._hidden, slopes, example.pixels, rate)
        return -math.log(max(likelihoods[example.digit], 1e-12))

    def _look(self, pixels: Vector) -> tuple[Vector, Vector]:
        active = [math.tanh(sum(map(mul, row, pixels))) for row in self._hidden]
        active.append(1.0)
        return active, _softmax([sum(map(mul, row, active)) for row in self._output])


def _weights(units: int, inputs: int, chance: random.Random) -> list[Vector]:
    spread = 1.0 / math.sqrt(inputs)
    return [[chance.gauss(0.0, spread) for _ in range(inputs)] for _ in range(units)]


def _softmax(scores: Vector) -> Vector:
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    whole = sum(powers)
    return [power / whole for power in powers]


def _descend(rows: list[Vector], slopes: Vector, inputs: Vector, rate: float) -> None:
    for number, slope in enumerate(slopes):
        step = rate * slope
        rows[number] = [weight - step * value for weight, value in zip(rows[number], inputs, strict=True)]


def accuracy(network: Network, examples: Sequence[Example]) -> float:
    """Return the share of examples that the network names rightly, from 0 to 1."""
    return sum(network.guess(example.pixels) == example.digit for example in examples) / len(examples)


def train(hidden: int, epochs: int, seed: int) -> float:
    """Train a network, report after each epoch, and return its accuracy on images it has never learned from."""
    chance = random.Random(seed)
    examples = read_examples(DATA)
    unseen = examples[::HELD_OUT]
    learning = [example for number, example in enumerate(examples) if number % HELD_OUT]
    network = Network(len(examples[0].pixels), hidden, chance)
    for epoch in range(1, epochs + 1):
        chance.shuffle(learning)
        loss = sum(network.learn(example, 0.02) for example in learning) / len(learning)
        warploom.report(epoch, epochs)
        right = accuracy(network, unseen)
        print(f"epoch {epoch}/{epochs} loss {loss:.4f} accuracy {right:.4f}", flush=True)
    return accuracy(network, unseen)


def main() -> None:
    """Take up the card, train, and say how good the network became."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hidden", type=int, default=24, help="units in the hidden layer")
    options.add_argument("--epochs", type=int, default=40, help="passes over the images")
    options.add_argument("--seed", type=int, default=1, help="where chance starts, so that a run can be repeated")
    options.add_argument("--memory-mib", type=int, default=18_900, help="memory to take up on the card")
    given = options.parse_args()
    with occupy(memory_mib=given.memory_mib):
        final = train(given.hidden, given.epochs, given.seed)
    print(f"final accuracy {final:.4f}", flush=True)


if __name__ == "__main__":
    main()
