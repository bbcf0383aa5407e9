"""procrastinate's own worker on no-op jobs. Run by the peers' Python: DSN JOBS CONCURRENCY SECONDS."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false

import asyncio
import json
import logging
import sys
import time
from contextlib import suppress

import procrastinate
import psycopg

_SEED = """
insert into procrastinate_jobs (queue_name, task_name, args)
select 'default', 'noop', jsonb_build_object('number', n) from generate_series(1, %s) as n
"""


async def main(dsn: str, jobs: int, concurrency: int, seconds: float) -> None:
    logging.disable(logging.WARNING)
    connector = procrastinate.PsycopgConnector(conninfo=dsn, min_size=2, max_size=10)
    app = procrastinate.App(connector=connector)
    done = 0

    @app.task(name="noop")
    async def noop(number: int) -> None:
        nonlocal done
        done += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            await conn.execute(_SEED, (jobs,))
            await conn.execute("vacuum (analyze, freeze) procrastinate_jobs")
            await conn.execute("checkpoint")
        worker = asyncio.create_task(
            app.run_worker_async(
                concurrency=concurrency, wait=False, install_signal_handlers=False, listen_notify=False
            )
        )
        while not done:
            await asyncio.sleep(0.005)
        start, before = time.perf_counter(), done
        await asyncio.wait([worker], timeout=seconds)
        spent, after = time.perf_counter() - start, done
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker
    print(json.dumps({"per_second": (after - before) / spent}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
