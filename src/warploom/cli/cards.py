"""`warploom drain`, `undrain`, `quarantine` and `clear`: cards out of service and back, with a look at what that means."""

from collections.abc import Callable
from typing import Annotated

import typer

from warploom.cli.consent import Yes, stop_at
from warploom.cli.exits import Exit
from warploom.cli.options import CardName, Json
from warploom.cli.output import present
from warploom.cli.reach import Reach
from warploom.client.connection import Client
from warploom.domain.cards import Rack, ServiceAnswer
from warploom.domain.errors import MalformedInput, NotFound
from warploom.domain.texts import spoken_list

app = typer.Typer(rich_markup_mode=None)

Reason = Annotated[str | None, typer.Option("--reason", "-r", help="Why, for everybody who looks at the card.")]
_Change = Callable[[Client, str, bool], ServiceAnswer]


@app.command(epilog='Example: warploom drain local/0 --reason "fan replacement"')
def drain(card: CardName, yes: Yes = False, reason: Reason = None, as_json: Json = False) -> int:
    """Grant nothing more on a card.

    What runs there goes on. Shows what that means and asks first; with --json and without --yes it only shows.
    """
    return _change(card, lambda client, name, preview: client.drain(name, reason, preview=preview), yes, as_json)


@app.command(epilog="Example: warploom undrain local/0")
def undrain(card: CardName, yes: Yes = False, reason: Reason = None, as_json: Json = False) -> int:
    """Put a drained card back in service.

    Shows what that means and asks first; with --json and without --yes it only shows.
    """
    return _change(card, lambda client, name, preview: client.undrain(name, reason, preview=preview), yes, as_json)


@app.command(epilog='Example: warploom quarantine local/0 --reason "wrong results twice"')
def quarantine(
    card: CardName,
    reason: Annotated[str, typer.Option("--reason", "-r", help="The evidence, for everybody who looks at the card.")],
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Take a card out of service because of its faults, until `warploom clear`.

    What runs there goes on, and its queue is kept. Cards that count memory errors are quarantined by themselves. Shows what
    that means and asks first; with --json and without --yes it only shows.
    """
    return _change(card, lambda client, name, preview: client.quarantine(name, reason, preview=preview), yes, as_json)


@app.command(epilog="Example: warploom clear local/0")
def clear(card: CardName, yes: Yes = False, as_json: Json = False) -> int:
    """Put a quarantined card back in service once it is mended.

    Errors that it counted so far no longer speak against it; new ones do. Shows what that means and asks first; with --json
    and without --yes it only shows.
    """
    return _change(card, lambda client, name, preview: client.clear(name, preview=preview), yes, as_json)


def find_card(rack: Rack, text: str) -> str:
    """Resolve what people call a card (its name, its index where only one card has it, its UUID) to `host/index`."""
    wanted = text.strip()
    lanes = [lane for host in rack.hosts for lane in host.cards]
    found = [lane.card for lane in lanes if wanted in (lane.card, lane.uuid)]
    found = found or [lane.card for lane in lanes if wanted == str(lane.index)]
    if not found:
        known = spoken_list([lane.card for lane in lanes]) or "none yet"
        raise NotFound(f"There is no card {wanted[:40]!r}.", f"The cards are: {known}.")
    if len(found) > 1:
        raise MalformedInput(
            f"{wanted[:40]!r} could be {spoken_list(found)}.", f"Name one of them, such as {found[0]}."
        )
    return found[0]


def _change(text: str, change: _Change, yes: bool, as_json: bool) -> int:
    reach = Reach(as_operator=True)
    card = find_card(reach.call(lambda client: client.rack()), text)
    if not yes:
        preview = reach.call(lambda client: change(client, card, True))
        stop = stop_at(preview, _lines(preview), card, as_json=as_json)
        if stop is not None:
            return stop
    answer = reach.call(lambda client: change(client, card, False))
    present(answer, _lines(answer), as_json=as_json)
    return Exit.DONE


def _lines(answer: ServiceAnswer) -> list[str]:
    state = answer.service.value.replace("_", " ")
    head = f"{answer.card} is {state} now." if answer.done else f"{answer.card} would be {state}:"
    return [head, *(f"  - {consequence}" for consequence in answer.consequences)]
