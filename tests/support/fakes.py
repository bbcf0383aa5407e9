"""Fake cards in front of an App, without the threads of a host agent: they are scripted, looked at and told by hand."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from support.lab import Lab
from warploom.domain.cards import CardLane
from warploom.domain.limits import Limit
from warploom.host.card_rules import RulesFile
from warploom.host.fake import FakeProbe
from warploom.host.fake_cards import FakeCards, FakeProcess
from warploom.host.processes import ProcessBook
from warploom.host.survey import Surveyor


class FakeRack:
    """The fake cards of a host called local, whose surveys stay fresh for two minutes; a card may hang for two seconds."""

    def __init__(self, lab: Lab, home: Path, count: int = 2, limits: Sequence[Limit] = ()) -> None:
        self.lab = lab
        self.cards = FakeCards(home)
        self.config = home / "config.toml"
        probe = FakeProbe(self.cards, count, ProcessBook(), timedelta(seconds=2))
        self._surveyor = Surveyor(probe, timedelta(seconds=60), rules=RulesFile(self.config), limits=limits)

    async def look(self, times: int = 1) -> list[CardLane]:
        """Look at the cards and tell the App, so many times; return the lanes after the last look."""
        for _ in range(times):
            await self.lab.app.hosts.record_survey("local", self._surveyor.look())
        return (await self.lab.app.cards.survey()).hosts[0].cards

    def run(self, card: int, lease: str | None = None, memory_mib: int | None = 9000, **facts: Any) -> int:
        """Put an invented process on a card, with a lease's name in its environment or without; return its pid."""
        about = {"user": "ada", "command": "python train.py", "memory_mib": memory_mib, "lease": lease} | facts
        return self.cards.add_process(card, FakeProcess(**about))
