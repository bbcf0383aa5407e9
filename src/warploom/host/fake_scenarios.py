"""Scenarios: YAML files that tell what happens to fake cards and when, checked whole before anything is done."""

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml

from warploom.assets import asset_dir
from warploom.domain.errors import MalformedInput, NotFound
from warploom.host.fake_actions import MOST_CARDS, Action, Reset, Unclear, read_action
from warploom.host.fake_cards import FakeCards
from warploom.host.fake_times import read_seconds

log = logging.getLogger(__name__)

_LARGEST_BYTES: Final = 256 * 1024
_MOST_STEPS: Final = 1_000
_MOST_PROBLEMS: Final = 12
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")
_ENDINGS: Final = (".yaml", ".yml")
_KEYS: Final = ("name", "sentence", "cards", "steps")
_STEP_KEYS: Final = ("at", "action", "args")


@dataclass(frozen=True, slots=True)
class Step:
    """One action, so many seconds after the beginning."""

    at: float
    action: Action


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens to a number of cards; steps are in the order of their times."""

    name: str
    sentence: str
    cards: int
    steps: tuple[Step, ...]


def find_scenario(wanted: str) -> Scenario:
    """Return the scenario in a file, or the one of that name that ships with Warploom.

    Raises NotFound where there is none, and MalformedInput with everything that is wrong with it.
    """
    if wanted.endswith(_ENDINGS):
        return read_scenario(_text(Path(wanted).expanduser()), wanted)
    path = _shipped().get(wanted)
    if path is None:
        raise NotFound(
            f"There is no scenario {wanted[:80]!r}.", "`warploom fake scenarios` lists them; a file ends in .yaml."
        )
    return read_scenario(_text(path), path.name)


def shipped_scenarios() -> list[Scenario]:
    """Return the scenarios that ship with Warploom, by name."""
    return [read_scenario(_text(path), path.name) for path in _shipped().values()]


def read_scenario(text: str, source: str) -> Scenario:
    """Read a scenario; raise MalformedInput with everything that is wrong with it."""
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = " ".join(str(error).split())
        raise MalformedInput(f"{source} is not YAML: {where}.", "Mend that place and try again.") from None
    reading = _Reading()
    scenario = reading.scenario(content)
    if reading.problems:
        more = len(reading.problems) - _MOST_PROBLEMS
        told = [*reading.problems[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
        raise MalformedInput(
            f"{source} is no scenario: {'; '.join(told)}.",
            "Mend all of that; `warploom fake play --check FILE` reads it again and changes nothing.",
        )
    return scenario


class Player:
    """Plays one scenario on the cards of a home; `tell` hears each step once it is done."""

    def __init__(self, scenario: Scenario, cards: FakeCards, tell: Callable[[float, Action, str], None]) -> None:
        self._scenario = scenario
        self._cards = cards
        self._tell = tell
        self._stopping = threading.Event()

    def play(self) -> None:
        """Let the cards behave well, then take each step at its time, unless it is stopped; what is done stays."""
        began = time.monotonic()
        self._do(0, Reset())
        for step in self._scenario.steps:
            if self._stopping.wait(max(0.0, began + step.at - time.monotonic())):
                return
            self._do(step.at, step.action)

    def stop(self) -> None:
        """Let no further step be taken."""
        self._stopping.set()

    def _do(self, at: float, action: Action) -> None:
        self._tell(at, action, action.apply(self._cards))


def play_beside(scenario: Scenario, cards: FakeCards) -> threading.Thread:
    """Play a scenario on a thread of its own, and log each step; it ends with the process at the latest."""

    def tell(at: float, _action: Action, text: str) -> None:
        log.info("scenario %s, %g s: %s", scenario.name, at, text)

    thread = threading.Thread(target=Player(scenario, cards, tell).play, name="scenario", daemon=True)
    thread.start()
    return thread


class _Reading:
    """Reads what a file holds, and goes on after a problem, so that all of them are named."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def scenario(self, content: Any) -> Scenario:
        table = self._table(content, "it", _KEYS)
        name, sentence, cards = table.get("name"), table.get("sentence"), table.get("cards", 1)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self.problems.append("name must be lower-case words with dashes between")
        if not isinstance(sentence, str) or not 10 <= len(sentence.strip()) <= 300:
            self.problems.append("sentence must say in 10 to 300 characters what happens")
        if not isinstance(cards, int) or isinstance(cards, bool) or not 1 <= cards <= MOST_CARDS:
            self.problems.append(f"cards must be a number from 1 to {MOST_CARDS}")
            cards = MOST_CARDS
        steps = table.get("steps")
        if not isinstance(steps, list) or not 1 <= len(cast("list[Any]", steps)) <= _MOST_STEPS:
            self.problems.append(f"steps must be a list of 1 to {_MOST_STEPS:,}")
            steps = []
        numbered = enumerate(cast("list[Any]", steps), 1)
        found = [step for number, each in numbered if (step := self._step(each, f"step {number}", cards))]
        ordered = tuple(sorted(found, key=lambda step: step.at))
        return Scenario(str(name), " ".join(str(sentence).split()), cards, ordered)

    def _step(self, content: Any, where: str, cards: int) -> Step | None:
        before = len(self.problems)
        table = self._table(content, where, _STEP_KEYS)
        if not isinstance(content, Mapping):
            return None
        at = self._moment(table.get("at", 0), where)
        action = self._action(table.get("action"), table.get("args") or {}, where)
        problem = None if action is None else action.problem(cards)
        if problem is not None:
            self.problems.append(f"{where}: {problem}")
        return None if action is None or len(self.problems) > before else Step(at, action)

    def _table(self, content: Any, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(content, Mapping):
            self.problems.append(f"{where} must be a table of {', '.join(keys)}")
            return {}
        table = {str(key): value for key, value in cast("Mapping[Any, Any]", content).items()}
        self.problems += [f"{where} has no {key!r}, only {', '.join(keys)}" for key in table if key not in keys]
        return table

    def _moment(self, written: object, where: str) -> float:
        try:
            return read_seconds(written)
        except ValueError as error:
            self.problems.append(f"{where}: at is {str(written)[:40]!r}: {error}")
            return 0

    def _action(self, name: object, arguments: object, where: str) -> Action | None:
        if not isinstance(name, str) or not isinstance(arguments, Mapping):
            self.problems.append(f"{where} needs an action by name, and args as a table")
            return None
        try:
            return read_action(name, {str(key): each for key, each in cast("Mapping[Any, Any]", arguments).items()})
        except Unclear as unclear:
            self.problems += [f"{where}: {problem}" for problem in unclear.problems]
            return None


def _shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted(asset_dir("scenarios").glob("*.yaml"))}


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise MalformedInput(f"{path} is larger than {_LARGEST_BYTES >> 10} KiB.", "Name a file with a scenario.")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.", "Name a file with a scenario.") from None
    except UnicodeDecodeError:
        raise MalformedInput(f"{path} is not UTF-8.", "Write the scenario as UTF-8.") from None
