"""`warploom request`, `explain` and `leave`: asking for cards, and asking why one still waits."""

import typer

from warploom.cli.answers import tell_notices, ticket_lines
from warploom.cli.exits import Exit
from warploom.cli.options import Cards, Device, EnvStyle, Json, MemoryGib, Minutes, Model, Priority, Purpose, Ticket
from warploom.cli.output import present, say
from warploom.cli.reach import Reach
from warploom.domain.errors import NotFound
from warploom.domain.identifiers import parse_ticket, ticket_name
from warploom.domain.standings import Standing, TicketAnswer, Wish

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: warploom request eval-sweep --device 0 --minutes 20")
def request(
    job: str = typer.Argument(help="What the card is for, in a few words.", metavar="JOB"),
    device: Device = "any",
    cards: Cards = 1,
    memory_gib: MemoryGib = None,
    model: Model = None,
    minutes: Minutes = None,
    priority: Priority = "p2",
    env_style: EnvStyle = "uuid",
    purpose: Purpose = None,
    as_json: Json = False,
) -> None:
    """Ask for a card: a lease, or a place in its queue.

    Never waits. With a lease come the variables to export. A busy card means a place in its queue; `warploom wait T-17`
    then returns when it is yours. To request, wait, run and release in one go, use `warploom run`.
    """
    wish = Wish(job, device, cards, memory_gib, model, minutes, priority, env_style, purpose)
    _show(Reach().call(lambda client: client.request(wish)), as_json=as_json)


@app.command(epilog="Example: warploom explain T-17")
def explain(ticket: Ticket, as_json: Json = False) -> None:
    """Say where a ticket or a task stands, and why.

    What it waits for, who holds that and how far along they are.
    """
    name = ticket_name(parse_ticket(ticket))
    reach = Reach()
    try:
        answer = reach.call(lambda client: client.explain(name))
    except NotFound:
        return _explain_task(reach, name, as_json=as_json)
    if answer.is_task and answer.state not in (Standing.QUEUED, Standing.PARKED):
        return _explain_task(reach, name, as_json=as_json)
    _show(answer, as_json=as_json)
    if not as_json and answer.delivered is not None:
        say([f"The offer reached its session {answer.delivered}."])
    if not as_json and answer.state is Standing.QUEUED:
        for link in answer.chain[1:]:
            print_link(link)
    return None


def _explain_task(reach: Reach, name: str, *, as_json: bool) -> None:
    from warploom.cli.task_answers import explanation_lines

    answer = reach.call(lambda client: client.explain_task(name))
    present(answer, explanation_lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)


@app.command(epilog="Example: warploom leave T-17")
def leave(ticket: Ticket, as_json: Json = False) -> int:
    """Take a ticket out of its queue.

    A card that was offered to it is given back. Leaving twice is success.
    """
    name = ticket_name(parse_ticket(ticket))
    answer = Reach().call(lambda client: client.leave(name))
    _show(answer, as_json=as_json)
    return Exit.DONE


def _show(answer: TicketAnswer, *, as_json: bool) -> None:
    present(answer, ticket_lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)


def print_link(link: str) -> None:
    """Print one link of the chain a ticket waits behind."""
    present(None, [f"        then: {link}"], as_json=False)
