"""Blocks what waits for tasks that will not be done, as a net under the changes that block it."""

from warploom.orchestrator.reach import Reach

NAME = "subtree blocker"
SECONDS = 300.0


async def run_once(reach: Reach) -> int:
    """Block every such subtree; return behind how many tasks."""
    return await reach.repairs.block_strays()
