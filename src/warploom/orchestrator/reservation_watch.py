"""Follows the windows of reservations: grants what their beginning or end makes possible, and tells who runs into one."""

from warploom.orchestrator.reach import Reach

NAME = "reservation watch"
SECONDS = 1.0


async def run_once(reach: Reach) -> int:
    """Follow every window that has begun or ended; return how many."""
    return await reach.reservations.turn()
