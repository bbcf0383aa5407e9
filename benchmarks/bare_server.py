"""The floor of a wake: the same hops as Warploom's, with nothing decided and nothing checked.

Run as `python -m benchmarks.bare_server DSN PORT`. A release is one commit; it rings the host's open request; the host's
survey is one commit; it rings the waiter's open request, which reads one row and answers.
"""

import asyncio
import sys
from typing import Any

import asyncpg
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


def build(dsn: str) -> Starlette:
    bells: dict[str, asyncio.Event] = {"host": asyncio.Event(), "ticket": asyncio.Event()}
    state: dict[str, Any] = {}

    async def start() -> Any:
        if "pool" not in state:
            state["pool"] = await asyncpg.create_pool(dsn, min_size=2, max_size=4)
            await state["pool"].execute("create table if not exists bare (id int primary key, turn int)")
            await state["pool"].execute("insert into bare values (1, 0) on conflict do nothing")
        return state["pool"]

    async def release(_request: Request) -> JSONResponse:
        pool = await start()
        async with pool.acquire() as conn, conn.transaction():
            await conn.execute("update bare set turn = turn + 1 where id = 1")
        bells["host"].set()
        return JSONResponse({})

    async def orders(_request: Request) -> JSONResponse:
        await bells["host"].wait()
        bells["host"].clear()
        return JSONResponse({})

    async def survey(request: Request) -> JSONResponse:
        await request.json()
        pool = await start()
        async with pool.acquire() as conn, conn.transaction():
            await conn.execute("update bare set turn = turn + 1 where id = 1")
        bells["ticket"].set()
        return JSONResponse({})

    async def wait(_request: Request) -> JSONResponse:
        pool = await start()
        await bells["ticket"].wait()
        bells["ticket"].clear()
        return JSONResponse({"turn": await pool.fetchval("select turn from bare where id = 1")})

    async def health(_request: Request) -> JSONResponse:
        await start()
        return JSONResponse({})

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/release", release, methods=["POST"]),
            Route("/orders", orders),
            Route("/survey", survey, methods=["POST"]),
            Route("/wait", wait),
        ]
    )


if __name__ == "__main__":
    uvicorn.run(build(sys.argv[1]), port=int(sys.argv[2]), log_level="error", access_log=False)
