"""`warploom idea` and `ideas`: the backlog of what might be done, outside the graph until it is promoted."""

from typing import Annotated

import typer

from warploom.cli.exits import Exit
from warploom.cli.options import Json
from warploom.cli.outcomes import many_lines
from warploom.cli.output import present
from warploom.cli.reach import Reach
from warploom.cli.task_answers import list_lines
from warploom.cli.tasks import show_task, split
from warploom.client.completions import UNREACHED
from warploom.domain.errors import MalformedInput, WarploomError
from warploom.domain.identifiers import parse_task, task_name
from warploom.domain.task_answers import ManyAnswer
from warploom.domain.tasks import TaskState

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog='Example: warploom idea "Try a cosine schedule" --context "the loss flattens after step 9,000"')
def idea(
    title: Annotated[str, typer.Argument(help="What might be done, in one line.", metavar="TITLE")],
    context: Annotated[str | None, typer.Option("--context", help="What speaks for it.", metavar="TEXT")] = None,
    as_json: Json = False,
) -> None:
    """Note an idea for the backlog.

    Nobody claims it and nothing waits for it, until `warploom ideas --promote` makes a task of it.
    """
    show_task(Reach().call(lambda client: client.idea(title, context)), as_json=as_json)


@app.command(epilog="Example: warploom ideas --promote T-7,T-9")
def ideas(
    promote: Annotated[
        list[str] | None, typer.Option("--promote", help="Make tasks of these ideas.", metavar="IDEA")
    ] = None,
    drop: Annotated[str | None, typer.Option("--drop", help="Take an idea out of the backlog.", metavar="IDEA")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 50,
    as_json: Json = False,
) -> int:
    """List the backlog, make tasks of its ideas, or drop one."""
    if promote and drop:
        raise MalformedInput("Ideas cannot be promoted and dropped in one go.", "Give --promote or --drop.")
    if promote:
        return _promote([task_name(parse_task(name)) for name in split(promote)], as_json=as_json)
    if drop:
        name = task_name(parse_task(drop))
        show_task(Reach().call(lambda client: client.drop(name)), as_json=as_json)
        return Exit.DONE
    found = Reach().call(lambda client: client.tasks(state=TaskState.IDEA.value, limit=limit))
    nothing = 'There are no ideas; `warploom idea "…"` notes one.'
    present(found, list_lines(found) or [nothing], as_json=as_json)
    return Exit.DONE


def _promote(names: list[str], *, as_json: bool) -> int:
    """Promote each on its own: one that is refused keeps no other from it."""
    reach, done, refused, following = Reach(), list[str](), dict[str, str](), ""
    for name in names:
        try:
            answer = reach.call(lambda client, name=name: client.promote(name))
        except UNREACHED:
            raise
        except WarploomError as error:
            refused[name], following = error.cause, following or error.next_step
        else:
            done, refused = [*done, *answer.done], refused | answer.refused
            following = answer.next if answer.done or not done else following
    answer = ManyAnswer(done, refused, following)
    present(answer, many_lines(answer, "promoted"), as_json=as_json)
    return Exit.REFUSED if refused else Exit.DONE
