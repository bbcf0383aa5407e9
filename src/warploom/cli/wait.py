"""`warploom wait`: blocks until a ticket's card is there or tasks are over, through restarts of everything else."""

import time
from typing import Annotated

import typer

from warploom.cli.answers import queue_lines, ticket_lines
from warploom.cli.exits import Exit, table
from warploom.cli.options import Json
from warploom.cli.output import present
from warploom.cli.waits import await_card
from warploom.cli.ways import Way
from warploom.client.holder import HolderClient
from warploom.domain.errors import MalformedInput, NotFound, WarploomError
from warploom.domain.grants import grant_lines
from warploom.domain.identifiers import parse_ticket, ticket_name
from warploom.domain.standings import Standing, TicketAnswer

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=f"Example: warploom wait T-17 --timeout 90{table()}")
def wait(
    tickets: Annotated[
        list[str] | None, typer.Argument(help="A ticket or task such as T-17, or several tasks.", metavar="TICKET")
    ] = None,
    ready: Annotated[bool, typer.Option("--ready", help="Wait until there is something to claim.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Give up after this many minutes.", metavar="MIN")
    ] = None,
    patience: Annotated[
        float, typer.Option("--patience", min=0, help="Minutes to go on while the server is away.", metavar="MIN")
    ] = 10,
    as_json: Json = False,
) -> int:
    """Wait for a ticket's card, for tasks to be over, or for work.

    For a ticket, then print the lease and the variables to export, and exit 0. It accepts nothing: the card is yours from
    the next call that names the lease, or when your job appears on the card. For tasks, print how they ended. Run it in
    the background and go on with something else. Ctrl-C ends the waiting and keeps the place.
    """
    names = [ticket_name(parse_ticket(each)) for each in tickets or []]
    if bool(names) == ready:
        raise MalformedInput("It is not clear what to wait for.", "Name a ticket or tasks, or give --ready alone.")
    deadline = None if timeout is None else time.monotonic() + timeout * 60
    waiting = _Waiting(Way(HolderClient), deadline, patience * 60, as_json=as_json)
    if ready:
        return waiting.until_ready()
    return waiting.until_over(names) if len(names) > 1 else waiting.for_one(names[0])


class _Waiting:
    """One waiting of a command: where to, until when, and how patient with a server that is away."""

    def __init__(self, way: Way[HolderClient], deadline: float | None, patience: float, *, as_json: bool) -> None:
        self._way = way
        self._deadline = deadline
        self._patience = patience
        self._as_json = as_json

    def for_one(self, name: str) -> int:
        """Wait for a ticket's card; a task that waits for none, or is somebody else's, is waited for until it is over."""
        try:
            answer = await_card(self._way, name, self._deadline, self._patience, quiet=self._as_json)
        except NotFound as error:
            try:
                return self.until_over([name])
            except NotFound:
                raise error from None
        is_over = answer.state is Standing.ENDED or (bool(grant_lines(answer)) and not _is_own(self._way, answer))
        if answer.is_task and is_over:
            return self.until_over([name])
        present(answer, _lines(answer), as_json=self._as_json)
        return _code(answer)

    def until_over(self, names: list[str]) -> int:
        """Wait until all these tasks are over."""
        from warploom.cli.task_waits import TaskWatch, show_ends

        watch = TaskWatch(self._way.widened(), self._deadline, self._patience)
        return show_ends(watch.until_over(names, quiet=self._as_json), as_json=self._as_json)

    def until_ready(self) -> int:
        """Wait until there is a task to claim."""
        from warploom.cli.task_waits import TaskWatch, show_ready

        watch = TaskWatch(self._way.widened(), self._deadline, self._patience)
        return show_ready(watch.until_ready(), as_json=self._as_json)


def _is_own(way: Way[HolderClient], answer: TicketAnswer) -> bool:
    """Say whether a granted task is this session's, and then remember its lease; where nobody can be asked, it is."""
    if not answer.is_task or answer.lease is None:
        return True
    from warploom.client.holdings import Holdings, server_of

    try:
        held = way.widened().client.me().leases
    except WarploomError:
        return True
    if all(each.lease != answer.lease for each in held):
        return False
    Holdings(way.settings.home, server_of(way.settings)).remember(answer.ticket, answer.lease, way.caller)
    return True


def _lines(answer: TicketAnswer) -> list[str]:
    if answer.state is not Standing.QUEUED:
        return ticket_lines(answer)
    kept = f"{answer.ticket} still waits, at place {answer.place or 'unknown'}, and keeps it"
    return [*queue_lines(answer), f"The time given has passed. {kept}; run `warploom wait {answer.ticket}` again."]


def _code(answer: TicketAnswer) -> Exit:
    if answer.state is Standing.QUEUED:
        return Exit.TIMED_OUT
    return Exit.DONE if grant_lines(answer) else Exit.ENDED
