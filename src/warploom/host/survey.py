"""Turns a look at the cards into the survey that the server is told."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version

from warploom.domain.card_rules import NO_TABLES
from warploom.domain.errors import ProviderMissing
from warploom.domain.hosts import Survey
from warploom.domain.limits import Limit, say_unread, without_unread
from warploom.host.card_rules import RulesFile, apply_rules
from warploom.host.probe import GpuProbe, Provider, Reading
from warploom.host.roster import Roster
from warploom.host.untold import Untold

_NO_PROVIDER = Provider("none", None)
_PROBLEM_LIMIT = 400
_VERSION = version("warploom")


def uptime() -> float:
    """Return seconds on a clock that never goes back and, where the system has one, goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Surveyor:
    """Makes surveys of one host; `interval` is how often it means to."""

    probe: GpuProbe
    interval: timedelta
    roster: Roster = field(default_factory=Roster)
    untold: Untold = field(default_factory=Untold)
    rules: RulesFile | None = None
    limits: Sequence[Limit] = ()

    def look(self) -> Survey:
        """Look at every card once. A missing provider is a survey too, without cards; how old it is, its teller says."""
        try:
            provider, reading = self.probe.describe(), self.probe.read()
        except ProviderMissing as missing:
            provider, reading = _NO_PROVIDER, Reading([], say_unread(self.limits) or str(missing))
        tables = NO_TABLES if self.rules is None else self.rules.read()
        listed = self.untold.add_to(self.roster.complete(reading))
        cards = [apply_rules(card, tables) for card in listed]
        problem = reading.problem if cards or reading.problem else f"the {provider.name} driver sees no card"
        return Survey(
            provider=provider.name,
            driver=provider.driver,
            version=_VERSION,
            interval_seconds=self.interval.total_seconds(),
            cards=cards,
            problem=None if problem is None else problem[:_PROBLEM_LIMIT],
            clock=time.time(),
            limits=[*(without_unread(self.limits) if provider is _NO_PROVIDER else self.limits)],
        )
