"""`warploom propose`, `proposals`, `accept`, `decline` and `withdraw`: what agents agree on before anything moves."""

from typing import Annotated

import typer

from warploom.cli.answers import tell_notices
from warploom.cli.consent import Yes, stop_at
from warploom.cli.exits import Exit
from warploom.cli.moments import read_minutes
from warploom.cli.options import Json
from warploom.cli.output import present
from warploom.cli.reach import Reach
from warploom.domain.identifiers import parse_proposal, proposal_name
from warploom.domain.proposals import ProposalAnswer, ProposalState, ProposalView, ProposalWish

app = typer.Typer(rich_markup_mode=None)

Proposal = Annotated[str, typer.Argument(help="A proposal such as P-3.", metavar="PROPOSAL")]


@app.command(epilog='Example: warploom propose release-at-step L-42 --step 500 --why "my eval takes ten minutes"')
def propose(
    kind: Annotated[
        str,
        typer.Argument(help="release-at-step, split-window (for a while) or swap (places in a queue).", metavar="KIND"),
    ],
    about: Annotated[
        str,
        typer.Argument(help="A lease L-42, for a swap the other's ticket T-18, or a reservation R-3.", metavar="ABOUT"),
    ],
    why: Annotated[str, typer.Option("--why", "-w", help="Why, for the other to read.", metavar="TEXT")],
    step: Annotated[int | None, typer.Option("--step", "-s", help="At this reported step.", metavar="STEP")] = None,
    in_: Annotated[str | None, typer.Option("--in", help="Or in 20min, 1h30.", metavar="LENGTH")] = None,
    length: Annotated[
        str | None, typer.Option("--for", help="How long the other's run is, with split-window.", metavar="LENGTH")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="The other agent, where it is about what is yours.", metavar="AGENT")
    ] = None,
    ticket: Annotated[str | None, typer.Option("--ticket", help="Your own ticket of a swap.", metavar="TICKET")] = None,
    open_for: Annotated[
        str | None, typer.Option("--open-for", help="How long it stays open; 30min unless given.", metavar="LENGTH")
    ] = None,
    instead_of: Annotated[
        str | None,
        typer.Option("--instead-of", help="The proposal that this answers and declines.", metavar="PROPOSAL"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Propose something to another agent.

    Nothing moves before it agrees, and nothing is ever taken from a holder. The other is told at its next contact of any kind,
    and an agent of the stdio server at once; its answer comes to you as a notice.
    """
    wish = ProposalWish(
        kind=kind,
        about=about,
        reason=why,
        to=to,
        step=step,
        in_minutes=_minutes(in_),
        minutes=_minutes(length),
        ticket=ticket,
        open_minutes=_minutes(open_for),
        instead_of=instead_of,
    )
    _show("proposed", Reach().call(lambda client: client.propose(wish)), as_json=as_json)


@app.command(epilog="Example: warploom proposals")
def proposals(
    everybodys: Annotated[bool, typer.Option("--all", "-a", help="Everybody's, as an operator.")] = False,
    as_json: Json = False,
) -> None:
    """List what is proposed from and to you, and what is agreed."""
    found = Reach(as_operator=everybodys).call(lambda client: client.proposals(everybodys=everybodys))
    lines = [line for each in found for line in proposal_lines(each)]
    present(found, lines or ["Nothing is proposed or agreed."], as_json=as_json)


@app.command(epilog="Example: warploom accept P-3")
def accept(proposal: Proposal, as_json: Json = False) -> None:
    """Agree to what was proposed to you.

    Its terms bind from then on: when the time comes you are told, and release yourself. Agreeing twice is success. A lease or
    ticket that is over by then is refused with where it stands now.
    """
    name = proposal_name(parse_proposal(proposal))
    _show("agreed", Reach().call(lambda client: client.accept_proposal(name)), as_json=as_json)


@app.command(epilog='Example: warploom decline P-3 --why "the run ends in an hour anyway"')
def decline(
    proposal: Proposal,
    why: Annotated[str, typer.Option("--why", "-w", help="Why, for the other to read.", metavar="TEXT")],
    as_json: Json = False,
) -> None:
    """Say no to what was proposed to you.

    `warploom propose … --instead-of P-3` says no and proposes other terms in one step.
    """
    name = proposal_name(parse_proposal(proposal))
    _show("declined", Reach().call(lambda client: client.decline_proposal(name, why)), as_json=as_json)


@app.command(epilog="Example: warploom withdraw P-3")
def withdraw(
    proposal: Proposal,
    why: Annotated[str | None, typer.Option("--why", "-w", help="Why, for those it binds.", metavar="TEXT")] = None,
    as_operator: Annotated[bool, typer.Option("--operator", help="Anybody's, as an operator.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Take back what you proposed, or let a holder off its word.

    Your own at once. With --operator anybody's: that shows what it means and asks first; with --json and without --yes it only
    shows.
    """
    name = proposal_name(parse_proposal(proposal))
    reach = Reach(as_operator=as_operator)
    if as_operator and not yes:
        preview = reach.call(lambda client: client.withdraw_proposal(name, why, preview=True))
        stop = stop_at(preview, _lines("would withdraw", preview), name, as_json=as_json)
        if stop is not None:
            return stop
    _show("withdrew", reach.call(lambda client: client.withdraw_proposal(name, why, preview=False)), as_json=as_json)
    return Exit.DONE


def proposal_lines(view: ProposalView) -> list[str]:
    """Say a proposal in a few lines, its reason quoted."""
    until = f" until {view.expires_at.astimezone():%H:%M}" if view.state is ProposalState.OPEN else ""
    due = ", and due now" if view.is_due and view.state is ProposalState.ACCEPTED else ""
    head = f"{view.proposal}  {view.proposer} to {view.partner}, {view.state.value}{until}{due}: {view.text}"
    answer = [f"    answered > {view.answer}"] if view.answer else []
    return [head, f"    > {view.reason}", *answer]


def _minutes(text: str | None) -> float | None:
    return None if text is None else read_minutes(text)


def _lines(word: str, answer: ProposalAnswer) -> list[str]:
    return [f"{word} {answer.proposal.proposal}: {answer.proposal.text}", f"{'next':<8}{answer.next}"]


def _show(word: str, answer: ProposalAnswer, *, as_json: bool) -> None:
    present(answer, _lines(word, answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
