"""Tells of projects that have no open task left, once each time."""

from warploom.orchestrator.reach import Reach

NAME = "project watch"
SECONDS = 2.0


async def run_once(reach: Reach) -> int:
    """Note every completed project; return how many."""
    return await reach.repairs.complete_projects()
