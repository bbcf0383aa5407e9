"""`warploom message` and `messages`: write to agents, and see what they wrote."""

from typing import Annotated

import typer

from warploom.cli.options import Json
from warploom.cli.output import note, present
from warploom.cli.reach import Reach
from warploom.domain.identifiers import parse_task, task_name
from warploom.domain.messages import MessageView, SentAnswer
from warploom.domain.texts import spoken_list

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog='Example: warploom message claude-2 "The data is at /data/v2" --task T-17')
def message(
    to: Annotated[
        str, typer.Argument(help="An agent's name, a session such as S-3, or `all` of this project.", metavar="TO")
    ],
    text: Annotated[str, typer.Argument(help="1 to 4,000 characters.", metavar="TEXT")],
    task: Annotated[str | None, typer.Option("--task", "-t", help="The task it is about.", metavar="TASK")] = None,
    as_json: Json = False,
) -> None:
    """Write to an agent.

    It is told at its next contact of any kind, quoted with your name; an agent of the stdio server at once.
    """
    about = None if task is None else task_name(parse_task(task))
    answer = Reach().call(lambda client: client.send(to, text, about))
    present(answer, _sent(answer), as_json=as_json)
    if not as_json:
        for notice in answer.notices:
            note(f"notice  {notice}")


@app.command(epilog="Example: warploom messages")
def messages(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="How many at most.")] = 20,
    as_json: Json = False,
) -> None:
    """List what this session has not been told yet.

    Looking marks nothing read; `warploom me` tells it and does.
    """
    unread = Reach().call(lambda client: client.messages(limit))
    lines = [line for each in unread for line in _message(each)]
    present(unread, lines or ["Nothing is unread."], as_json=as_json)


def _sent(answer: SentAnswer) -> list[str]:
    return [f"{'sent':<8}{spoken_list(answer.messages)} to {spoken_list(answer.to)}", f"{'next':<8}{answer.next}"]


def _message(view: MessageView) -> list[str]:
    """Quote a message line by line, so that none of its lines can pass for another message."""
    about = f" about {view.task}" if view.task else ""
    head = f"{view.message}  {view.sent_at.astimezone():%Y-%m-%d %H:%M}  {view.sender}{about}"
    return [head, *(f"    > {line}" for line in view.text.splitlines())]
