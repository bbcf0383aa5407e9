"""Passes cards on whose offers were not accepted in time."""

from warploom.domain.leases import LeaseState
from warploom.orchestrator.reach import Reach
from warploom.store.leases import due_leases

NAME = "offer lapser"
SECONDS = 1.0


async def run_once(reach: Reach) -> int:
    """Lapse every due offer, each in its own transaction; return how many lapsed."""
    async with reach.database.connection() as conn:
        due = await due_leases(conn, LeaseState.OFFERED)
    return sum([await reach.leases.lapse(lease) for lease in due])
