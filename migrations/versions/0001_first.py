"""The first schema."""

from migration import run_file

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_file("0001_first.sql")
    run_file("0001_graph.sql")
