"""`warploom claim`, `done`, `fail`, `heartbeat` and `escalate`: what an agent does with its tasks from a shell."""

import os
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from warploom.cli.answers import tell_notices
from warploom.cli.completions import settle_beside, write_down
from warploom.cli.exits import Exit, table
from warploom.cli.options import Json, NamedLease, Output, Task
from warploom.cli.outcomes import step_lines
from warploom.cli.output import present
from warploom.cli.reach import Reach
from warploom.client.completions import UNREACHED, tell
from warploom.client.holdings import Holdings, server_of
from warploom.client.markers import Marker, Verb
from warploom.domain.claims import StepAnswer, read_count, read_life, read_percent
from warploom.domain.errors import MalformedInput, Unreachable
from warploom.domain.failures import MEANINGS, parse_failure
from warploom.domain.identifiers import lease_name, parse_lease, parse_task, task_name
from warploom.domain.outputs import read_output
from warploom.domain.texts import REASON_LIMIT, one_line, optional_line

app = typer.Typer(rich_markup_mode=None)

_PATIENCE_SECONDS = 2.0
_BRANCH_LIMIT = 300
_CLASSES = "\n\n\b\nClasses of failure:\n" + "\n".join(f"  {name:<12} {text}" for name, text in MEANINGS.items())
_OFFLINE = (
    "\n\nWhen no server can be reached, it is written down on this machine; `warploom scan --execute`, or the next such "
    "command that gets through, tells it."
)


@app.command(epilog=f"Example: warploom claim --count 2{table()}")
def claim(
    task: Annotated[
        str | None, typer.Argument(help="A task such as T-17; without it, the next.", metavar="TASK")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="How many of the next tasks to take.")] = 1,
    ttl: Annotated[
        float | None,
        typer.Option("--ttl", help="How long you may be silent before it is given back.", metavar="SECONDS"),
    ] = None,
    as_json: Json = False,
) -> int:
    """Take a task, or the next ones that are ready.

    Each comes with a lease. A task that needs a card waits in that card's queue; `warploom wait T-17` then returns when
    you have both. Work on it, show a sign of life with `warploom heartbeat`, and end it with `warploom done` or `fail`.
    """
    from warploom.cli.task_answers import claim_lines

    name = None if task is None else task_name(parse_task(task))
    read_life(ttl)
    if name is not None and count != 1:
        raise MalformedInput(f"{name} is one task, but {count} were asked for.", "Name it, or say how many, not both.")
    read_count(count)
    reach = Reach()
    answer = reach.call(lambda client: client.claim(name, count, ttl))
    holdings = Holdings(reach.settings.home, server_of(reach.settings))
    for held in answer.claims:
        holdings.remember(held.task.task, held.lease, reach.caller)
    present(answer, claim_lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
    return Exit.DONE if answer.claims or answer.queued else Exit.NOTHING


@app.command(epilog="Example: warploom done T-17 --output '{\"accuracy\": 0.93}' --branch-name fix/loader" + _OFFLINE)
def done(
    task: Task,
    output: Output = None,
    branch: Annotated[
        str | None, typer.Option("--branch-name", "-b", help="The branch that holds the work.", metavar="BRANCH")
    ] = None,
    lease: NamedLease = None,
    as_json: Json = False,
) -> int:
    """Say that a task is done.

    Its cards are given back, and what waited for it becomes ready. Doing so twice is success.
    """
    facts = {"output": parse_output(output), "branch": optional_line(branch, "branch name", _BRANCH_LIMIT)}
    return _end(task, Verb.DONE, lease, facts, as_json=as_json)


@app.command(epilog='Example: warploom fail T-17 --reason "the data set is gone" --class infra' + _CLASSES + _OFFLINE)
def fail(
    task: Task,
    reason: Annotated[str, typer.Option("--reason", "-r", help="What went wrong.", metavar="TEXT")],
    failure: Annotated[
        str | None, typer.Option("--class", "-c", help="What kind of failure it is.", metavar="CLASS")
    ] = None,
    lease: NamedLease = None,
    as_json: Json = False,
) -> int:
    """Say that an attempt at a task failed.

    It is tried again later, as long as attempts are left and its class makes that worth while.
    """
    facts = {"reason": one_line(reason, "reason", REASON_LIMIT), "failure": parse_failure(failure).value}
    return _end(task, Verb.FAIL, lease, facts, as_json=as_json)


@app.command(epilog='Example: warploom heartbeat T-17 --progress "two of five files" --percent 40')
def heartbeat(
    task: Task,
    progress: Annotated[str | None, typer.Option("--progress", help="What you are at.", metavar="TEXT")] = None,
    percent: Annotated[int | None, typer.Option("--percent", help="How far you are, 0 to 100.")] = None,
    lease: NamedLease = None,
    as_json: Json = False,
) -> int:
    """Show a sign of life for a task, and say how far it is.

    When no server can be reached nothing is written down: a sign of life counts only when it is given.
    """
    name, line = task_name(parse_task(task)), optional_line(progress, "progress", REASON_LIMIT)
    read_percent(percent)
    reach = Reach()
    own = own_lease(reach, name, lease)
    answer = reach.insist(lambda client: client.heartbeat_task(name, own, line, percent), _PATIENCE_SECONDS)
    return _show(answer, as_json=as_json)


@app.command(epilog='Example: warploom escalate T-17 "Which of the two data sets is meant?"')
def escalate(
    task: Task,
    message: Annotated[str, typer.Argument(help="What a person has to decide.", metavar="MESSAGE")],
    lease: NamedLease = None,
    as_json: Json = False,
) -> int:
    """Stop work on a task with a question to a person.

    The task stands still until somebody answers with `warploom answer`; your claim and its cards are given back.
    """
    name = task_name(parse_task(task))
    reach = Reach()
    own = own_lease(reach, name, lease)
    return _show(reach.call(lambda client: client.escalate(name, message, own)), as_json=as_json)


def own_lease(reach: Reach, task: str, given: str | None) -> str | None:
    """Find the lease a command acts under: the one given, this process's own, or the one this session claimed it with.

    The process's own may be that of a card, which has nothing to do with the task; then what the session remembers of
    this very task comes first. None where no lease is known; the server then takes the one that the calling session
    holds on the task, if it does.
    """
    if given is not None:
        return lease_name(parse_lease(given))
    holdings = Holdings(reach.settings.home, server_of(reach.settings))
    worn = os.environ.get("WARPLOOM_LEASE")
    remembered = holdings.lease_of(task, reach.caller)
    if not worn:
        return remembered
    own = lease_name(parse_lease(worn))
    of = holdings.task_of(own)
    return own if of == task or (of is None and remembered is None) else remembered


def parse_output(text: str | None) -> Any:
    """Read what a task leaves behind; raise MalformedInput where it is no JSON or too much."""
    if text is None:
        return None
    try:
        output: Any = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise MalformedInput(
            f"The output is not JSON: {error}.",
            """Write an object such as '{"files": 3}', or a text in quotes: '"done"'.""",
        ) from None
    read_output(output)
    return output


def _end(task: str, verb: Verb, lease: str | None, facts: dict[str, Any], *, as_json: bool) -> int:
    name = task_name(parse_task(task))
    reach = Reach()
    own = own_lease(reach, name, lease)
    server = server_of(reach.settings)
    marker = Marker(name, own or "", verb, server, reach.caller.agent, datetime.now(UTC), **facts)
    try:
        answer = reach.insist(lambda client: tell(client, marker), _PATIENCE_SECONDS)
    except UNREACHED as error:
        if own is None:
            raise Unreachable(
                error.cause,
                f"Nothing was written down, because no lease is known for {name}: name the one you were given when you "
                "claimed it, such as --lease L-42.",
            ) from error
        write_down(reach, marker, error, as_json=as_json)
        return Exit.DONE
    _show(answer, as_json=as_json)
    settle_beside(reach)
    return Exit.DONE


def _show(answer: StepAnswer, *, as_json: bool) -> int:
    present(answer, step_lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
    return Exit.DONE
