"""Ends leases whose holders were silent for a whole lease time, by the database's clock."""

from warploom.domain.leases import LeaseState
from warploom.orchestrator.reach import Reach
from warploom.store.leases import due_leases

NAME = "lease reaper"
SECONDS = 1.0


async def run_once(reach: Reach) -> int:
    """End every expired lease, each in its own transaction; return how many ended."""
    async with reach.database.connection() as conn:
        due = await due_leases(conn, LeaseState.ACTIVE)
    return sum([await reach.leases.expire(lease) for lease in due])
