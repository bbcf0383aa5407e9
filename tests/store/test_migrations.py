import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from support.databases import Postgres
from support.rows import Sql, add_session, add_ticket
from warploom.app import build_app
from warploom.assets import asset_dir
from warploom.config import Settings
from warploom.domain.errors import SchemaMismatch, Unreachable
from warploom.store import migrations

NEXT = """
from migration import run_file

revision = "0002"
down_revision = "0001"


def upgrade():
    run_file("0002_next.sql")
"""


@pytest.fixture
def empty_url(postgres: Postgres) -> Iterator[str]:
    with postgres.database("template0") as url:
        yield url


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the migrations that has one revision more, whose SQL the test writes."""
    folder = tmp_path / "migrations"
    shutil.copytree(asset_dir("migrations"), folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "0002_next.py").write_text(NEXT)
    monkeypatch.setattr(migrations, "asset_dir", lambda _kind: folder)
    return folder / "sql" / "0002_next.sql"


async def tables(url: str) -> set[str]:
    conn = await asyncpg.connect(url)
    rows = await conn.fetch(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
    )
    await conn.close()
    return {row["relname"] for row in rows}


async def shape(url: str) -> list[str]:
    """Every column, constraint, index, trigger and function of a schema, as text."""
    conn = await asyncpg.connect(url)
    rows = await conn.fetch(
        """
        select 'column ' || attrelid::regclass || '.' || attname || ' ' || format_type(atttypid, atttypmod) || ' '
          || attnotnull || ' ' || coalesce(pg_get_expr(adbin, adrelid), '') as line
        from pg_attribute
        join pg_class on pg_class.oid = attrelid and relnamespace = 'public'::regnamespace and relkind = 'r'
        left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where attnum > 0
        union all
        select 'constraint ' || conrelid::regclass || ' ' || pg_get_constraintdef(pg_constraint.oid)
        from pg_constraint where connamespace = 'public'::regnamespace and conrelid <> 0
        union all
        select 'index ' || indexdef from pg_indexes where schemaname = 'public'
        union all
        select 'trigger ' || pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
        union all
        select 'function ' || pg_get_functiondef(oid) from pg_proc where pronamespace = 'public'::regnamespace
        order by 1
        """
    )
    await conn.close()
    return [row["line"] for row in rows]


async def test_an_empty_database_is_brought_to_the_newest_revision(empty_url: str) -> None:
    assert await migrations.status(empty_url) == migrations.SchemaStatus(None, migrations.known_revisions()[-1])
    assert (await migrations.upgrade(empty_url)).is_current


async def test_the_same_revisions_give_the_same_schema(empty_url: str, untouched_url: str) -> None:
    await migrations.upgrade(empty_url)
    assert await shape(empty_url) == await shape(untouched_url)


async def test_upgrading_again_changes_nothing(empty_url: str) -> None:
    await migrations.upgrade(empty_url)
    before = await shape(empty_url)
    assert (await migrations.upgrade(empty_url)).is_current
    assert await shape(empty_url) == before


async def test_servers_that_upgrade_at_once_leave_one_schema(empty_url: str, untouched_url: str) -> None:
    async with asyncio.timeout(60):
        statuses = await asyncio.gather(*(migrations.upgrade(empty_url) for _ in range(4)))
    assert all(status.is_current for status in statuses)
    assert await shape(empty_url) == await shape(untouched_url)


async def test_a_crash_in_a_migration_leaves_neither_its_tables_nor_its_version(empty_url: str, newer: Path) -> None:
    newer.write_text(
        "create table half (id int);\ninsert into half values (1);\nselect 1 / 0;\ncreate table rest (id int);"
    )
    with pytest.raises(Exception, match="division by zero"):
        await migrations.upgrade(empty_url)
    assert await migrations.status(empty_url) == migrations.SchemaStatus("0001", "0002")
    assert not {"half", "rest"} & await tables(empty_url)
    newer.write_text("create table half (id int);\ncreate table rest (id int);")
    assert (await migrations.upgrade(empty_url)).is_current
    assert {"half", "rest"} <= await tables(empty_url)


async def test_a_crash_after_the_sql_of_a_migration_leaves_nothing_of_it(empty_url: str, newer: Path) -> None:
    newer.write_text("create table half (id int);")
    revision = newer.parent.parent / "versions" / "0002_next.py"
    revision.write_text(f"{NEXT}    raise RuntimeError('killed')\n")
    with pytest.raises(RuntimeError, match="killed"):
        await migrations.upgrade(empty_url)
    assert await migrations.status(empty_url) == migrations.SchemaStatus("0001", "0002")
    assert "half" not in await tables(empty_url)


async def test_a_crash_in_the_first_migration_leaves_an_empty_database(empty_url: str, newer: Path) -> None:
    first = newer.with_name("0001_first.sql")
    first.write_text(first.read_text() + "\nselect 1 / 0;\n")
    with pytest.raises(Exception, match="division by zero"):
        await migrations.upgrade(empty_url)
    assert (await migrations.status(empty_url)).current is None
    assert await tables(empty_url) <= {"alembic_version"}


async def test_an_upgrade_keeps_the_queue(database_url: str, sql: Sql, newer: Path) -> None:
    """Casebook C34."""
    await add_session(sql)
    task = await add_ticket(sql, title="train")
    newer.write_text("alter table task add column colour text check (char_length(colour) <= 20);")
    assert (await migrations.upgrade(database_url)).current == "0002"
    assert await sql.fetchval("select title from task where id = $1 and colour is null", task) == "train"


async def test_a_binary_older_than_the_schema_refuses_and_says_so(database_url: str, sql: Sql, tmp_path: Path) -> None:
    """Casebook C34."""
    await sql.execute("update alembic_version set version_num = '0999'")
    before = await shape(database_url)
    app = build_app(Settings.load({"WARPLOOM_HOME": str(tmp_path), "WARPLOOM_DATABASE_URL": database_url}))
    for upgrade in (True, False):
        with pytest.raises(SchemaMismatch, match="newer than this Warploom's") as refusal:
            await app.start(upgrade=upgrade)
        assert "Install the newer Warploom" in refusal.value.next_step
    assert await shape(database_url) == before


async def test_a_binary_newer_than_the_schema_asks_for_the_upgrade_where_it_may_not_do_it(empty_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="has schema none, older") as refusal:
        await migrations.require(empty_url)
    assert "warploom db upgrade" in refusal.value.next_step
    assert await tables(empty_url) == set()


async def test_a_database_that_does_not_answer_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="not reachable"):
        await migrations.upgrade(f"postgresql://postgres@/nothing?host={tmp_path}")
