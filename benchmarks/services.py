"""A throw-away Postgres and Valkey with the settings of the local stack, for what is measured without a server."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from warploom.app import App, build_app
from warploom.config import Settings
from warploom.embedded.postgres import Postgres
from warploom.embedded.valkey import Valkey
from warploom.store import migrations


@dataclass(frozen=True)
class Services:
    """Where the two answer. Warploom's schema is in the database of `dsn`; floors and peers have databases of their own."""

    home: Path
    dsn: str
    redis_url: str

    async def database(self, name: str) -> str:
        """Make an empty database in the same Postgres and return its DSN."""
        conn = await asyncpg.connect(self.dsn)
        await conn.execute(f"drop database if exists {name} with (force)")
        await conn.execute(f"create database {name}")
        await conn.close()
        return self.dsn.replace("/postgres?", f"/{name}?")

    @asynccontextmanager
    async def app(self) -> AsyncIterator[App]:
        """Run an App with the default settings on both, as a server process does."""
        environment = {
            "WARPLOOM_HOME": str(self.home),
            "WARPLOOM_DATABASE_URL": self.dsn,
            "WARPLOOM_REDIS_URL": self.redis_url,
        }
        app = build_app(Settings.load(environment))
        await app.start()
        try:
            yield app
        finally:
            await app.stop()


@contextmanager
def throw_away_services() -> Iterator[Services]:
    """Start both in a home of their own; stop them and remove it at the end."""
    home = Path(tempfile.mkdtemp(prefix="wlb-"))
    postgres, valkey = Postgres(home), Valkey(home)
    try:
        services = Services(home, postgres.start(), valkey.start())
        asyncio.run(migrations.upgrade(services.dsn))
        yield services
    finally:
        valkey.stop()
        postgres.stop()
        shutil.rmtree(home, ignore_errors=True)
