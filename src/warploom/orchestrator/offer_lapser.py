"""Passes cards on whose offers were not accepted in time."""

from warploom.domain.leases import LeaseState
from warploom.orchestrator.endings import end_due
from warploom.orchestrator.reach import Reach

NAME = "offer lapser"
SECONDS = 1.0


async def run_once(reach: Reach) -> int:
    """Lapse every due offer; return how many lapsed."""
    return await end_due(reach, LeaseState.OFFERED, reach.leases.lapse)
