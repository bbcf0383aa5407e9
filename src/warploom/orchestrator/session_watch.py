"""Tells of sessions that hold something and have fallen silent, once each time."""

from warploom.orchestrator.reach import Reach

NAME = "session watch"
SECONDS = 5.0


async def run_once(reach: Reach) -> int:
    """Note every such session; return how many."""
    return await reach.repairs.note_silent()
