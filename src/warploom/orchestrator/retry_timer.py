"""Lets failed tasks be claimed again once the time for another attempt has come."""

from warploom.orchestrator.reach import Reach

NAME = "retry timer"
SECONDS = 1.0


async def run_once(reach: Reach) -> int:
    """Put every due task back; return how many."""
    return await reach.repairs.retry_due()
