"""Shows what something would do, and asks for a yes before it is done: others will notice it."""

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from warploom.cli.exits import Exit
from warploom.cli.output import emit, note, say

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def stop_at(preview: object, lines: Iterable[str], about: str, *, as_json: bool) -> Exit | None:
    """Show what would happen and ask whether to do it; return how to end where it is not to be done, None to go on.

    Machines are only shown it. Where nobody can be asked, that is said with how to agree beforehand, and taken for a no.
    """
    if as_json:
        emit(preview)
        return Exit.DONE
    say(lines)
    if _is_agreed(about):
        return None
    note("Nothing was changed.")
    return Exit.REFUSED


def _is_agreed(about: str) -> bool:
    if not sys.stdin.isatty():
        note(f"Nobody can be asked here; add --yes to do this to {about}.")
        return False
    return typer.confirm("Do this?", default=False, err=True)
