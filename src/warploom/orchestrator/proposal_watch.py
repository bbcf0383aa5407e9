"""Follows proposals: lapses those that nobody answered, tells holders when their word is due, and closes what is over."""

from warploom.orchestrator.reach import Reach

NAME = "proposal watch"
SECONDS = 1.0


async def run_once(reach: Reach) -> int:
    """Follow every proposal on which time or events have decided; return how many."""
    return await reach.agreements.turn()
