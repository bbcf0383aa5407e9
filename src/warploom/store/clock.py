"""The clock that judges every expiry and every due time."""

from datetime import datetime

from warploom.store.database import Connection


async def read_clock(conn: Connection) -> datetime:
    """Return what time the database has it."""
    return await conn.fetchval("select clock_now()")
