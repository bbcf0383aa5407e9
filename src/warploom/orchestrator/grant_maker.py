"""Makes the grants that became possible without anybody's call, as a net under the changes that make them."""

from warploom.orchestrator.reach import Reach

NAME = "grant maker"
SECONDS = 10.0


async def run_once(reach: Reach) -> int:
    """Put strays back into their queues and grant what is possible on every host; return how many grants were made."""
    return await reach.tickets.grant_everywhere()
