"""`warploom events`: the log of everything that happened, and its live end."""

from typing import Annotated

import typer

from warploom.cli.options import Json
from warploom.cli.output import emit, say
from warploom.cli.reach import Reach
from warploom.domain.events import EventView

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: warploom events --follow")
def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens from now.")] = False,
    after: Annotated[
        str | None, typer.Option("--after", help="Start right after this cursor.", metavar="CURSOR")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many lines at most.")] = 20,
    mine: Annotated[bool, typer.Option("--mine", help="With --follow: only what concerns this session.")] = False,
    as_json: Json = False,
) -> None:
    """Print the latest events, and follow what happens.

    Oldest first; with --json one object a line, each with the cursor to go on from.
    """
    reach = Reach()
    page = reach.call(lambda client: client.events(after, limit))
    for event in page.events:
        show_event(event, as_json=as_json)
    if follow:
        for event in reach.client.event_stream(page.cursor, mine=mine):
            show_event(event, as_json=as_json)


def show_event(event: EventView, *, as_json: bool) -> None:
    """Print one line of the log as a sentence or as an object."""
    if as_json:
        emit(event)
    else:
        names = " ".join(name for name in (event.ticket, event.lease) if name)
        say([f"{event.at.astimezone():%Y-%m-%d %H:%M:%S}  {event.kind.value:<17}  {names:<12}  {event.text}"])
