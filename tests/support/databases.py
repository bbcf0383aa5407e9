"""Databases cloned from one migrated template, and a clock in each that a test can move."""

import asyncio
import threading
import uuid
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from warploom.store import migrations

TEMPLATE = "warploom_template"
T = TypeVar("T")

MOVABLE_CLOCK = """
create table if not exists moved_clock (by interval not null);
create or replace function clock_now() returns timestamptz
language sql stable
return now() + coalesce(nullif(current_setting('warploom.clock_offset', true), ''), '0')::interval
  + (select coalesce(sum(by), '0') from moved_clock);
"""


class Postgres:
    """A Postgres as its superuser sees it; works from synchronous and asynchronous tests, on a loop of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._conn: Any = self.run(asyncpg.connect(url))

    def close(self) -> None:
        self.run(self._conn.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of this helper and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def execute(self, statement: str) -> None:
        self.run(self._conn.execute(statement))

    def url_of(self, name: str) -> str:
        """Return the URL of another database of this server."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def make_template(self) -> None:
        """Create and migrate the database that the others are cloned from. Nothing here need survive a power cut."""
        self.execute("alter system set fsync = off")
        self.execute("alter system set full_page_writes = off")
        self.execute("select pg_reload_conf()")
        self.execute(f"create database {TEMPLATE}")
        self.run(migrations.upgrade(self.url_of(TEMPLATE)))

    @contextmanager
    def database(self, template: str = TEMPLATE) -> Generator[str]:
        """Clone a database for the length of a block and give its URL."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"create database {name} template {template} strategy file_copy")
        try:
            yield self.url_of(name)
        finally:
            self.execute(f"drop database {name} with (force)")


class Clock:
    """Moves the database's clock, for every connection at once, those of other processes too."""

    def __init__(self, postgres: Postgres, url: str) -> None:
        self._postgres = postgres
        self._conn: Any = postgres.run(asyncpg.connect(url))
        postgres.run(self._conn.execute(MOVABLE_CLOCK))

    def advance(self, **span: float) -> None:
        """Move on by a span, as in `advance(minutes=3)`."""
        self._postgres.run(self._conn.execute("insert into moved_clock values ($1)", timedelta(**span)))

    def close(self) -> None:
        self._postgres.run(self._conn.close())
