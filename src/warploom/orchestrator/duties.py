"""The orchestrator: every duty in turn, by whichever replica leads."""

import asyncio
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from warploom.domain.errors import WarploomError
from warploom.domain.texts import spoken_duration
from warploom.orchestrator import (
    epic_closer,
    errand_lapser,
    grant_maker,
    host_watch,
    lease_reaper,
    offer_lapser,
    project_watch,
    proposal_watch,
    pruner,
    reservation_watch,
    retry_timer,
    session_watch,
    subtree_blocker,
)
from warploom.orchestrator.reach import Reach
from warploom.services.health import LEADER
from warploom.store.leaders import give_lead_up, take_lead, unled_for
from warploom.store.leases import spare_leases
from warploom.store.migrations import read_status, require_current
from warploom.telemetry.logs import get_logger

LEAD_TIME: Final = timedelta(seconds=10)
UNHEARD_TIME: Final = timedelta(seconds=2)
RESPITE: Final = timedelta(seconds=30)
"""After a time in which no server (or no database) was there, or the machine slept, nobody could show a sign of life: every
holder gets this long to show up before silence counts against it."""

_ROUND_SECONDS: Final = 1.0
_log = get_logger("orchestrator")


@dataclass(frozen=True, slots=True)
class Duty:
    """Something that happens by itself, at most this often. `run_once` says how much it did."""

    name: str
    seconds: float
    run_once: Callable[[Reach], Awaitable[int]]


DUTIES: Final = tuple(
    Duty(module.NAME, module.SECONDS, module.run_once)
    for module in (
        lease_reaper,
        offer_lapser,
        retry_timer,
        host_watch,
        errand_lapser,
        session_watch,
        reservation_watch,
        proposal_watch,
        grant_maker,
        subtree_blocker,
        epic_closer,
        project_watch,
        pruner,
    )
)


async def run_all(reach: Reach) -> dict[str, int]:
    """Do every duty once, whoever leads; each is safe to do twice. Return what each did."""
    return {duty.name: await duty.run_once(reach) for duty in DUTIES}


class Orchestrator:
    """Does the duties that are due while it holds the leader row, which it takes over when it has expired."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._me = f"server {os.getpid()} ({uuid.uuid4().hex[:6]})"
        self._done: dict[str, float] = {}
        self._leads = False

    async def run_forever(self) -> None:
        """Lead when possible and do what is due, until cancelled; a failed round is logged and tried again."""
        try:
            while True:
                try:
                    await self._round()
                except WarploomError as error:
                    _log.warning("a round failed: %s", error.cause)
                except Exception:  # noqa: BLE001 - the loop must survive a failed round
                    _log.exception("a round failed")
                await asyncio.sleep(_ROUND_SECONDS)
        finally:
            await self._step_down()

    async def _round(self) -> None:
        async with self._reach.database.transaction() as conn:
            require_current(await read_status(conn))
            unled = await unled_for(conn, LEADER)
            leads = await take_lead(conn, LEADER, self._me, LEAD_TIME)
            spared = await spare_leases(conn, RESPITE) if leads and unled > UNHEARD_TIME else 0
        if spared:
            _log.info("nobody led for %s: %d leases are spared for a moment", spoken_duration(unled), spared)
        if leads != self._leads:
            _log.info("%s %s", self._me, "leads" if leads else "follows")
        self._leads = leads
        if not leads:
            return
        for duty in DUTIES:
            now = time.monotonic()
            if now - self._done.get(duty.name, -duty.seconds) >= duty.seconds:
                self._done[duty.name] = now
                await self._do(duty)

    async def _do(self, duty: Duty) -> None:
        """Do a duty; one that fails is logged, keeps no other from being done, and has its turn again."""
        try:
            done = await duty.run_once(self._reach)
        except WarploomError as error:
            _log.warning("%s failed: %s", duty.name, error.cause)
        except Exception:  # noqa: BLE001 - the other duties must be done whatever one meets
            _log.exception("%s failed", duty.name)
        else:
            if done:
                _log.info("%s: %d", duty.name, done)

    async def _step_down(self) -> None:
        if self._leads:
            with suppress(WarploomError, TimeoutError):
                async with asyncio.timeout(1), self._reach.database.connection() as conn:
                    await give_lead_up(conn, LEADER, self._me)
