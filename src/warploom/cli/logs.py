"""`warploom logs`: what one agent did, from the event log; or what the local stack's processes wrote."""

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from warploom.cli.events import show_event
from warploom.cli.options import Json
from warploom.cli.output import emit, say
from warploom.cli.reach import Reach
from warploom.config import Settings
from warploom.domain.errors import MalformedInput, NotFound

app = typer.Typer(rich_markup_mode=None)

_LOOK_SECONDS: Final = 0.2


@app.command(epilog="Example: warploom logs claude-1 --follow")
def logs(
    agent: Annotated[
        str | None, typer.Argument(help="An agent's name; everybody without one.", metavar="AGENT")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="How many lines at most.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens from now.")] = False,
    server: Annotated[bool, typer.Option("--server", help="The log file of this home's server.")] = False,
    host: Annotated[bool, typer.Option("--host", help="The log file of this home's host agent.")] = False,
    as_json: Json = False,
) -> None:
    """Print what an agent did, and follow it.

    Its events and those of its sessions, oldest first. With --server or --host the end of a log file of the local stack,
    which says why something does not run.
    """
    if (agent is not None) + server + host > 1:
        raise MalformedInput("That is more than one log.", "Name an agent, or --server, or --host.")
    if server or host:
        _show_file("server" if server else "host", limit, follow=follow, as_json=as_json)
    else:
        _show_agent(agent, limit, follow=follow, as_json=as_json)


def _show_agent(agent: str | None, limit: int, *, follow: bool, as_json: bool) -> None:
    reach = Reach()
    page = reach.call(lambda client: client.events(limit=limit, agent=agent))
    for event in page.events:
        show_event(event, as_json=as_json)
    if follow:
        for event in reach.client.event_stream(page.cursor, agent=agent):
            show_event(event, as_json=as_json)


def _show_file(name: str, limit: int, *, follow: bool, as_json: bool) -> None:
    from warploom.embedded.homes import Home

    path = Home.at(Settings.load().home).log(name)
    if not path.exists():
        raise NotFound(f"There is no {path}.", "`warploom up` starts the local stack, which writes it.")
    for line in _lines(path, limit, follow=follow):
        if as_json:
            emit({"log": name, "text": line})
        else:
            say([line])


def _lines(path: Path, limit: int, *, follow: bool) -> Iterator[str]:
    """Yield the last lines of a file, then, to follow it, what is added; one that was begun anew is read from its start."""
    with path.open("rb") as file:
        yield from map(_line, deque(file, maxlen=limit))
        while follow:
            if path.stat().st_size < file.tell():
                file.seek(0)
            yield from map(_line, file)
            time.sleep(_LOOK_SECONDS)


def _line(written: bytes) -> str:
    return written.decode(errors="replace").rstrip("\r\n")
