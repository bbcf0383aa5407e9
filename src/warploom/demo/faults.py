"""What happens to the cards beside a demo: a scenario, played from the moment that the first agent has its card."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from warploom.demo.happenings import Happening, Kind, now
from warploom.demo.stage import CARDS
from warploom.domain.errors import Impossible
from warploom.host.fake_actions import Action, Ecc, Reset
from warploom.host.fake_cards import FakeCards
from warploom.host.fake_scenarios import Player, Scenario, find_scenario

_LONGEST_SECONDS: Final = 180.0


def choose_scenario(wanted: str) -> Scenario:
    """Find a scenario for the demo; raise Impossible for one that its two agents could not come through."""
    scenario = find_scenario(wanted)
    elsewhere = "Play it with `warploom fake play` on a home with fake cards of its own."
    if scenario.cards > CARDS:
        raise Impossible(f"{scenario.name} needs {scenario.cards} cards; the demo has {CARDS}.", elsewhere)
    if any(isinstance(step.action, Ecc) and step.action.errors for step in scenario.steps):
        raise Impossible(f"{scenario.name} lets jobs fail, and the demo's two must succeed.", elsewhere)
    return scenario


class Faults:
    """One scenario on the cards of a demo's home; each step is heard once it is done."""

    def __init__(self, scenario: Scenario, home: Path, hear: Callable[[Happening], None]) -> None:
        self.seconds = min(scenario.steps[-1].at, _LONGEST_SECONDS)
        """How much longer a demo may take because of it."""
        self._cards = FakeCards(home)
        self._hear = hear
        self._player = Player(scenario, self._cards, self._tell)
        self._playing: threading.Thread | None = None

    def begin(self) -> None:
        """Play it on a thread of its own."""
        self._playing = threading.Thread(target=self._player.play, name="scenario", daemon=True)
        self._playing.start()

    def end(self) -> None:
        """Play no further step, and let every card behave well; doing it twice is fine."""
        if self._playing is None:
            return
        self._player.stop()
        self._playing.join()
        self._playing = None
        self._tell(0, Reset(), Reset().apply(self._cards))

    def _tell(self, _at: float, _action: Action, text: str) -> None:
        self._hear(now("cards", Kind.RACK, text))
