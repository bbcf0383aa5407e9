"""Closes errands that their host did not answer in time, and says so."""

from warploom.orchestrator.reach import Reach

NAME = "errand lapser"
SECONDS = 5.0


async def run_once(reach: Reach) -> int:
    """Lapse every errand whose time is over; return how many."""
    return await reach.errands.lapse_due()
