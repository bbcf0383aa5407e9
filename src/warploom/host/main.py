"""Starts the host agent of this machine."""

import logging
import signal
import sys
from types import FrameType

from warploom.client.connection import Client
from warploom.client.identity import server_url
from warploom.config import Settings
from warploom.domain.errors import MalformedInput
from warploom.domain.sessions import Caller, Role
from warploom.host.agent import HostAgent
from warploom.host.fake import FakeProbe
from warploom.host.fake_cards import FakeCards
from warploom.host.link import Link
from warploom.host.probe import GpuProbe
from warploom.host.processes import ProcessBook
from warploom.host.survey import Surveyor


def main() -> int:
    """Survey this machine's cards until SIGTERM or SIGINT; return the exit status."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        agent = build_agent(Settings.load())
    except MalformedInput as error:
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
    link = Link(lambda: Client(server_url(settings), caller, settings.key))
    return HostAgent(settings.host_name, Surveyor(choose_probe(settings), settings.survey_interval), link)


def choose_probe(settings: Settings) -> GpuProbe:
    """Return the fake cards when the settings ask for some, otherwise those of the NVIDIA driver."""
    book = ProcessBook()
    if settings.fake_gpus:
        return FakeProbe(FakeCards(settings.home), settings.fake_gpus, book)
    from warploom.host.nvml import NvmlProbe  # noqa: PLC0415  (5 MiB that fake cards do without)

    return NvmlProbe(book)
