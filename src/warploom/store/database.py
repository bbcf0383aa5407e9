"""The door to Postgres: a pool whose every acquire has a deadline, and transactions that say what went wrong."""

# asyncpg ships no types; this is the one file that speaks to it, and `Connection` is what the rest sees.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any, Final, LiteralString, Protocol, TypeAlias

import asyncpg

from warploom.domain.errors import Busy, Collision, CycleFound, MalformedInput, NotReady, Unreachable, WarploomError

Record: TypeAlias = Mapping[str, Any]


class Connection(Protocol):
    """A lent connection. Statements are literals; values always travel beside them."""

    async def fetch(self, query: LiteralString, *args: object) -> list[Record]:
        """Return all rows."""
        ...

    async def fetchrow(self, query: LiteralString, *args: object) -> Record | None:
        """Return the first row, or None."""
        ...

    async def fetchval(self, query: LiteralString, *args: object) -> Any:
        """Return the first column of the first row, or None."""
        ...

    async def execute(self, query: LiteralString, *args: object) -> str:
        """Run a statement and return its command tag, such as 'DELETE 3'."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[object]:
        """Open a transaction for the length of a block."""
        ...


# The pool tells of each failed try to fill itself up with a traceback; whoever asks for a connection is told anyway.
logging.getLogger("asyncpg.pool").setLevel(logging.CRITICAL)

ACQUIRE_SECONDS: Final = 2.0
STATEMENT_SECONDS: Final = 20.0
PLANNING: Final[LiteralString] = """
set plan_cache_mode = force_generic_plan;
set seq_page_cost = 4;
set random_page_cost = 1.1;
set enable_mergejoin = off
"""
"""Statements look rows up by key: one plan serves all values, and planning costs more than running it. A table that is small
now may be large before its plans are made again, so even a table of one page is looked up in its index, and none is merged
with another from its start to where the other ended a moment ago."""

_AWAY = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that was told of its end between two statements
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
_MET = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.LockNotAvailableError)


def _away() -> Unreachable:
    return Unreachable("The database is not reachable at the moment.", "Nothing was lost; try again in a few seconds.")


def _collision() -> Collision:
    return Collision("Two changes met in the database.", "Nothing was changed; try again.")


@contextmanager
def _telling(slow: str) -> Generator[None]:
    """Raise what callers understand in place of what asyncpg raises; `slow` says what took too long."""
    try:
        yield
    except WarploomError:
        raise
    except TimeoutError as error:
        raise Busy(slow, "Try again in 2 seconds.") from error
    except _AWAY as error:
        raise _away() from error
    except _MET as error:
        raise _collision() from error
    except (asyncpg.CheckViolationError, asyncpg.UniqueViolationError, asyncpg.ExclusionViolationError) as error:
        raise _broken_rule(error) from error
    except asyncpg.InsufficientResourcesError as error:
        raise Busy(
            "The database is short of connections, memory or disk space.", "Try again shortly; its log says which."
        ) from error


def _broken_rule(error: Any) -> Exception:
    """Say which of the schema's rules that callers can break was broken; any other is a fault of ours and stays one."""
    if error.constraint_name in ("task_key", "task_fingerprint"):
        return NotReady(
            "There is another task of the same key or content by now.", "Go on with that one; nothing was changed."
        )
    if isinstance(error, asyncpg.UniqueViolationError | asyncpg.ExclusionViolationError):
        return _collision()
    if error.constraint_name == "dependency_acyclic":
        path = str(error.message).removeprefix("cycle: ")
        return CycleFound(f"That would be a cycle: {path}.", "Leave one of these dependencies out.")
    if error.constraint_name == "dependency_project":
        return MalformedInput("A dependency cannot join two projects.", "Name tasks of one project.")
    if error.constraint_name == "task_met":
        return NotReady(
            "A task that is claimed or waits for a card cannot get another dependency.",
            "Give it back first with `warploom reset`, or let it finish.",
        )
    return error


async def _prepare(conn: Any) -> None:
    for kind in ("json", "jsonb"):
        await conn.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    await conn.execute(PLANNING)


async def _keep(_conn: Any) -> None:
    """Reset nothing between uses: no session state is set after the connection is made, and it would be a round trip."""


@asynccontextmanager
async def lone_connection(dsn: str) -> AsyncGenerator[Connection]:
    """Connect outside any pool, for migrations and checks; raise Unreachable when Postgres does not answer."""
    try:
        connect: Any = asyncpg.connect
        conn = await connect(dsn, timeout=5)
    except (*_AWAY, TimeoutError) as error:
        raise _away() from error
    try:
        yield conn
    finally:
        await conn.close()


class Database:
    """A pool of connections. `connection()` reads in autocommit, `transaction()` writes."""

    def __init__(self, dsn: str, size: int) -> None:
        self.dsn = dsn
        self._size = size
        self._pool: Any = None

    async def open(self) -> None:
        """Connect once; raise Unreachable when the database does not answer."""
        try:
            self._pool = await asyncpg.create_pool(
                self.dsn,
                min_size=1,
                max_size=self._size,
                init=_prepare,
                reset=_keep,
                command_timeout=STATEMENT_SECONDS,
                timeout=5,
                max_inactive_connection_lifetime=300,
                server_settings={"application_name": "warploom"},
            )
        except (*_AWAY, TimeoutError) as error:
            raise _away() from error

    async def close(self) -> None:
        """Let running statements finish for a moment, then close every connection."""
        if self._pool is None:
            return
        try:
            async with asyncio.timeout(2):
                await self._pool.close()
        except (TimeoutError, *_AWAY):
            self._pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """Lend a connection in autocommit; raise Busy when none is free in time, Unreachable when Postgres is away."""
        if self._pool is None:
            raise _away()
        with _telling("Every database connection is in use."):
            conn = await self._pool.acquire(timeout=ACQUIRE_SECONDS)
        try:
            with _telling("The database took too long to answer."):
                yield conn
        finally:
            # One that was lost meanwhile has left the pool by itself; what was done with it stays done or undone.
            with suppress(*_AWAY):
                await self._pool.release(conn)  # goes through even when the caller is cancelled

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """Lend a connection inside a transaction that commits when the block ends and rolls back when it raises."""
        async with self.connection() as conn, conn.transaction():
            yield conn
