"""Runs a readable SQL file as one Alembic revision, inside its transaction."""

from pathlib import Path
from typing import Any

from alembic import op
from sqlalchemy import text


def run_file(name: str) -> None:
    """Send every statement of `sql/<name>`, in the folder that is being run, through the driver.

    The driver starts the transaction only at its first own statement, so one is executed before: without it, a second
    revision's file would run outside the transaction and survive a crash half done.
    """
    connection = op.get_bind()
    connection.execute(text("select 1"))
    config = op.get_context().config
    assert config is not None
    folder = Path(config.get_main_option("script_location") or ".")
    statements = (folder / "sql" / name).read_text(encoding="utf-8")
    adapted: Any = connection.connection.dbapi_connection
    adapted.run_async(lambda driver: driver.execute(statements))
