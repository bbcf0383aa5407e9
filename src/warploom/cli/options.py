"""Options and arguments that several commands share, so that one thing has one name everywhere."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines; errors too.")]
Ticket = Annotated[str, typer.Argument(help="A ticket such as T-17.", metavar="TICKET")]
Lease = Annotated[str, typer.Argument(help="A lease such as L-42.", metavar="LEASE")]
OwnLease = Annotated[
    str,
    typer.Argument(
        help="A lease such as L-42; by default the one this shell has.", metavar="LEASE", envvar="WARPLOOM_LEASE"
    ),
]
CardName = Annotated[str, typer.Argument(help="A card such as local/0, its index, or its UUID.", metavar="CARD")]
Device = Annotated[
    str,
    typer.Option(
        "--device", "--card", "-d", help="`any`, a card (0, local/0), or several with commas between.", metavar="CARD"
    ),
]
Cards = Annotated[int, typer.Option("--cards", help="How many cards of one host, with `any`.")]
MemoryGib = Annotated[float | None, typer.Option("--memory-gib", help="The memory each card must have.")]
Model = Annotated[str | None, typer.Option("--model", help="The model a card must be, such as H100.")]
Minutes = Annotated[float | None, typer.Option("--minutes", "-m", help="How long the job will take, about.")]
Priority = Annotated[str, typer.Option("--priority", "-p", help="p0 (urgent), p1 or p2 (normal).")]
EnvStyle = Annotated[str, typer.Option("--env-style", help="Name cards by uuid (safe everywhere) or by index.")]
Purpose = Annotated[
    str | None, typer.Option("--purpose", help="Asking again for the same purpose finds the same ticket.")
]
Task = Annotated[str, typer.Argument(help="A task such as T-17.", metavar="TASK")]
Tasks = Annotated[list[str], typer.Argument(help="Tasks such as T-17 T-18.", metavar="TASK...")]
Output = Annotated[str | None, typer.Option("--output", "-o", help="What it leaves behind, as JSON.", metavar="JSON")]
WhyNot = Annotated[str | None, typer.Option("--reason", "-r", help="Why, for everybody who looks at it.")]
NamedLease = Annotated[
    str | None,
    typer.Option(
        "--lease", help="The claim's lease; by default $WARPLOOM_LEASE, or the one this shell claimed.", metavar="LEASE"
    ),
]
