"""Starts the host agent of this machine."""

import logging
import signal
import sys
from types import FrameType

from warploom.client.hosts import HostCalls
from warploom.client.identity import server_url
from warploom.config import Settings
from warploom.domain.callers import Caller, Role
from warploom.domain.errors import MalformedInput, WarploomError
from warploom.host.agent import HostAgent
from warploom.host.card_rules import RulesFile
from warploom.host.fake import FakeProbe
from warploom.host.fake_cards import FakeCards
from warploom.host.limits import find_limits
from warploom.host.link import Link
from warploom.host.probe import GpuProbe
from warploom.host.processes import ProcessBook
from warploom.host.survey import Surveyor


def main() -> int:
    """Survey this machine's cards until SIGTERM or SIGINT; return the exit status."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        agent = build_agent(Settings.load())
    except WarploomError as error:
        sys.stderr.write(f"{error}\n")
        return 2

    def end(_signal: int, _frame: FrameType | None) -> None:
        agent.stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    agent.run()
    return 0


def build_agent(settings: Settings) -> HostAgent:
    """Put the agent of these settings together."""
    caller = Caller(role=Role.HOST, host=settings.host_name)
    link = Link(lambda: HostCalls(server_url(settings), caller, settings.key))
    rules = RulesFile(settings.home / "config.toml")
    # Fake cards know every process that uses them, wherever this runs.
    limits = [] if settings.fake_gpus or settings.fake_scenario else find_limits()
    surveyor = Surveyor(choose_probe(settings), settings.survey_interval, rules=rules, limits=limits)
    return HostAgent(settings.host_name, surveyor, link)


def choose_probe(settings: Settings) -> GpuProbe:
    """Return the fake cards when the settings ask for some, otherwise those of the NVIDIA driver."""
    book = ProcessBook()
    if settings.fake_scenario is not None:
        return _stage(settings.fake_scenario, settings, book)
    if settings.fake_gpus:
        return FakeProbe(FakeCards(settings.home), settings.fake_gpus, book)
    from warploom.host.nvml import NvmlProbe  # noqa: PLC0415  (5 MiB that fake cards do without)

    return NvmlProbe(book)


def _stage(wanted: str, settings: Settings, book: ProcessBook) -> FakeProbe:
    """Return fake cards that play a scenario from now on; raise WarploomError when there is no such scenario for them."""
    from warploom.host.fake_scenarios import find_scenario, play_beside  # noqa: PLC0415  (YAML, for scenarios alone)

    scenario = find_scenario(wanted)
    count = settings.fake_gpus or scenario.cards
    if count < scenario.cards:
        raise MalformedInput(
            f"The scenario {scenario.name} needs {scenario.cards} cards, and WARPLOOM_FAKE_GPUS is {count}.",
            "Leave WARPLOOM_FAKE_GPUS out: the scenario brings its own cards.",
        )
    cards = FakeCards(settings.home)
    probe = FakeProbe(cards, count, book)
    play_beside(scenario, cards)
    return probe
