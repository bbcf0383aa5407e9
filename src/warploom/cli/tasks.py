"""`warploom create`, `update`, `comment`, `tasks` and `ready`: writing the tasks of a project, and looking at them."""

from typing import Annotated

import typer

from warploom.cli.answers import tell_notices
from warploom.cli.options import Json, Minutes, Priority, Task
from warploom.cli.output import present
from warploom.cli.reach import Reach
from warploom.cli.task_answers import created_lines, list_lines, ready_lines
from warploom.domain.identifiers import parse_task, task_name
from warploom.domain.task_answers import TaskAnswer
from warploom.domain.tasks import NeedsWish, TaskChanges, TaskWish, read_states, read_task

app = typer.Typer(rich_markup_mode=None)

Upstreams = Annotated[
    list[str] | None,
    typer.Option("--depends-on", help="A task to wait for, or several with commas between.", metavar="TASK"),
]
Parent = Annotated[str | None, typer.Option("--parent", help="The epic it is part of.", metavar="TASK")]
DoneWhen = Annotated[str | None, typer.Option("--done-when", help="How to tell that it is done.", metavar="TEXT")]
Context = Annotated[
    str | None, typer.Option("--context", help="All that somebody who takes it has to know.", metavar="TEXT")
]
Deadline = Annotated[
    str | None, typer.Option("--deadline", help="When it should be done, such as 2026-12-24T18:00Z.", metavar="MOMENT")
]
Attempts = Annotated[int | None, typer.Option("--max-attempts", help="How often it may be tried.")]
Resources = Annotated[
    list[str] | None,
    typer.Option("--resource", help="A thing that only one task at a time may have.", metavar="NAME"),
]
Capabilities = Annotated[
    list[str] | None,
    typer.Option("--capability", help="What the host must be able to do, such as docker.", metavar="NAME"),
]


@app.command(epilog='Example: warploom create "Train the baseline" --depends-on T-3 --cards 1 --done-when "loss < 2"')
def create(
    title: Annotated[str, typer.Argument(help="What is to be done, in one line.", metavar="TITLE")],
    context: Context = None,
    done_when: DoneWhen = None,
    priority: Priority = "p2",
    depends_on: Upstreams = None,
    parent: Parent = None,
    kind: Annotated[str, typer.Option("--kind", help="work, epic, barrier or question.")] = "work",
    device: Annotated[
        str | None,
        typer.Option("--card", "--device", "-d", help="The card it needs, such as local/0, or `any`.", metavar="CARD"),
    ] = None,
    cards: Annotated[int, typer.Option("--cards", help="How many cards of one host it needs.")] = 0,
    memory_gib: Annotated[float | None, typer.Option("--memory-gib", help="The memory each card must have.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The model a card must be, such as H100.")] = None,
    resource: Resources = None,
    capability: Capabilities = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Your own name for it: creating it again finds the same task.")
    ] = None,
    deadline: Deadline = None,
    max_attempts: Attempts = None,
    minutes: Minutes = None,
    as_json: Json = False,
) -> None:
    """Write a task into the graph.

    It is ready at once, or when all that it depends on is done. The very same task twice is one task.
    """
    needs = NeedsWish(device, cards, memory_gib, model, resource or [], capability or [])
    wish = TaskWish(
        title=title,
        context=context,
        done_when=done_when,
        priority=priority,
        kind=kind,
        parent_id=parent,
        depends_on=split(depends_on),
        needs=needs,
        key=key,
        deadline=deadline,
        max_attempts=max_attempts,
        minutes=minutes,
    )
    read_task(wish)
    show_task(Reach().call(lambda client: client.create_task(wish)), as_json=as_json)


@app.command(epilog="Example: warploom update T-17 --priority p0 --depends-on T-3,T-4")
def update(
    task: Task,
    title: Annotated[str | None, typer.Option("--title", help="What is to be done, in one line.")] = None,
    context: Context = None,
    done_when: DoneWhen = None,
    priority: Annotated[str | None, typer.Option("--priority", "-p", help="p0 (urgent), p1 or p2 (normal).")] = None,
    depends_on: Upstreams = None,
    parent: Parent = None,
    deadline: Deadline = None,
    max_attempts: Attempts = None,
    minutes: Minutes = None,
    as_json: Json = False,
) -> None:
    """Change a task.

    What is not given stays as it is, and an empty text empties its field. `--depends-on` replaces the whole list.
    """
    upstreams = None if depends_on is None else split(depends_on)
    changes = TaskChanges(title, context, done_when, priority, upstreams, parent, deadline, max_attempts, minutes)
    name = task_name(parse_task(task))
    show_task(Reach().call(lambda client: client.update_task(name, changes)), as_json=as_json)


@app.command(epilog='Example: warploom comment T-17 "The new loader needs pillow 11"')
def comment(
    task: Task,
    text: Annotated[str, typer.Argument(help="What others should read with the task.", metavar="TEXT")],
    as_json: Json = False,
) -> None:
    """Say something about a task, for everybody who reads it."""
    name = task_name(parse_task(task))
    show_task(Reach().call(lambda client: client.comment(name, text)), as_json=as_json)


@app.command(epilog="Example: warploom tasks --state claimed,blocked")
def tasks(
    state: Annotated[
        str | None, typer.Option("--state", "-s", help="Only these, with commas between.", metavar="STATE")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """List the tasks of the project."""
    show_list(Reach(), state, limit, as_json=as_json)


@app.command(epilog="Example: warploom ready --limit 5")
def ready(
    priority: Annotated[str | None, typer.Option("--priority", "-p", help="Only p0, p1 or p2.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 10,
    as_json: Json = False,
) -> None:
    """List what may be claimed now, or say why there is nothing.

    In the order in which it is handed out.
    """
    answer = Reach().call(lambda client: client.ready(priority, limit))
    present(answer, ready_lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)


def show_list(reach: Reach, state: str | None, limit: int, *, as_json: bool) -> None:
    """Show the tasks in some states, or all."""
    states = ",".join(read_states(state)) or None
    found = reach.call(lambda client: client.tasks(state=states, limit=limit))
    nothing = f"No task is {' or '.join(states.split(','))}." if states else "There are no tasks yet."
    lines = list_lines(found) or [nothing]
    if len(found) == limit:
        lines.append(f"… and perhaps more; --limit shows more than {limit}.")
    present(found, lines, as_json=as_json)


def show_task(answer: TaskAnswer, *, as_json: bool) -> None:
    """Show in two lines what became of a task."""
    present(answer, created_lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)


def split(names: list[str] | None) -> list[str]:
    """Read names that were given one by one, or with commas between."""
    return [part.strip() for name in names or [] for part in name.split(",") if part.strip()]
