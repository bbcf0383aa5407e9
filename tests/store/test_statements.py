import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import asyncpg
import pytest

import warploom.store
from support.rows import Sql

KEYWORDS = ("select", "insert", "update", "delete", "with")


def store_modules() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(warploom.store.__path__, "warploom.store."):
        yield importlib.import_module(found.name)


def statements() -> Iterator[tuple[str, str]]:
    """Every constant of the store that is a statement, and not a part of others."""
    for module in store_modules():
        for name, value in vars(module).items():
            if isinstance(value, str) and value.strip().lower().startswith(KEYWORDS):
                yield f"{module.__name__.rpartition('.')[2]}.{name}", value


ALL = dict(statements())


@pytest.mark.parametrize("name", ALL)
async def test_a_statement_of_the_store_prepares_against_the_migrated_schema(schema: Sql, name: str) -> None:
    try:
        await schema.prepare(ALL[name])
    except asyncpg.PostgresError as error:
        pytest.fail(f"{name}: {error}")


def test_the_store_is_looked_through_whole() -> None:
    assert len(ALL) > 40
    assert {name.partition(".")[0] for name in ALL} >= {
        "cards",
        "events",
        "hosts",
        "leases",
        "queues",
        "sessions",
        "tickets",
    }
