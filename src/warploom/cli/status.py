"""`warploom status`: one screen that answers who holds what, how far along, and who waits."""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from warploom.cli.options import Json
from warploom.cli.output import emit
from warploom.cli.reach import Reach
from warploom.domain.cards import Rack

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(rich_markup_mode=None)

_REFRESH_SECONDS = 2.0


@app.command(epilog="Example: warploom status --watch")
def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Stay, and show every change.")] = False,
    as_json: Json = False,
) -> None:
    """Show who holds which card, how far along, and who waits.

    Each estimate carries its word: measured from reported steps, history, declared by somebody, or unknown.
    """
    reach = Reach()
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
    elif console.is_terminal:
        _stay(reach, rack, console)
    else:
        for seen in _changes(reach, rack):
            console.print(screen(seen, console.width))
            sys.stdout.flush()


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
