"""`warploom wait`: blocks until a ticket's card is there or tasks are over, through restarts of everything else."""

import time
from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from warploom.cli.answers import end_line, queue_lines, tell_notices, ticket_lines
from warploom.cli.exits import Exit, table
from warploom.cli.options import Json
from warploom.cli.output import note, present
from warploom.cli.reach import Reach
from warploom.client.connection import Client
from warploom.client.holdings import Holdings, server_of
from warploom.domain.errors import MalformedInput, NotFound, WarploomError
from warploom.domain.grants import grant_lines
from warploom.domain.identifiers import parse_ticket, ticket_name
from warploom.domain.standings import Standing, TicketAnswer
from warploom.domain.tasks import AwaitAnswer, ReadyAnswer, TaskState

app = typer.Typer(rich_markup_mode=None)

T = TypeVar("T")

_POLL_SECONDS = 25.0


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
    watch = _Watch(Reach(), None if timeout is None else time.monotonic() + timeout * 60, patience * 60)
    if ready:
        return _show_ready(watch.until_ready(), as_json=as_json)
    if len(names) > 1:
        return _show_ends(watch.until_over(names, quiet=as_json), as_json=as_json)
    return _wait_for_one(watch, names[0], as_json=as_json)


class _Watch:
    """One waiting of a command: where to, until when, and how patient with a server that is away."""

    def __init__(self, reach: Reach, deadline: float | None, patience: float) -> None:
        self.reach = reach
        self.deadline = deadline
        self.patience = patience

    def until_over(self, names: list[str], *, quiet: bool) -> AwaitAnswer:
        """Return how tasks ended once all are over, or how they stand at the deadline."""
        answer = self.reach.call(lambda client: client.wait_tasks(names, 0))
        if answer.timed_out and not quiet:
            for task in answer.tasks:
                note(end_line(task))
        return self._poll(answer, lambda seen: seen.timed_out, lambda client, left: client.wait_tasks(names, left))

    def until_ready(self) -> ReadyAnswer:
        """Return what may be claimed once there is something, or nothing at the deadline."""
        answer = self.reach.call(lambda client: client.wait_ready(0))
        return self._poll(answer, lambda seen: not seen.tasks, lambda client, left: client.wait_ready(left))

    def _poll(self, answer: T, is_early: Callable[[T], bool], ask: Callable[[Client, float], T]) -> T:
        while is_early(answer):
            left = _POLL_SECONDS if self.deadline is None else self.deadline - time.monotonic()
            if left <= 0:
                return answer
            seconds = min(left, _POLL_SECONDS)
            answer = self.reach.insist(lambda client, seconds=seconds: ask(client, seconds), self.patience)
        return answer


def await_card(reach: Reach, ticket: str, deadline: float | None, patience: float, *, quiet: bool) -> TicketAnswer:
    """Return the ticket's standing once it no longer waits in a queue, or at the deadline with it still queued.

    A parked ticket goes back into its queue first.
    """
    answer = reach.call(lambda client: client.explain(ticket))
    if answer.state is Standing.PARKED:
        answer = reach.call(lambda client: client.wait(ticket, 0))
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


def _wait_for_one(watch: _Watch, name: str, *, as_json: bool) -> int:
    """Wait for a ticket's card; a task that waits for none, or is somebody else's, is waited for until it is over."""
    try:
        answer = await_card(watch.reach, name, watch.deadline, watch.patience, quiet=as_json)
    except NotFound as error:
        try:
            return _show_ends(watch.until_over([name], quiet=as_json), as_json=as_json)
        except NotFound:
            raise error from None
    is_over = answer.state is Standing.ENDED or (bool(grant_lines(answer)) and not _is_own(watch.reach, answer))
    if answer.is_task and is_over:
        return _show_ends(watch.until_over([name], quiet=as_json), as_json=as_json)
    present(answer, _lines(answer), as_json=as_json)
    return _code(answer)


def _is_own(reach: Reach, answer: TicketAnswer) -> bool:
    """Say whether a granted task is this session's, and then remember its lease; where nobody can be asked, it is."""
    if not answer.is_task or answer.lease is None:
        return True
    try:
        held = reach.client.me().leases
    except WarploomError:
        return True
    if all(each.lease != answer.lease for each in held):
        return False
    Holdings(reach.settings.home, server_of(reach.settings)).remember(answer.ticket, answer.lease, reach.caller)
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


def _show_ends(answer: AwaitAnswer, *, as_json: bool) -> int:
    late = ["The time given has passed; run it again to go on waiting."] if answer.timed_out else []
    present(answer, [*map(end_line, answer.tasks), *late], as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
    if answer.timed_out:
        return Exit.TIMED_OUT
    return Exit.DONE if all(task.state is TaskState.DONE for task in answer.tasks) else Exit.ENDED


def _show_ready(answer: ReadyAnswer, *, as_json: bool) -> int:
    from warploom.cli.task_answers import ready_lines

    present(answer, ready_lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
    return Exit.DONE if answer.tasks else Exit.TIMED_OUT
