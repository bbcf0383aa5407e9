"""`warploom graph`, `graph import` and `graph export`: the graph drawn as text, written from a plan, and as a plan again."""

from collections.abc import Sequence
from typing import Annotated

import typer

from warploom.cli.answers import tell_notices
from warploom.cli.options import Json
from warploom.cli.output import emit, present, say
from warploom.cli.plan_files import plan_text, read_plan_file, write_plan_file
from warploom.cli.reach import Reach
from warploom.domain.graphs import GraphFormat, as_mermaid, as_summary, parse_format
from warploom.domain.identifiers import parse_task, task_name
from warploom.domain.plans import ImportAnswer

app = typer.Typer(rich_markup_mode=None)
graph = typer.Typer(
    rich_markup_mode=None,
    epilog="Example: warploom graph --around T-17 --depth 1 --format mermaid",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(graph, name="graph")

_MOST_KEYS_SHOWN = 20


@graph.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    form: Annotated[str, typer.Option("--format", "-f", help="summary, mermaid or json.")] = "summary",
    around: Annotated[str | None, typer.Option("--around", help="Only what is near this task.", metavar="TASK")] = None,
    depth: Annotated[int, typer.Option("--depth", min=0, max=10, help="With --around: how many steps away.")] = 2,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=2000, help="How many tasks at most.")] = 200,
    as_json: Json = False,
) -> None:
    """Show the project's graph, import a plan, or export one.

    Counts, what may be claimed, what is blocked and by whom: as a summary, as a Mermaid chart to paste elsewhere, or as
    JSON; the whole, or what is near a task.
    """
    if context.invoked_subcommand is not None:
        return
    chosen = GraphFormat.JSON if as_json else parse_format(form)
    near = None if around is None else task_name(parse_task(around))
    found = Reach().call(lambda client: client.graph(near, depth, limit))
    if chosen is GraphFormat.JSON:
        emit(found)
    else:
        say((as_mermaid if chosen is GraphFormat.MERMAID else as_summary)(found).splitlines())
        tell_notices(found.notices, as_json=False)


@graph.command(name="import", epilog="Example: warploom graph import plan.yaml --check")
def import_plan(
    file: Annotated[str, typer.Argument(help="A plan as JSON or YAML; `-` for standard input.", metavar="FILE")],
    check: Annotated[bool, typer.Option("--check", help="Only look for faults; write nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Write a whole plan into the project's graph, or nothing of it.

    All its faults are named at once. Importing it again writes only what is new: tasks are known by their keys.
    """
    plan = read_plan_file(file)
    answer = Reach().call(lambda client: client.import_plan(plan, check_only=check))
    present(answer, _lines(answer), as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)


@graph.command(name="export", epilog="Example: warploom graph export -o plan.yaml")
def export_plan(
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write it here; YAML where the name ends so.", metavar="FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the project's graph as a plan that can be imported again, here or into another project."""
    plan = Reach().call(lambda client: client.export_plan())
    if output is not None:
        write_plan_file(output, plan)
        count = len(plan.get("tasks", []))
        present({"file": output, "tasks": count}, [f"{count:,} tasks are written to {output}."], as_json=as_json)
    elif as_json:
        emit(plan)
    else:
        say(plan_text(plan, as_yaml=False).splitlines())


def _lines(answer: ImportAnswer) -> list[str]:
    word = "checked" if answer.checked_only else "written"
    there = f", {answer.deduplicated:,} were there already" if answer.deduplicated else ""
    head = f"{word:<7} {answer.created:,} tasks with {answer.edges:,} dependencies{there}"
    return [head, *_keys(list(answer.keys.items()), is_cut=answer.is_cut), f"{'next':<8}{answer.next}"]


def _keys(keys: Sequence[tuple[str, str]], *, is_cut: bool) -> list[str]:
    shown = [f"        {task:<7} {key}" for key, task in keys[:_MOST_KEYS_SHOWN]]
    return [*shown, "        …"] if is_cut or len(keys) > _MOST_KEYS_SHOWN else shown
