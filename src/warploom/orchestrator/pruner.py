"""Forgets old events, proposals, reservations, errands and long-gone sessions, a little at a time."""

from datetime import timedelta

from warploom.orchestrator.reach import Reach
from warploom.store.errands import prune_errands
from warploom.store.events import prune_events
from warploom.store.proposals import prune_proposals
from warploom.store.reservations import prune_reservations
from warploom.store.sessions import prune_sessions

NAME = "pruner"
SECONDS = 600.0
_BATCH = 5_000
_SESSION_AGE = timedelta(days=7)


async def run_once(reach: Reach) -> int:
    """Delete one batch of what is past its time; return how many rows went."""
    async with reach.database.connection() as conn:
        events = await prune_events(conn, reach.event_time, _BATCH)
        proposals = await prune_proposals(conn, reach.event_time, _BATCH)
        reservations = await prune_reservations(conn, reach.event_time, _BATCH)
        errands = await prune_errands(conn, reach.event_time, _BATCH)
        return events + proposals + reservations + errands + await prune_sessions(conn, _SESSION_AGE, _BATCH)
