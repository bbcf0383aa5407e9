"""Finished runs: how long jobs of the same purpose took. They are written by the statement that ends their lease."""

from typing import Final, LiteralString

from warploom.domain.histories import MOST_RUNS, PastRun
from warploom.domain.identifiers import TaskId
from warploom.store.database import Connection

_LATEST: Final[LiteralString] = """
select run.length, run.model
from task join run on run.project_id = task.project_id and run.job = task.title
where task.id = $1
order by run.ended_at desc
limit $2
"""


async def runs_like(conn: Connection, task: TaskId) -> list[PastRun]:
    """Read the latest finished runs of a task's purpose: the same job in the same project, whoever ran it."""
    return [PastRun(row["length"], row["model"]) for row in await conn.fetch(_LATEST, task, MOST_RUNS)]
