"""What every test may ask for: a migrated database of its own, a Valkey, an App on both, a clock that can be moved."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import asyncpg
import pytest

from support.databases import Clock, Postgres
from support.lab import Lab
from support.rows import Sql
from support.servers import Servers, running_servers
from support.serving import Serve, ServerProcess, StartCommand, commands, server_processes
from warploom.app import App, build_app
from warploom.config import Settings

OpenApp = Callable[..., Awaitable[App]]


@pytest.fixture(scope="session")
def servers() -> Generator[Servers]:
    """The Postgres and the Valkey of this run."""
    with running_servers() as servers:
        yield servers


@pytest.fixture(scope="session")
def postgres(servers: Servers) -> Generator[Postgres]:
    """The Postgres of this run as its superuser sees it, with a migrated template."""
    postgres = Postgres(servers.postgres_url)
    postgres.make_template()
    yield postgres
    postgres.close()


@pytest.fixture(scope="session")
def redis_url(servers: Servers) -> str:
    """The Valkey of this run."""
    return servers.redis_url


@pytest.fixture
def database_url(postgres: Postgres) -> Generator[str]:
    """A migrated database of the test's own."""
    with postgres.database() as url:
        yield url


@pytest.fixture(scope="module")
def module_database_url(postgres: Postgres) -> Generator[str]:
    """A migrated database that the tests of a module share."""
    with postgres.database() as url:
        yield url


@pytest.fixture(scope="session")
def untouched_url(postgres: Postgres) -> Generator[str]:
    """A migrated database that all tests share and none writes to."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def clock(postgres: Postgres, database_url: str) -> Generator[Clock]:
    """The clock of the test's database: `clock.advance(minutes=3)` moves it for every connection and process at once."""
    clock = Clock(postgres, database_url)
    yield clock
    clock.close()


@pytest.fixture
async def sql(database_url: str) -> AsyncGenerator[Sql]:
    """A connection to the test's database, past every service."""
    conn = await asyncpg.connect(database_url)
    yield conn
    await conn.close()


@pytest.fixture
async def schema(untouched_url: str) -> AsyncGenerator[Sql]:
    """A connection to the database that none writes to."""
    conn = await asyncpg.connect(untouched_url)
    yield conn
    await conn.close()


@pytest.fixture
async def open_app(database_url: str, redis_url: str, tmp_path: Path) -> AsyncGenerator[OpenApp]:
    """Open Apps on the test's database, as many as there are servers: `await open_app(lease_minutes=1)`."""
    async with AsyncExitStack() as stack:

        async def start(**settings: object) -> App:
            environment = {
                "WARPLOOM_HOME": str(tmp_path),
                "WARPLOOM_DATABASE_URL": database_url,
                "WARPLOOM_REDIS_URL": redis_url,
            } | {f"WARPLOOM_{name.upper()}": str(value) for name, value in settings.items()}
            app = build_app(Settings.load(environment), url="http://127.0.0.1:8765")
            await app.start()
            stack.push_async_callback(app.stop)
            return app

        yield start


@pytest.fixture
async def app(open_app: OpenApp) -> App:
    """An App with its database open and its bus started, the default settings, no orchestrator."""
    return await open_app()


@pytest.fixture
def lab(app: App) -> Lab:
    """Hosts, agents and requests in the App."""
    return Lab(app)


@pytest.fixture
def serve(database_url: str, redis_url: str, tmp_path: Path) -> Generator[Serve]:
    """Start server processes on the test's database: `first, second = serve(2, redis_url="none")`."""
    with ExitStack() as stack:

        def start(count: int = 1, **settings: object) -> list[ServerProcess]:
            given = {"database_url": database_url, "redis_url": redis_url} | settings
            return stack.enter_context(server_processes(tmp_path, *[given] * count))

        yield start


@pytest.fixture
def command(tmp_path: Path) -> Generator[StartCommand]:
    """Start commands that run beside the test: `command("wait", "T-1", url=server.url)`."""
    with commands(tmp_path) as start:
        yield start
