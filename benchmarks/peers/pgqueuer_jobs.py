"""pgqueuer's own worker on no-op jobs, in batches, until none is left. Run by the peers' Python: DSN JOBS BATCH."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import json
import logging
import sys
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import AsyncpgPoolDriver, Queries, QueueManager
from pgqueuer.domain.types import QueueExecutionMode


async def main(dsn: str, jobs: int, batch: int) -> None:
    logging.disable(logging.WARNING)
    async with asyncpg.create_pool(dsn, min_size=2, max_size=10) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()
        for _ in range(0, jobs, 1000):
            await queries.enqueue(["noop"] * 1000, [b"x"] * 1000, [0] * 1000)
        await pool.execute("vacuum (analyze, freeze) pgqueuer")
        await pool.execute("checkpoint")
        manager = QueueManager(queries)
        done = 0

        @manager.entrypoint("noop")
        async def noop(_job: object) -> None:
            nonlocal done
            done += 1

        start = time.perf_counter()
        await manager.run(batch_size=batch, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=1))
        spent = time.perf_counter() - start
    print(json.dumps({"per_second": done / spent}))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
