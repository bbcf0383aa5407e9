"""`warploom reserve`, `reservations` and `unreserve`: a named card for a window of time."""

from datetime import datetime
from typing import Annotated

import typer

from warploom.cli.answers import tell_notices
from warploom.cli.columns import table, terminal_width
from warploom.cli.consent import Yes, stop_at
from warploom.cli.exits import Exit
from warploom.cli.moments import read_minutes, read_moment, reservation_text, window_text
from warploom.cli.options import CardName, Json
from warploom.cli.output import present
from warploom.cli.reach import Reach
from warploom.domain.identifiers import parse_reservation, reservation_name
from warploom.domain.reservations import ReservationAnswer, ReservationView, ReservationWish

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog='Example: warploom reserve 0 --from 18:00 --for 2h --title "ablation sweep"')
def reserve(
    card: CardName,
    length: Annotated[str, typer.Option("--for", help="How long: 2h, 90min or 1h30; at most a day.", metavar="LENGTH")],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="When: now, 18:00 (your clock, the next one), +90min, or a date and time such as 2026-03-01T18:00.",
            metavar="WHEN",
        ),
    ] = "now",
    title: Annotated[str | None, typer.Option("--title", "-t", help="What for, in a few words.")] = None,
    as_json: Json = False,
) -> None:
    """Reserve a named card for a window of time.

    In the window the card is granted to your own requests alone, and they go first there. Before it, others are granted the
    card only for a run whose minutes they declare and that ends in time. Nobody is stopped: who still runs at its start goes
    on, and is told. Reserving holds nothing by itself: ask with `warploom run` or `warploom request` when you want to start.
    """
    wish = ReservationWish(card, read_minutes(length), read_moment(start, datetime.now().astimezone()), title)
    answer = Reach().call(lambda client: client.reserve(wish))
    present(answer, _lines("reserved", answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)


@app.command(epilog="Example: warploom reservations --json")
def reservations(as_json: Json = False) -> None:
    """List which cards are reserved for whom, now and in the days to come."""
    found = Reach().call(lambda client: client.reservations())
    rows = [_row(each) for each in found]
    present(found, table(rows, 4, terminal_width()) or ["No card is reserved."], as_json=as_json)


@app.command(epilog="Example: warploom unreserve R-3")
def unreserve(
    reservation: Annotated[str, typer.Argument(help="A reservation such as R-3.", metavar="RESERVATION")],
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Give a reservation up.

    Your own at once. Operators may give up anybody's, whose owner is told: that shows what it means and asks first; with
    --json and without --yes it only shows.
    """
    name = reservation_name(parse_reservation(reservation))
    reach = Reach(as_operator=True)
    if not yes:
        preview = reach.call(lambda client: client.unreserve(name, preview=True))
        if not preview.is_own:
            about = f"{name} of {preview.reservation.agent}"
            stop = stop_at(preview, _lines("would give up", preview), about, as_json=as_json)
            if stop is not None:
                return stop
    answer = reach.call(lambda client: client.unreserve(name, preview=False))
    present(answer, _lines("gave up", answer), as_json=as_json)
    return Exit.DONE


def _lines(word: str, answer: ReservationAnswer) -> list[str]:
    head = f"{word} {reservation_text(answer.reservation)}"
    return [head, *(f"  - {consequence}" for consequence in answer.consequences), f"{'next':<8}{answer.next}"]


def _row(view: ReservationView) -> list[str]:
    return [
        view.reservation,
        view.card,
        view.agent,
        _window(view) + (" (now)" if view.is_current else ""),
        view.title or "",
    ]


def _window(view: ReservationView) -> str:
    return window_text(view.starts_at, view.ends_at, datetime.now().astimezone())
