"""Errands: asked for by operators, taken up by their host, answered by it, or lapsed."""

import time
from collections.abc import Sequence
from dataclasses import replace

from warploom.bus.hints import POLL_SECONDS
from warploom.domain.errands import (
    Errand,
    ErrandAnswer,
    ErrandKind,
    ErrandState,
    ErrandView,
    KillOrder,
    KillWish,
    Outcome,
    ProbeOrder,
    tell_errand,
    tell_fate,
)
from warploom.domain.errors import Collision, NotFound
from warploom.domain.events import EventKind
from warploom.domain.identifiers import ErrandId, LeaseId, errand_name, lease_name
from warploom.domain.processes import ProcessIdentity
from warploom.domain.readings import read_host_name, read_outcome
from warploom.domain.sessions import Actor
from warploom.services.changes import Change, Changes, errand_topic, repeated
from warploom.services.kills import ask_kill, finish_kill
from warploom.services.probes import ask_probe, finish_probe
from warploom.store import cards as card_store
from warploom.store import errands as errand_store
from warploom.store.database import Connection
from warploom.store.errands import KnownErrand, TakenErrand

_LONGEST_WAIT_SECONDS = 55.0


class ErrandService:
    """What operators have hosts do, and what came of it."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    @repeated
    async def kill(self, actor: Actor, lease: LeaseId, wish: KillWish, *, preview: bool) -> ErrandAnswer:
        """End all processes of a lease, live or ended; with `preview` only say what that would mean.

        Asking again before the host has answered finds the same errand.
        """
        async with self._changes.begin() as change:
            return await ask_kill(change, actor, lease, wish, preview=preview)

    @repeated
    async def probe(self, actor: Actor, card: str, reason: str | None, *, preview: bool) -> ErrandAnswer:
        """Have its host use a card a little; with `preview` only say what that would mean.

        One that passes gives a quarantined card back, one that fails keeps it out or takes it out.
        """
        async with self._changes.begin() as change:
            return await ask_probe(change, actor, card, reason, preview=preview)

    async def wait(self, errand: ErrandId, seconds: float) -> ErrandView:
        """Show an errand once it is answered or has lapsed, after `seconds` (55 at most) as it stands.

        Holds no database connection meanwhile.
        """
        end, bus = time.monotonic() + max(0.0, min(seconds, _LONGEST_WAIT_SECONDS)), self._changes.bus
        with bus.listen(errand_topic(errand)) as listener:
            while True:
                async with self._changes.database.connection() as conn:
                    known = await _known(conn, errand)
                left = end - time.monotonic()
                if known.state.is_over or bus.is_closing or left <= 0:
                    return _view(known)
                await listener.wait(min(POLL_SECONDS, left))

    @repeated
    async def answer(self, host: str, errand: ErrandId, outcome: Outcome) -> ErrandView:
        """Note what a host says came of an errand of its own; saying it twice is success, and the first word stands."""
        name, clean = read_host_name(host), read_outcome(outcome)
        async with self._changes.begin() as change:
            known = await _known(change.conn, errand)
            if known.host_name != name:
                raise _no_errand(errand)
            await card_store.lock_cards(change.conn, [known.host])
            if (await _known(change.conn, errand)).state is not ErrandState.ANSWERED:
                followed = await _finish(change, known, clean)
                if not await errand_store.answer(change.conn, errand, replace(clean, followed=followed)):
                    raise Collision("It was answered at this moment.", "Nothing was changed; try again.")
                change.topics.add(errand_topic(errand))
            return _view(await _known(change.conn, errand))

    async def lapse_due(self) -> int:
        """Close the errands that no host answered in time; return how many."""
        async with self._changes.begin() as change:
            lapsed = await errand_store.lapse_due(change.conn)
            for errand in lapsed:
                known = await _known(change.conn, errand)
                facts = {"host": known.host_name, "agent": known.asked_by, "errand": _matter(known)}
                change.tell(EventKind.ERRAND_LAPSED, facts, host=known.host, lease=known.lease)
                change.topics.add(errand_topic(errand))
        return len(lapsed)


async def take_errands(changes: Changes, host: str, having: Sequence[ErrandId]) -> list[Errand]:
    """Hand a host the open errands that it does not have in hand: what one that died had, its successor gets."""
    async with changes.database.connection() as conn:
        wanted = await errand_store.open_errands(conn, host, having)
    if not wanted:
        return []
    async with changes.begin() as change:
        taken = await errand_store.take(change.conn, wanted)
        change.topics.update(errand_topic(each.errand) for each in taken)
    return [_errand(each) for each in sorted(taken, key=lambda each: each.errand)]


async def _finish(change: Change, known: KnownErrand, outcome: Outcome) -> str | None:
    if known.kind is ErrandKind.PROBE:
        return await finish_probe(change, known, outcome)
    await finish_kill(change, known, outcome)
    return None


async def _known(conn: Connection, errand: ErrandId) -> KnownErrand:
    known = await errand_store.read(conn, errand)
    if known is None:
        raise _no_errand(errand)
    return known


def _no_errand(errand: ErrandId) -> NotFound:
    return NotFound(f"There is no errand {errand_name(errand)}.", "`warploom events` tells what was asked of hosts.")


def _errand(taken: TakenErrand) -> Errand:
    name, facts = errand_name(taken.errand), taken.facts
    if taken.kind is ErrandKind.PROBE:
        return Errand(name, probe=ProbeOrder(taken.uuid or ""))
    return Errand(
        name,
        kill=KillOrder(
            lease_name(taken.lease or 0),
            [ProcessIdentity(pid, started) for pid, started in facts["processes"]],
            [ProcessIdentity(pid, started) for pid, started in facts["spared"]],
            facts["grace_seconds"],
        ),
    )


def _matter(known: KnownErrand) -> str:
    if known.kind is ErrandKind.PROBE:
        return f"the probe of {known.card_name}"
    return f"the end of the processes of {lease_name(known.lease or 0)}"


def _view(known: KnownErrand) -> ErrandView:
    outcome = known.outcome
    lines = [] if outcome is None else [tell_fate(each) for each in outcome.processes]
    followed = [outcome.followed] if outcome and outcome.followed else []
    about = known.card_name if known.kind is ErrandKind.PROBE else lease_name(known.lease or 0)
    return ErrandView(
        errand=errand_name(known.errand),
        kind=known.kind,
        host=known.host_name,
        about=about or "",
        state=known.state,
        asked_by=known.asked_by,
        asked_at=known.asked_at,
        reason=known.reason,
        text=tell_errand(known.state, known.host_name, outcome),
        lines=[*lines, *followed],
        is_success=None if outcome is None else outcome.is_success,
    )
