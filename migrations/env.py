"""Runs the revisions on a connection that `warploom db upgrade` hands over, or on WARPLOOM_DATABASE_URL."""

import sys
from pathlib import Path

from alembic import context

folder = str(Path(__file__).parent)
if folder not in sys.path:
    sys.path.insert(0, folder)

connection = context.config.attributes["connection"]
context.configure(connection=connection, transactional_ddl=True, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
