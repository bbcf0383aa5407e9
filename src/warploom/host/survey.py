"""Turns a look at the cards into the survey that the server is told."""

import time
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version

from warploom.domain.errors import ProviderMissing
from warploom.domain.hosts import Survey
from warploom.host.probe import GpuProbe, Provider, Reading
from warploom.host.roster import Roster

_NO_PROVIDER = Provider("none", None)
_VERSION = version("warploom")


@dataclass(frozen=True, slots=True)
class Surveyor:
    """Makes surveys of one host; `interval` is how often it means to."""

    probe: GpuProbe
    interval: timedelta
    roster: Roster = field(default_factory=Roster)

    def look(self) -> Survey:
        """Look at every card once. A missing provider is a survey too, without cards."""
        try:
            provider, reading = self.probe.describe(), self.probe.read()
        except ProviderMissing as missing:
            provider, reading = _NO_PROVIDER, Reading([], str(missing))
        cards = self.roster.complete(reading)
        return Survey(
            provider=provider.name,
            driver=provider.driver,
            version=_VERSION,
            interval_seconds=self.interval.total_seconds(),
            cards=cards,
            problem=reading.problem if cards or reading.problem else f"the {provider.name} driver sees no card",
            clock=time.time(),
        )
