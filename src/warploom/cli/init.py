"""`warploom init`: gives the agents of a project the tools, a paragraph and the skill; never their settings or hooks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from warploom.cli.gifts import AgentsSection, Gift, McpEntry, SkillLink
from warploom.cli.options import Json
from warploom.cli.output import present
from warploom.domain.errors import MalformedInput, NotFound

app = typer.Typer(rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one file."""

    path: str
    did: str
    meaning: str


@app.command(epilog="Example: warploom init ~/src/my-project")
def init(
    directory: Annotated[Path, typer.Argument(help="The project; by default this folder.", metavar="DIR")] = Path(),
    as_json: Json = False,
) -> None:
    """Give the agents of a project the Warploom tools.

    Writes an entry of .mcp.json, a section of AGENTS.md and a link to the skill. Other servers and other text stay as
    they are, and running it again changes nothing. An agent's settings and hooks are never touched.
    """
    folder = directory.expanduser()
    if not folder.is_dir():
        raise NotFound(f"{folder} is not a folder.", "Name the folder of a project, or run this inside one.")
    try:
        gifts: list[Gift] = [McpEntry(folder), AgentsSection(folder), SkillLink(folder)]
        plans = [gift.plan() for gift in gifts]
        done = [Done(gift.name, plan.apply(), gift.meaning) for gift, plan in zip(gifts, plans, strict=True)]
    except OSError as error:
        raise MalformedInput(
            f"{error.filename or folder} cannot be written: {error.strerror}.",
            "Mend that, then run `warploom init` again.",
        ) from error
    lines = [f"{each.did:<10}{each.path:<26}{each.meaning}" for each in done]
    present(
        done, [*lines, "Next      start your agent in this folder and let it use the warploom server"], as_json=as_json
    )
