"""`warploom orchestrate`: does what happens by itself, once or for as long as it runs, beside the servers or instead."""

import asyncio
import inspect
import signal
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from warploom.cli.exits import Exit
from warploom.cli.options import Json
from warploom.cli.output import present
from warploom.config import Settings
from warploom.domain.errors import MalformedInput, Unreachable, WarploomError

if TYPE_CHECKING:
    from warploom.orchestrator.duties import Duty
    from warploom.orchestrator.reach import Reach

app = typer.Typer(rich_markup_mode=None)

_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class DutyDone:
    """One duty, what it is for and how much it did; `fault` says why where it could not be done."""

    duty: str
    does: str
    count: int = 0
    fault: str | None = None


@app.command(epilog="Example: warploom orchestrate --once")
def orchestrate(
    once: Annotated[bool, typer.Option("--once", help="Do every duty once (the default).")] = False,
    daemon: Annotated[bool, typer.Option("--daemon", help="Go on for ever, in turn with the servers.")] = False,
    as_json: Json = False,
) -> int:
    """Do the duties of servers once, or for ever.

    End what expired, try again what is due, close what is complete, and say what each duty did. It speaks to the
    database, not to a server. Each duty is safe to do twice. With --daemon it takes turns with the servers: one of
    them leads, the rest stand by.
    """
    if once and daemon:
        raise MalformedInput("Once and for ever are two things.", "Give --once or --daemon.")
    settings = _settings()
    if daemon:
        asyncio.run(_stay(settings))
        return Exit.DONE
    done = asyncio.run(_do_all(settings))
    present(done, map(_line, done), as_json=as_json)
    return Exit.BAD if any(each.fault for each in done) else Exit.DONE


async def _do_all(settings: Settings) -> list[DutyDone]:
    from warploom.app import build_app
    from warploom.orchestrator.duties import DUTIES

    app = build_app(settings)
    await app.start(upgrade=False, patience=_PATIENCE_SECONDS)
    try:
        return [await _do(duty, app.duties) for duty in DUTIES]
    finally:
        await app.stop()


async def _do(duty: "Duty", reach: "Reach") -> DutyDone:
    purpose = (inspect.getdoc(duty.run_once) or "").partition(";")[0].rstrip(".")
    does = purpose[:1].lower() + purpose[1:]
    try:
        return DutyDone(duty.name, does, await duty.run_once(reach))
    except WarploomError as error:
        return DutyDone(duty.name, does, fault=error.cause)


async def _stay(settings: Settings) -> None:
    from warploom.app import build_app
    from warploom.orchestrator.duties import Orchestrator
    from warploom.telemetry.logs import start_logging

    start_logging()
    app = build_app(settings)
    await app.start(upgrade=False)
    work = asyncio.create_task(Orchestrator(app.duties).run_forever())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await work
    finally:
        await app.stop()


def _line(done: DutyDone) -> str:
    result = f"failed: {done.fault}" if done.fault else f"{done.count:,}" if done.count else "nothing"
    return f"{done.duty:<18} {result:<8} {done.does}"


def _settings() -> Settings:
    """Return the settings with the database they name, or the one of this home's running stack."""
    settings = Settings.load()
    if settings.database_url is not None:
        return settings
    from warploom.embedded.homes import Home
    from warploom.embedded.postgres import Postgres
    from warploom.embedded.records import living
    from warploom.embedded.valkey import Valkey

    home = Home.at(settings.home)
    if living(home, "postgres") is None:
        raise Unreachable(
            f"The local stack of {settings.home} is not running.",
            "`warploom up` starts it; WARPLOOM_DATABASE_URL names a database elsewhere.",
        )
    valkey = Valkey(home.path).url if living(home, "valkey") is not None else "none"
    return replace(settings, database_url=Postgres(home.path).url, redis_url=settings.redis_url or valkey)
