"""`warploom status`: one screen that answers who holds what, how far along, and who waits; or one task, or a list."""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from warploom.cli.options import Json
from warploom.cli.output import emit, present, say
from warploom.cli.reach import Reach
from warploom.domain.cards import Rack
from warploom.domain.errors import MalformedInput, WarploomError
from warploom.domain.identifiers import parse_task, task_name

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(rich_markup_mode=None)

_REFRESH_SECONDS = 2.0


@app.command(epilog="Example: warploom status --watch, warploom status T-17, warploom status --filter failed")
def status(
    task: Annotated[str | None, typer.Argument(help="Show this task instead.", metavar="TASK")] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", "-f", help="List the tasks in this state instead, or in several.", metavar="STATE"),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many tasks at most.")] = 50,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Stay, and show every change.")] = False,
    as_json: Json = False,
) -> None:
    """Show who holds which card, how far along, and who waits.

    Each estimate carries its word: measured from reported steps, history, declared by somebody, or unknown. Given a task,
    show all there is to know about it; given a state, list the tasks in it.
    """
    reach = Reach()
    if sum((task is not None, filter_ is not None, watch)) > 1:
        raise MalformedInput("These cannot be shown together.", "Give a task, --filter or --watch.")
    if task is not None:
        _show_task(reach, task_name(parse_task(task)), as_json=as_json)
    elif filter_ is not None:
        from warploom.cli.tasks import show_list

        show_list(reach, filter_, limit, as_json=as_json)
    else:
        _show_rack(reach, watch=watch, as_json=as_json)


def _show_task(reach: Reach, name: str, *, as_json: bool) -> None:
    from warploom.cli.task_answers import task_lines

    answer = reach.call(lambda client: client.task(name))
    present(answer, task_lines(answer), as_json=as_json)


def _show_rack(reach: Reach, *, watch: bool, as_json: bool) -> None:
    rack = reach.call(lambda client: client.rack())
    if as_json:
        for seen in _changes(reach, rack) if watch else [rack]:
            emit(seen)
        return
    from rich.console import Console

    from warploom.cli.screen import screen

    console = Console(highlight=False, markup=False, emoji=False, width=shutil.get_terminal_size().columns)
    if not watch:
        console.print(screen(rack, console.width))
        _tell_project(reach)
    elif console.is_terminal:
        _stay(reach, rack, console)
    else:
        for seen in _changes(reach, rack):
            console.print(screen(seen, console.width))
            sys.stdout.flush()


def _tell_project(reach: Reach) -> None:
    """Add how far along the session's project is, where it has tasks."""
    from warploom.cli.task_answers import project_line

    try:
        projects = reach.client.projects().projects
    except WarploomError:
        return
    say(project_line(project) for project in projects if project.is_current and project.counts)


def _looks(reach: Reach, rack: Rack) -> Iterator[Rack]:
    yield rack
    while True:
        time.sleep(_REFRESH_SECONDS)
        yield reach.insist(lambda client: client.rack(), 600)


def _changes(reach: Reach, rack: Rack) -> Iterator[Rack]:
    """Yield the rack whenever something but its clock has changed."""
    before = None
    for seen in _looks(reach, rack):
        now = _timeless(seen)
        if now != before:
            yield seen
        before = now


def _timeless(rack: Rack) -> str:
    lanes = [
        (
            lane.card,
            lane.state,
            lane.holder and (lane.holder.lease, lane.holder.step),
            [reservation.reservation for reservation in lane.reservations],
            [place.ticket for place in lane.queue],
        )
        for host in rack.hosts
        for lane in host.cards
    ]
    return json.dumps(msgspec.to_builtins(lanes))


def _stay(reach: Reach, rack: Rack, console: "Console") -> None:
    from rich.live import Live

    from warploom.cli.screen import screen

    with Live(console=console, auto_refresh=False, screen=True) as live:
        for seen in _looks(reach, rack):
            live.update(screen(seen, console.size.width), refresh=True)
