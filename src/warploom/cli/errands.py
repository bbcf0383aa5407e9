"""`warploom kill` and `probe`: what a host is asked to do, with a look at what that means and what came of it."""

import time
from collections.abc import Callable
from typing import Annotated, Final

import typer

from warploom.cli.cards import find_card
from warploom.cli.consent import Yes, stop_at
from warploom.cli.exits import Exit
from warploom.cli.options import CardName, Json, Lease
from warploom.cli.output import note, present, say
from warploom.cli.reach import Reach
from warploom.client.connection import Client
from warploom.domain.errands import (
    LAPSE_TIME,
    USUAL_GRACE_SECONDS,
    ErrandAnswer,
    ErrandKind,
    ErrandState,
    ErrandView,
    KillWish,
)
from warploom.domain.identifiers import lease_name, parse_lease

app = typer.Typer(rich_markup_mode=None)

_POLL_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = LAPSE_TIME.total_seconds() + 30.0
_Ask = Callable[[Client, bool], ErrandAnswer]


@app.command(epilog='Example: warploom kill L-42 --reason "it left workers on the card"')
def kill(
    lease: Lease,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why, for its holder, who is told.")],
    grace: Annotated[
        float, typer.Option("--grace", help="Seconds that each process gets to end by itself.", metavar="SECONDS")
    ] = USUAL_GRACE_SECONDS,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """End all processes of a lease, live or ended, on its host.

    Those that the last survey saw on its cards, and whatever there carries the lease in its environment or descends from these,
    is told to end (TERM) and after the grace killed (KILL). A process that merely has the number of a recorded one is left
    alone, and so are sessions' own programs. The lease itself is not touched. Shows what that means and asks first; with --json
    and without --yes it only shows. Waits for what came of it.
    """
    name, wish = lease_name(parse_lease(lease)), KillWish(reason, grace)
    return _run(lambda client, preview: client.kill(name, wish, preview=preview), yes, as_json)


@app.command(epilog="Example: warploom probe local/0")
def probe(
    card: CardName,
    reason: Annotated[str | None, typer.Option("--reason", "-r", help="Why, for the event log.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """See whether a card works by using it a little.

    Its host allocates a little memory on it and copies it there and back, only while nobody holds the card. A quarantined card that
    passes is back in service, unless it counts memory errors that nobody has excused; one that fails is quarantined. Shows what that
    means and asks first; with --json and without --yes it only shows. Waits for what came of it.
    """
    name = find_card(Reach(as_operator=True).call(lambda client: client.rack()), card)
    return _run(lambda client, preview: client.probe(name, reason, preview=preview), yes, as_json)


def _run(ask: _Ask, yes: bool, as_json: bool) -> int:
    reach = Reach(as_operator=True)
    if not yes:
        preview = reach.call(lambda client: ask(client, True))
        stop = stop_at(preview, _lines(preview), preview.about, as_json=as_json)
        if stop is not None:
            return stop
    asked = reach.call(lambda client: ask(client, False))
    assert asked.errand is not None
    if not as_json:
        say(_lines(asked))
    errand = _await(reach, asked.errand, quietly=as_json)
    present(errand, _outcome_lines(errand), as_json=as_json)
    return _exit(errand)


def _await(reach: Reach, errand: str, *, quietly: bool) -> ErrandView:
    """Wait until an errand is over, and say how far it is whenever that changes; it goes on whatever happens here."""
    give_up_at, told = time.monotonic() + _PATIENCE_SECONDS, ErrandState.ASKED
    while True:
        left = give_up_at - time.monotonic()
        seconds = max(0.0, min(_POLL_SECONDS, left)) if told is not ErrandState.ASKED else 1.0
        view = reach.insist(lambda client: client.errand(errand, seconds), _PATIENCE_SECONDS)  # noqa: B023  (called at once)
        if view.state.is_over or left <= 0:
            return view
        if view.state is not told and not quietly:
            note(f"{view.errand}: {view.text}.")
        told = view.state


def _exit(errand: ErrandView) -> int:
    if errand.is_success is None:
        return Exit.UNREACHABLE
    if errand.kind is ErrandKind.PROBE and not errand.is_success:
        return Exit.BAD
    return Exit.DONE if errand.is_success else Exit.REFUSED


def _lines(answer: ErrandAnswer) -> list[str]:
    head = f"{answer.errand}: {answer.host} is asked:" if answer.done else f"{answer.host} would be asked:"
    lines = [head, *(f"  - {consequence}" for consequence in answer.consequences)]
    return [*lines, answer.next] if answer.done else lines


def _outcome_lines(errand: ErrandView) -> list[str]:
    return [f"{errand.about}: {errand.text}.", *(f"  - {line}" for line in errand.lines)]
