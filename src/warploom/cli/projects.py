"""`warploom project`: make projects, see how far along they are, switch this shell to one, archive one."""

from typing import Annotated

import typer

from warploom.cli.config import note_override
from warploom.cli.options import Json
from warploom.cli.output import note, present
from warploom.cli.reach import Reach
from warploom.cli.settings_file import write_setting
from warploom.domain.errors import WarploomError
from warploom.domain.projects import ProjectAnswer, ProjectView

app = typer.Typer(rich_markup_mode=None)
project = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: warploom project list",
    help="Make projects, list them, switch to one, archive one.",
)
app.add_typer(project, name="project")

Name = Annotated[str, typer.Argument(help="The project's name.", metavar="NAME")]


@project.command(epilog='Example: warploom project create vision --description "All about images"')
def create(
    name: Name,
    description: Annotated[
        str | None, typer.Option("--description", "-d", help="What it is about.", metavar="TEXT")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a project with a graph of its own.

    Cards stay shared between all projects. Nobody is switched to it.
    """
    answer = Reach().call(lambda client: client.create_project(name, description))
    _present(answer, f"Made the project '{answer.project.project}'.", as_json=as_json)


@project.command("list", epilog="Example: warploom project list")
def list_all(
    archived: Annotated[bool, typer.Option("--archived", "-a", help="List archived projects too.")] = False,
    as_json: Json = False,
) -> None:
    """List projects, each with how far along it is.

    A star marks the one this shell works in.
    """
    answer = Reach().call(lambda client: client.projects(archived=archived))
    wide = max((len(view.project) for view in answer.projects), default=0)
    lines = [_line(view, wide) for view in answer.projects]
    if not any(view.is_current for view in answer.projects):
        lines.append(f"{'next':<8}{answer.next}")
    present(answer, lines, as_json=as_json)
    _note(answer.notices, as_json=as_json)


@project.command(epilog="Example: warploom project switch vision")
def switch(name: Name, as_json: Json = False) -> None:
    """Work in another project from now on.

    In this shell's session at once, and in every shell that is opened later; sessions that run already stay where they are.
    """
    reach = Reach()
    answer = reach.call(lambda client: client.switch_project(name))
    chosen = answer.project.project
    try:
        write_setting(reach.settings.home, "project", chosen)
        where = "This session and those that start later work"
    except (WarploomError, OSError) as error:
        note(f"Sessions that start later are not switched: {error}")
        where = "This session works"
    _present(answer, f"{where} in the project '{chosen}'.", as_json=as_json)
    note_override("project")


@project.command(epilog="Example: warploom project archive vision")
def archive(
    name: Name,
    back: Annotated[bool, typer.Option("--back", help="Bring an archived project back.")] = False,
    as_json: Json = False,
) -> None:
    """Hide a project; nothing can be created or claimed in it.

    Nothing is deleted, and --back undoes it. Refused while somebody works on its tasks.
    """
    answer = Reach(as_operator=True).call(lambda client: client.archive_project(name, back=back))
    done = "is back" if back else "is archived"
    _present(answer, f"The project '{answer.project.project}' {done}.", as_json=as_json)


def _present(answer: ProjectAnswer, line: str, *, as_json: bool) -> None:
    present(answer, [line, f"{'next':<8}{answer.next}"], as_json=as_json)
    _note(answer.notices, as_json=as_json)


def _note(notices: list[str], *, as_json: bool) -> None:
    if not as_json:
        for notice in notices:
            note(f"notice  {notice}")


def _line(view: ProjectView, wide: int) -> str:
    mark = "*" if view.is_current else " "
    dead = view.counts.get("dead_letter", 0)
    facts = [
        f"{view.open:,} open",
        f"{view.done:,} done",
        *([f"{view.counts['claimed']:,} claimed"] if view.counts.get("claimed") else []),
        *([f"{view.counts['blocked']:,} blocked"] if view.counts.get("blocked") else []),
        *([f"{dead:,} given up"] if dead else []),
        *([f"{view.overdue:,} overdue"] if view.overdue else []),
        *([f"{view.escalations:,} unanswered"] if view.escalations else []),
        *(["archived"] if view.archived_at else []),
    ]
    about = f"  {view.description.splitlines()[0]}" if view.description else ""
    return f"{mark} {view.project:<{wide}}  {view.percent:>3} %  {', '.join(facts)}{about}"
