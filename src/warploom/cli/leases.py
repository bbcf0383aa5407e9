"""`warploom release`, `extend` and `report`: what the holder of a card says about its lease."""

from typing import Annotated

import typer

from warploom.cli.answers import lease_lines, tell_notices
from warploom.cli.options import Json, Lease, OwnLease
from warploom.cli.output import present
from warploom.cli.ways import Way
from warploom.client.holder import HolderClient
from warploom.domain.identifiers import lease_name, parse_lease
from warploom.domain.leases import LeaseAnswer, check_step

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog='Example: warploom release L-42 --error "CUDA error: uncorrectable ECC error encountered"')
def release(
    lease: OwnLease,
    keep_place: Annotated[
        bool, typer.Option("--keep-place", help="Let the first who waits go, and wait on right behind.")
    ] = False,
    error: Annotated[
        str | None, typer.Option("--error", "-e", help="How the job failed, in its own words.", metavar="TEXT")
    ] = None,
    failure: Annotated[
        str | None, typer.Option("--class", "-c", help="What kind of failure it is.", metavar="CLASS")
    ] = None,
    as_json: Json = False,
) -> None:
    """Give a lease's cards back.

    Do it as soon as the job has ended. Releasing twice is success. A job that failed is told with --error: jobs that fail
    soon and in the words of broken hardware take their card out of service, and one that went well speaks for it.
    """
    name = lease_name(parse_lease(lease))
    answer = Way(HolderClient).call(lambda client: client.release(name, error, failure, keep_place=keep_place))
    _show(answer, as_json=as_json)


@app.command(epilog='Example: warploom extend L-42 30 --reason "two more epochs"')
def extend(
    lease: Lease,
    minutes: Annotated[float, typer.Argument(help="How many more minutes the job needs.", metavar="MINUTES")],
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why, for those who wait.")] = "it takes longer",
    as_json: Json = False,
) -> None:
    """Say that a job will take longer.

    Nothing ends when the declared time has passed; this keeps the estimates of those who wait honest.
    """
    name = lease_name(parse_lease(lease))
    _show(Way(HolderClient).call(lambda client: client.extend(name, minutes, reason)), as_json=as_json)


@app.command(epilog="Example: warploom report L-42 120 3000")
def report(
    lease: Lease,
    step: Annotated[int, typer.Argument(help="Steps done.", metavar="STEP")],
    total: Annotated[int | None, typer.Argument(help="Steps in all.", metavar="TOTAL")] = None,
    as_json: Json = False,
) -> None:
    """Report how far a job is.

    For jobs that cannot call warploom.report(step, total) themselves.
    """
    name = lease_name(parse_lease(lease))
    check_step(step, total)
    _show(Way(HolderClient).call(lambda client: client.report(name, step, total)), as_json=as_json)


def _show(answer: LeaseAnswer, *, as_json: bool) -> None:
    present(answer, lease_lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
