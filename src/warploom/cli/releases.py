"""`warploom force-release`: an operator ends the record of somebody's lease, with a look at what that means."""

from typing import Annotated

import typer

from warploom.cli.consent import Yes, stop_at
from warploom.cli.exits import Exit
from warploom.cli.options import Json, Lease
from warploom.cli.output import present
from warploom.cli.reach import Reach
from warploom.domain.identifiers import lease_name, parse_lease
from warploom.domain.leases import ForcedAnswer

app = typer.Typer(rich_markup_mode=None)


@app.command("force-release", epilog='Example: warploom force-release L-42 --reason "its owner is on holiday"')
def force_release(
    lease: Lease,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why, for its holder, who is told.")],
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """End the record of somebody's lease.

    Nothing is killed: what its holder started runs on, and the card stays taken until it is observed clear. A request for cards ends
    as failed; a task may be claimed by anybody again. Shows what that means and asks first; with --json and without --yes it only
    shows.
    """
    name, reach = lease_name(parse_lease(lease)), Reach(as_operator=True)
    if not yes:
        preview = reach.call(lambda client: client.force_release(name, reason, preview=True))
        stop = stop_at(preview, _lines(preview), name, as_json=as_json)
        if stop is not None:
            return stop
    answer = reach.call(lambda client: client.force_release(name, reason))
    present(answer, _lines(answer), as_json=as_json)
    return Exit.DONE


def _lines(answer: ForcedAnswer) -> list[str]:
    head = f"{answer.lease} is ended." if answer.done else f"{answer.lease} would be ended:"
    return [head, *(f"  - {consequence}" for consequence in answer.consequences)]
