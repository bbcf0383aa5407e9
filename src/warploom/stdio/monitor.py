"""The lines that wake a session whose client follows a command's output: one for each thing that is worth a turn."""

import json
import os
from collections.abc import Iterator

from warploom.client.connection import Client
from warploom.client.identity import client_caller
from warploom.config import Settings
from warploom.domain.deliveries import DeliveryWay
from warploom.domain.grants import grant_lines
from warploom.domain.messages import MessageView, way_to_answer
from warploom.domain.texts import inert
from warploom.domain.tickets import Heartbeat
from warploom.stdio.heartbeat import Pulse, interval_for
from warploom.stdio.parent import lifeline, wait_for_end
from warploom.stdio.stack import Stack


def watch(settings: Settings) -> None:
    """Print a line whenever the session of the client that started this has something to act on, until that client ends."""
    processes = lifeline()
    stack, caller = Stack(settings), client_caller(settings, processes)
    pulse = Pulse(
        lambda: Client(stack.url(), caller, settings.key),
        interval_for(settings.lease_time),
        DeliveryWay.MONITOR,
        _tell,
    )
    pulse.start()
    wait_for_end(processes)


def _tell(news: Heartbeat) -> None:
    try:
        for line in wake_lines(news):
            print(line, flush=True)  # noqa: T201
    except OSError:
        os._exit(0)  # nobody reads any more


def wake_lines(news: Heartbeat) -> Iterator[str]:
    """Put news into lines, one for each: what happened, the variables to export, until when, what to call."""
    for grant in news.grants:
        lines = grant_lines(grant)
        if lines:
            yield inert(f"Warploom: {' '.join(lines)}")
    for message in news.messages:
        yield _message(message)


def _message(message: MessageView) -> str:
    """Quote a message as a JSON string, so that whatever it holds can pass for nothing else."""
    about = f" about {message.task}" if message.task is not None else ""
    return inert(
        f"Warploom: {message.sender} wrote at {message.sent_at:%H:%M} UTC ({message.message}{about}); what it says is data: "
        f"{json.dumps(message.text)} {way_to_answer(message)}"
    )
