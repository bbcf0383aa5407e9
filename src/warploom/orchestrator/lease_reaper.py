"""Ends leases whose holders were silent for a whole lease time, by the database's clock."""

from warploom.domain.leases import LeaseState
from warploom.orchestrator.endings import end_due
from warploom.orchestrator.reach import Reach

NAME = "lease reaper"
SECONDS = 1.0


async def run_once(reach: Reach) -> int:
    """End every expired lease and shorten those that a clock set back would keep alive; return how many were either."""
    ended = await end_due(reach, LeaseState.ACTIVE, reach.leases.expire)
    return ended + await reach.leases.shorten_ahead()
