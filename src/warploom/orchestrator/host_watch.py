"""Notes hosts that have stopped reporting; nothing is granted on them meanwhile."""

from warploom.orchestrator.reach import Reach

NAME = "host watch"
SECONDS = 5.0


async def run_once(reach: Reach) -> int:
    """Note each host that has just fallen silent; return how many."""
    return await reach.hosts.note_silent()
