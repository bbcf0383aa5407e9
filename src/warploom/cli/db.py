"""`warploom db`: the schema of a database of your own; `warploom up` looks after the embedded one."""

import asyncio
from dataclasses import dataclass

import typer

from warploom.cli.exits import Exit
from warploom.cli.options import Json
from warploom.cli.output import present
from warploom.config import Settings
from warploom.domain.errors import MalformedInput

app = typer.Typer(rich_markup_mode=None)
db = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: warploom db upgrade",
    help="Look after the schema of a database of your own.",
)
app.add_typer(db, name="db")


@dataclass(frozen=True, slots=True)
class Shown:
    """A database's schema beside the one this binary brings."""

    current: str | None
    newest: str
    next: str


@db.command(epilog="Example: warploom db upgrade")
def upgrade(as_json: Json = False) -> None:
    """Bring the database's schema up to date.

    The queue and all history are kept, and running it again does nothing.
    """
    from warploom.store.migrations import upgrade as upgrade_schema

    status = asyncio.run(upgrade_schema(_database()))
    shown = Shown(status.current, status.newest, "Servers that waited for it go on by themselves.")
    present(shown, [f"The database has schema {status.current}, the newest."], as_json=as_json)


@db.command(epilog="Example: warploom db status")
def status(as_json: Json = False) -> int:
    """Say which schema the database has, and change nothing."""
    from warploom.store.database import lone_connection
    from warploom.store.migrations import SchemaStatus, read_status

    async def read() -> SchemaStatus:
        async with lone_connection(_database()) as conn:
            return await read_status(conn)

    found = asyncio.run(read())
    shown = Shown(found.current, found.newest, _next(found.current, found.newest))
    lines = [f"The database has schema {found.current or 'none'}; this Warploom brings {found.newest}.", shown.next]
    present(shown, lines, as_json=as_json)
    return Exit.DONE if found.is_current else Exit.BAD


def _next(current: str | None, newest: str) -> str:
    if current == newest:
        return "Nothing to do."
    if current is not None and current > newest:
        return "Install the newer Warploom on this machine."
    return "Run `warploom db upgrade`; the queue and all history are kept."


def _database() -> str:
    dsn = Settings.load().database_url
    if dsn is None:
        raise MalformedInput(
            "No database is set, and the embedded one is kept up to date by `warploom up`.",
            "Set WARPLOOM_DATABASE_URL to look after a database of your own.",
        )
    return dsn
