"""`warploom up`, `down` and `daemon`: the whole local stack, started and stopped."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from warploom.cli.options import Json
from warploom.cli.output import emit, note, present, say
from warploom.config import Settings
from warploom.domain.errors import WarploomError
from warploom.domain.texts import spoken_list, spoken_memory

if TYPE_CHECKING:
    from warploom.domain.cards import HostLanes

app = typer.Typer(rich_markup_mode=None)

_MOST_NAMED = 8


@app.command(epilog="Example: WARPLOOM_FAKE_GPUS=2 warploom up")
def up(as_json: Json = False) -> None:
    """Start the local stack in the background, or find it running.

    That is Postgres, Valkey, the server and the host agent; settings that name a database or a Redis replace those two.
    """
    from warploom.embedded.stack import running_url, start

    settings = Settings.load()
    if settings.url is not None:
        note(f"WARPLOOM_URL is set: commands here speak to {settings.url}, not to the local stack.")
    info = start(settings)
    # Loaded only now, since the start would wait for it.
    from warploom.cli.presence import await_host
    from warploom.cli.ways import Way
    from warploom.client.cards import CardCalls

    url = running_url(settings) or info.url
    host = await_host(Way(CardCalls, settings, url=url))
    if as_json:
        emit({**asdict(info), "url": url, "host": host})
        return
    say([" · ".join(info.facts), f"Server   {url}   dashboard  {url}/dashboard", _host_line(host, settings.host_name)])
    say(["Next     warploom status · warploom init (in a project, to give your agents the tools)"])


@app.command(epilog="Example: warploom down")
def down(as_json: Json = False) -> None:
    """Stop the local stack.

    Says first what that means for those who hold cards and wait. Its data stays, and jobs that run on cards go on.
    """
    from warploom.embedded.stack import running_url, stop

    settings = Settings.load()
    url = running_url(settings)
    for line in _consequences(settings, url) if url else []:
        note(line)
    ran = stop(settings)
    kept = f"its data stays in {settings.home}, and jobs that run on cards go on"
    line = f"The local stack is stopped; {kept}." if ran else "No local stack was running."
    present({"stopped": ran, "home": str(settings.home)}, [line], as_json=as_json)


@app.command(epilog="Example: warploom daemon")
def daemon() -> int:
    """Run the local stack in the foreground.

    For service managers and containers; Ctrl-C or SIGTERM stops it.
    """
    from warploom.embedded.daemon import main

    return main([])


def _consequences(settings: Settings, url: str) -> list[str]:
    """Say what a stop means for whoever holds a card or waits; nothing where the server cannot tell any more."""
    from warploom.cli.ways import Way
    from warploom.client.cards import CardCalls

    try:
        rack = Way(CardCalls, settings, url=url).client.rack()
    except WarploomError:
        return []
    lanes = [lane for host in rack.hosts for lane in host.cards]
    held = [f"{lane.card} by {lane.holder.agent} ('{lane.holder.title}')" for lane in lanes if lane.holder is not None]
    lines: list[str] = []
    if held:
        more = [f"{len(held) - _MOST_NAMED} more"] if len(held) > _MOST_NAMED else []
        lines.append(
            f"Held now: {spoken_list([*held[:_MOST_NAMED], *more])}. What runs there goes on; nothing is killed."
        )
    if rack.waiting:
        who = "One ticket keeps its place" if rack.waiting == 1 else f"{rack.waiting} tickets keep their places"
        lines.append(f"{who}; nothing is granted before `warploom up`.")
    return lines


def _host_line(host: "HostLanes | None", name: str) -> str:
    if host is None:
        return f"Host     {name}: its host agent has not reported yet; `warploom doctor` says why"
    if host.problem:
        return f"Host     {name}: {host.problem}"
    models = ", ".join(f"{lane.model} {spoken_memory(lane.memory_mib)}" for lane in host.cards)
    count = "1 card" if len(host.cards) == 1 else f"{len(host.cards)} cards"
    driver = f", driver {host.driver}" if host.driver else ""
    limits = f"; fewer guarantees: {spoken_list(host.limits)} (`warploom doctor`)" if host.limits else ""
    return f"Host     {name}: {count}{f' ({models})' if models else ''}{driver}{limits}"
