"""Ends the leases whose time is over, one by one, so that one that cannot be ended keeps no other from it."""

from collections.abc import Awaitable, Callable

from warploom.domain.identifiers import LeaseId
from warploom.domain.leases import LeaseState
from warploom.orchestrator.reach import Reach
from warploom.store.leases import due_leases
from warploom.telemetry.logs import get_logger

_log = get_logger("orchestrator")


async def end_due(reach: Reach, state: LeaseState, end: Callable[[LeaseId], Awaitable[bool]]) -> int:
    """End every due lease in `state`, each in its own transaction; return how many ended, and log those that failed."""
    async with reach.database.connection() as conn:
        due = await due_leases(conn, state)
    ended = 0
    for lease in due:
        try:
            ended += await end(lease)
        except Exception:  # noqa: BLE001 - the next lease has its right too
            _log.exception("lease %d could not be ended", lease)
    return ended
