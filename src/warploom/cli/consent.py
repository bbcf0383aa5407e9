"""Asks for a yes before something is done that others will notice."""

import sys
from typing import Annotated

import typer

from warploom.cli.output import note

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def is_agreed(about: str) -> bool:
    """Ask whether to do what was just shown; where nobody can be asked, say how to agree beforehand, and take it for a no."""
    if not sys.stdin.isatty():
        note(f"Nobody can be asked here; add --yes to do this to {about}.")
        return False
    return typer.confirm("Do this?", default=False, err=True)
