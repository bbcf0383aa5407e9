"""`warploom wait`: blocks until a ticket's card is there, through restarts of everything else."""

import time
from typing import Annotated

import typer

from warploom.cli.answers import queue_lines, ticket_lines
from warploom.cli.exits import Exit, table
from warploom.cli.options import Json, Ticket
from warploom.cli.output import note, present
from warploom.cli.reach import Reach
from warploom.domain.grants import grant_lines
from warploom.domain.identifiers import parse_ticket, ticket_name
from warploom.domain.tickets import Standing, TicketAnswer

app = typer.Typer(rich_markup_mode=None)

_POLL_SECONDS = 25.0


@app.command(epilog=f"Example: warploom wait T-17 --timeout 90{table()}")
def wait(
    ticket: Ticket,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Give up after this many minutes.", metavar="MIN")
    ] = None,
    patience: Annotated[
        float, typer.Option("--patience", min=0, help="Minutes to go on while the server is away.", metavar="MIN")
    ] = 10,
    as_json: Json = False,
) -> int:
    """Wait until a ticket's card is ready.

    Then print the lease and the variables to export, and exit 0. Run it in the background and go on with something else.
    It accepts nothing: the card is yours from the next call that names the lease, or when your job appears on the card.
    Ctrl-C ends the waiting and keeps the place.
    """
    name = ticket_name(parse_ticket(ticket))
    deadline = None if timeout is None else time.monotonic() + timeout * 60
    answer = await_card(Reach(), name, deadline, patience * 60, quiet=as_json)
    present(answer, _lines(answer), as_json=as_json)
    return _code(answer)


def await_card(reach: Reach, ticket: str, deadline: float | None, patience: float, *, quiet: bool) -> TicketAnswer:
    """Return the ticket's standing once it no longer waits in a queue, or at the deadline with it still queued."""
    answer = reach.call(lambda client: client.explain(ticket))
    if answer.state is Standing.QUEUED and not quiet:
        for line in queue_lines(answer):
            note(line)
    while answer.state is Standing.QUEUED:
        left = _POLL_SECONDS if deadline is None else deadline - time.monotonic()
        if left <= 0:
            return answer
        seconds = min(left, _POLL_SECONDS)
        answer = reach.insist(lambda client, seconds=seconds: client.wait(ticket, seconds), patience)
    return answer


def _lines(answer: TicketAnswer) -> list[str]:
    if answer.state is not Standing.QUEUED:
        return ticket_lines(answer)
    kept = f"{answer.ticket} still waits, at place {answer.place or 'unknown'}, and keeps it"
    return [*queue_lines(answer), f"The time given has passed. {kept}; run `warploom wait {answer.ticket}` again."]


def _code(answer: TicketAnswer) -> Exit:
    if answer.state is Standing.QUEUED:
        return Exit.TIMED_OUT
    return Exit.DONE if grant_lines(answer) else Exit.ENDED
