"""Waiting for a ticket's card, the same in `warploom wait` and `warploom run`."""

import time
from collections.abc import Callable

from warploom.cli.answers import queue_lines
from warploom.cli.output import note
from warploom.cli.ways import Way
from warploom.client.holder import HolderClient
from warploom.domain.errors import Busy, Unreachable
from warploom.domain.standings import Standing, TicketAnswer

POLL_SECONDS = 25.0


def await_card(
    way: Way[HolderClient], ticket: str, deadline: float | None, patience: float, *, quiet: bool
) -> TicketAnswer:
    """Return the ticket's standing once it no longer waits in a queue, or at the deadline with it still queued.

    A parked ticket goes back into its queue first. A server that is away is waited for from the first call on.
    """
    answer = _ask(way, lambda client: client.explain(ticket), patience)
    if answer.state is Standing.PARKED:
        answer = _ask(way, lambda client: client.wait(ticket, 0), patience)
    if answer.state is Standing.QUEUED and not quiet:
        for line in queue_lines(answer):
            note(line)
    while answer.state is Standing.QUEUED:
        left = POLL_SECONDS if deadline is None else deadline - time.monotonic()
        if left <= 0:
            return answer
        seconds = min(left, POLL_SECONDS)
        answer = way.insist(lambda client, seconds=seconds: client.wait(ticket, seconds), patience)
    return answer


def _ask(way: Way[HolderClient], question: Callable[[HolderClient], TicketAnswer], patience: float) -> TicketAnswer:
    """Ask, starting the local stack where none runs, and again for `patience` seconds where that was not enough."""
    try:
        return way.call(question)
    except (Unreachable, Busy):
        if patience <= 0:
            raise
        return way.insist(question, patience)
