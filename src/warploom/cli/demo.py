"""`warploom demo`: two agents share a card, for real, in a throw-away home."""

from typing import TYPE_CHECKING, Annotated

import typer

from warploom.cli.exits import Exit
from warploom.cli.options import Json
from warploom.cli.output import emit, refuse
from warploom.domain.errors import WarploomError

if TYPE_CHECKING:
    from warploom.demo.show import Show

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: warploom demo")
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the home with its logs; its stack is stopped.")] = False,
    scenario: Annotated[
        str | None,
        typer.Option("--scenario", help="What happens to the cards meanwhile; `warploom fake scenarios` lists."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Watch two agents share two fake cards, for real, in under a minute; leaves nothing running.

    One agent trains on card 0; the other asks for it too, waits, is woken and trains. Everything runs in a home of its
    own: your own stack and its cards are left alone. Ctrl-C ends it and tidies up.
    """
    from warploom.demo.faults import choose_scenario
    from warploom.demo.show import run

    chosen = None if scenario is None else choose_scenario(scenario)
    try:
        show = run(keep=keep, is_quiet=as_json, scenario=chosen)
    except WarploomError as error:
        refuse(error, as_json=as_json)
        return Exit.BAD
    if as_json:
        emit(_facts(show))
    return Exit.DONE


def _facts(show: "Show") -> dict[str, object]:
    began = show.began
    return {
        "seconds": round(show.seconds, 3),
        "wake_seconds": round(show.outcome.wake_seconds, 4),
        "runs": [
            {
                "agent": run.agent,
                "job": run.job,
                "ticket": run.ticket,
                "lease": run.lease,
                "card": run.card,
                "asked": round(run.asked_at - began, 3),
                "held": round(run.held_at - began, 3),
                "released": round(run.released_at - began, 3),
                "accuracy": run.accuracy,
            }
            for run in show.outcome.runs
        ],
        "left_running": [],
        "home": None if show.home is None else str(show.home),
        "timeline": [
            {
                "seconds": round(happening.clock - began, 3),
                "who": happening.who,
                "kind": happening.kind,
                "text": happening.text,
                "facts": happening.facts,
            }
            for happening in show.told
        ],
    }
