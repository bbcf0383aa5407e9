"""`warploom version`."""

import platform
from importlib.metadata import version as installed_version

import typer

from warploom.cli.options import Json
from warploom.cli.output import present

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: warploom version")
def version(as_json: Json = False) -> None:
    """Print the version of Warploom."""
    facts = {"warploom": installed_version("warploom"), "python": platform.python_version()}
    present(facts, [f"warploom {facts['warploom']} (Python {facts['python']})"], as_json=as_json)
