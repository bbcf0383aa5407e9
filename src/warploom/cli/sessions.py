"""`warploom me`: what this session holds, waits for and has not read."""

import typer

from warploom.cli.answers import ticket_lines
from warploom.cli.moments import reservation_text
from warploom.cli.options import Json
from warploom.cli.output import present
from warploom.cli.proposals import proposal_lines
from warploom.cli.reach import Reach
from warploom.domain.tickets import Me

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: warploom me")
def me(as_json: Json = False) -> None:
    """Say what this session holds, waits for and has not read.

    Enough to go on with after an interruption.
    """
    answer = Reach().call(lambda client: client.me())
    present(answer, _lines(answer), as_json=as_json)


def _lines(answer: Me) -> list[str]:
    lines = [f"{answer.session} is {answer.agent} in project {answer.project}."]
    for held in [*answer.leases, *answer.tickets]:
        lines.extend(ticket_lines(held))
    lines.extend(f"{'claimed':<8}{task.task} '{task.title}' ({task.lease})" for task in answer.tasks)
    lines.extend(f"{'reserved':<9}{reservation_text(each)}" for each in answer.reservations)
    lines.extend(f"{'proposal':<9}{line.strip()}" for each in answer.proposals for line in proposal_lines(each))
    lines.extend(f"notice  {notice}" for notice in answer.notices)
    return [*lines, answer.next]
