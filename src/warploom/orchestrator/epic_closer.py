"""Closes epics all of whose tasks are over, as a net under the changes that close them."""

from warploom.orchestrator.reach import Reach

NAME = "epic closer"
SECONDS = 60.0


async def run_once(reach: Reach) -> int:
    """Close every such epic; return how many."""
    return await reach.repairs.close_epics()
