"""`warploom doctor`: what is well, what is not, and what to do about it."""

from importlib.metadata import version
from typing import Annotated

import typer

from warploom.cli.checks import away, check_assets, check_completions, check_locally
from warploom.cli.exits import Exit
from warploom.cli.options import Json
from warploom.cli.output import note, present
from warploom.cli.reach import Reach
from warploom.domain.errors import WarploomError
from warploom.domain.health import Check, Word

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: warploom doctor")
def doctor(
    assets: Annotated[bool, typer.Option("--assets", help="Only check the files that ship with Warploom.")] = False,
    as_json: Json = False,
) -> int:
    """Check the whole stack, and say what to do.

    Exits 0 when all is ok or warn, 1 when anything is bad. Starts and changes nothing. Without a server it
    checks what can be seen from here.
    """
    checks = check_assets() if assets else _check(Reach(), as_json=as_json)
    present(checks, map(_line, checks), as_json=as_json)
    return Exit.BAD if any(check.word is Word.BAD for check in checks) else Exit.DONE


def _check(reach: Reach, *, as_json: bool) -> list[Check]:
    try:
        return [_check_server(reach), *reach.client.doctor(), *check_completions(reach.settings.home)]
    except WarploomError as error:
        if not as_json:
            note("The server does not answer, so this is only what can be seen from here.")
        return [away(error), *(check_locally(reach.settings) if reach.is_ours else [])]


def _check_server(reach: Reach) -> Check:
    there, here = reach.client.health().version, version("warploom")
    if there == here:
        return Check(Word.OK, "server", f"{reach.client.url}, version {there}")
    text = f"{reach.client.url} has version {there}, this command {here}"
    return Check(Word.WARN, "server", text, "Use the same version here and there; `warploom down`, then `warploom up`.")


def _line(check: Check) -> str:
    fix = f". Fix: {check.fix}" if check.fix else ""
    return f"{check.word.value:<7}{check.name:<11} {check.text}{fix}"
