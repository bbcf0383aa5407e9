"""The schema's version: read it, bring it up to date, refuse what does not fit."""

import asyncio
import importlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warploom.assets import asset_dir
from warploom.domain.errors import SchemaMismatch
from warploom.store.database import Connection, lone_connection

_LOCK = 7_130_001
_PREPARED: list[threading.Thread] = []
_REVISION = re.compile(r"(\d{4})_\w+\.py")


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The revision of a database (None: empty) and the newest one this binary knows."""

    current: str | None
    newest: str

    @property
    def is_current(self) -> bool:
        """Say whether database and binary agree."""
        return self.current == self.newest

    @property
    def is_ahead(self) -> bool:
        """Say whether the database is newer than this binary."""
        return self.current is not None and self.current > self.newest


def known_revisions() -> list[str]:
    """List the revisions this binary brings along, oldest first."""
    names = (_REVISION.fullmatch(path.name) for path in (asset_dir("migrations") / "versions").iterdir())
    return sorted(name[1] for name in names if name)


async def read_status(conn: Connection) -> SchemaStatus:
    """Read the database's revision without touching anything."""
    has_table = await conn.fetchval("select to_regclass('alembic_version') is not null")
    current = await conn.fetchval("select max(version_num) from alembic_version") if has_table else None
    return SchemaStatus(current, known_revisions()[-1])


def require_current(status: SchemaStatus) -> None:
    """Raise SchemaMismatch unless this binary may write to the database."""
    if status.is_ahead:
        raise SchemaMismatch(
            f"The database has schema {status.current}, newer than this Warploom's {status.newest}; it will not write to it.",
            "Install the newer Warploom on this machine.",
        )
    if not status.is_current:
        raise SchemaMismatch(
            f"The database has schema {status.current or 'none'}, older than this Warploom's {status.newest}.",
            "Run `warploom db upgrade`; the queue and all history are kept.",
        )


async def upgrade(dsn: str) -> SchemaStatus:
    """Bring a database up to the newest revision, one at a time, each in its transaction; safe to race.

    Alembic is imported only when there is something to do, since that alone takes a second.
    """
    async with lone_connection(dsn) as conn:
        status = await read_status(conn)
        if status.is_ahead:
            require_current(status)
        if status.is_current:
            return status
        await conn.execute("select pg_advisory_lock($1)", _LOCK)
        await asyncio.to_thread(_run_alembic, dsn)
        return await read_status(conn)


def prepare() -> None:
    """Load what an upgrade needs in the background, while the database is still being made; once."""
    if not _PREPARED:
        _PREPARED.append(threading.Thread(target=_load, name="migrations", daemon=True))
        _PREPARED[0].start()


def _load() -> None:
    for module in ("alembic.command", "sqlalchemy.ext.asyncio", "sqlalchemy.dialects.postgresql.asyncpg"):
        importlib.import_module(module)


def _run_alembic(dsn: str) -> None:
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from sqlalchemy import Connection, pool  # noqa: PLC0415
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415

    folder: Path = asset_dir("migrations")
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")

    def run(connection: Connection) -> None:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    async def go(step: Callable[[Connection], None]) -> None:
        async_dsn = re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql+asyncpg://", dsn)
        engine = create_async_engine(async_dsn, poolclass=pool.NullPool)
        try:
            async with engine.connect() as connection:
                await connection.run_sync(step)
                await connection.commit()
        finally:
            await engine.dispose()

    asyncio.run(go(run))


async def status(dsn: str) -> SchemaStatus:
    """Read the revision of a database."""
    async with lone_connection(dsn) as conn:
        return await read_status(conn)


async def require(dsn: str) -> None:
    """Raise SchemaMismatch unless this binary may write to the database."""
    require_current(await status(dsn))
