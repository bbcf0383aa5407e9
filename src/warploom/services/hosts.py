"""Hosts: what their surveys mean for cards, leases and grants, and when they are asked for a look."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from warploom.bus.hints import POLL_SECONDS
from warploom.domain.card_rules import NO_RULES, CardRules
from warploom.domain.cards import IDLE_TIME, Condition, Owner
from warploom.domain.events import EventKind
from warploom.domain.hosts import CardFact, CardFault, Orders, Survey, SurveyAnswer
from warploom.domain.identifiers import CardId, ErrandId, LeaseId, SessionId
from warploom.domain.instances import say_divided
from warploom.domain.limits import say_unnamed
from warploom.domain.messages import WARPLOOM
from warploom.domain.readings import read_host_name, read_survey
from warploom.domain.reminders import remind_stayers
from warploom.domain.surveys import (
    Judgement,
    OwnedProcess,
    Remembered,
    SurveyRules,
    attribute,
    judge,
    tell_process,
)
from warploom.domain.texts import spoken_duration, spoken_memory
from warploom.services.breaker import break_faulty, weigh_xids
from warploom.services.changes import Change, Changes, host_topic, repeated
from warploom.services.endings import foretell_end
from warploom.services.errands import take_errands
from warploom.services.grants import GrantTimes, Round, grant_possible
from warploom.services.probes import probe_suspects
from warploom.services.queues import widen_queues
from warploom.services.reminders import remind_idle, remind_lost
from warploom.store import cards as card_store
from warploom.store import hosts as host_store
from warploom.store import leases as lease_store
from warploom.store import sessions as session_store
from warploom.store.hosts import RememberedCard, SavedHost

LEAST_SILENCE = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class _Judged:
    fact: CardFact
    processes: list[OwnedProcess]
    judgement: Judgement
    remembered: RememberedCard | None

    @property
    def is_clear_suspect(self) -> bool:
        """Whether it is clear, and to be probed because jobs failed on it."""
        is_suspect = self.remembered is not None and self.remembered.awaits_probe
        return is_suspect and self.judgement.condition is Condition.CLEAR

    @property
    def rules(self) -> CardRules:
        """The rules that its host told, or the ones known so far where it told none."""
        known = self.remembered.rules if self.remembered is not None else NO_RULES
        return known if self.fact.rules is None else self.fact.rules


class HostService:
    """What host agents tell and are told."""

    def __init__(self, changes: Changes, times: GrantTimes, rules: SurveyRules) -> None:
        self._changes = changes
        self._times = times
        self._rules = rules

    @repeated
    async def record_survey(self, name: str, survey: Survey) -> SurveyAnswer:
        """Judge every card by one survey, keep leases alive whose processes were seen, and grant what became possible.

        A process of an offered lease on its card accepts the offer. All of it is one transaction.
        """
        host_name, survey = read_host_name(name), read_survey(survey)
        async with self._changes.begin() as change:
            saved = await host_store.save_host(change.conn, host_name, survey)
            await card_store.lock_cards(change.conn, [saved.host])
            known = await host_store.remembered_cards(change.conn, saved.host)
            judged = await self._judge(change, host_name, saved, survey, known)
            ids = await host_store.save_cards(
                change.conn, saved.host, [_row(each) for each in judged], survey.age_seconds
            )
            self._tell(change, host_name, saved, judged, ids)
            await self._keep_alive(change, judged)
            await self._remind(change, host_name, saved, judged)
            if any(each.fact.ecc_errors for each in judged):
                await break_faulty(change, saved.host)
            xids = {ids[each.fact.uuid][0]: each.fact.xids for each in judged if each.fact.xids}
            if xids:
                await weigh_xids(change, saved.host, xids, saved.now)
            suspects = {ids[each.fact.uuid][0] for each in judged if each.is_clear_suspect}
            if suspects:
                await probe_suspects(change, saved.host, suspects)
            if any(is_new for _, is_new in ids.values()):
                await widen_queues(change.conn, await card_store.read_cards(change.conn))
            if any(since <= saved.now - IDLE_TIME for each in judged if (since := each.judgement.idle_since)):
                await remind_idle(change, saved.host, saved.now)
            await grant_possible(change, self._times, Round([saved.host]), saved.now)
        conditions = {each.fact.uuid: each.judgement.condition.value for each in judged}
        return SurveyAnswer(saved.now, survey.interval_seconds, conditions)

    async def orders(self, name: str, seconds: float, having: Sequence[ErrandId] = ()) -> Orders:
        """Wait until a look at the cards is wanted or an errand waits, at most `seconds`; holds no database connection.

        `having` are the errands that the host has in hand: they are not told again.
        """
        end = time.monotonic() + max(0.0, min(seconds, 55.0))
        host = read_host_name(name)
        with self._changes.bus.listen(host_topic(host)) as listener:
            while True:
                errands = await take_errands(self._changes, host, having)
                async with self._changes.database.connection() as conn:
                    is_wanted = await host_store.wants_survey(conn, host)
                left = end - time.monotonic()
                if errands or is_wanted or left <= 0:
                    return Orders(survey=is_wanted, cursor="", errands=errands)
                if await listener.wait(min(left, POLL_SECONDS)):
                    return Orders(survey=True, cursor="", errands=await take_errands(self._changes, host, having))

    async def note_silent(self) -> int:
        """Note hosts that have stopped reporting; their cards are not granted meanwhile. Return how many are new."""
        async with self._changes.begin() as change:
            silent = await host_store.mark_silent(change.conn, LEAST_SILENCE)
            for host in silent:
                facts = {"host": host.name, "silent": spoken_duration(host.silent)}
                change.tell(EventKind.HOST_SILENT, facts, host=host.host)
            return len(silent)

    async def _judge(
        self, change: Change, name: str, saved: SavedHost, survey: Survey, known: dict[str, RememberedCard]
    ) -> list[_Judged]:
        facts = survey.cards if survey.problem is None else []
        facts = [*facts, *_missing(facts, known, survey.problem)]
        processes = [process for fact in facts for process in fact.processes]
        named = [int(digits) for process in processes if _is_number(digits := (process.lease or "").removeprefix("L-"))]
        leases = await host_store.leases_on_host(change.conn, saved.host, named) if processes else {}
        lineage = {(each.pid, each.started) for process in processes for each in (process, *process.ancestors)}
        sessions = await host_store.sessions_of_processes(change.conn, name, sorted(lineage)) if lineage else {}
        rules = replace(self._rules, unnamed=say_unnamed(survey.limits))
        # A look that began before a release has seen the time before it: the card still has to be observed clear.
        seen_at = saved.now - timedelta(seconds=max(0.0, survey.age_seconds))
        judged: list[_Judged] = []
        for fact in facts:
            owned = [attribute(process, fact.uuid, leases, sessions) for process in fact.processes]
            remembered = known.get(fact.uuid)
            before = remembered.before.as_of(saved.now, rules) if remembered else _unknown(saved.now)
            judgement = judge(fact, owned, before, saved.now, rules)
            if before.condition is Condition.SETTLING and before.since >= seen_at:
                judgement = replace(judgement, condition=before.condition, since=before.since)
            judged.append(_Judged(fact, owned, judgement, remembered))
        ghosts = [each.fact.uuid for each in judged if each.judgement.condition is Condition.GHOST]
        holders = await host_store.last_holders(change.conn, ghosts) if ghosts else {}
        return [_with_holder_of_record(each, holders.get(each.fact.uuid)) for each in judged]

    def _tell(
        self, change: Change, name: str, saved: SavedHost, judged: list[_Judged], ids: dict[str, tuple[CardId, bool]]
    ) -> None:
        if saved.is_new:
            change.tell(EventKind.HOST_FOUND, {"host": name}, host=saved.host)
        elif saved.silent_since is not None:
            change.tell(EventKind.HOST_BACK, {"host": name}, host=saved.host)
        for each in judged:
            card, is_new = ids[each.fact.uuid]
            alias = f"{name}/{each.fact.index}"
            before = NO_RULES if each.remembered is None else each.remembered.rules
            if each.rules != before:
                facts = {"cards": alias, "before": str(before), "after": str(each.rules), "host": name}
                change.tell(EventKind.CARD_RULES, facts, host=saved.host, cards=[card])
            if is_new:
                facts = {
                    "cards": alias,
                    "model": each.fact.model,
                    "memory": spoken_memory(each.fact.memory_mib),
                    "host": name,
                }
                change.tell(EventKind.CARD_FOUND, facts, host=saved.host, cards=[card])
                continue
            known = each.remembered
            if known is not None and known.index != each.fact.index:
                facts = {"cards": alias, "before": f"{name}/{known.index}", "host": name}
                change.tell(EventKind.CARD_MOVED, facts, host=saved.host, cards=[card])
            if known is None or known.before.condition is not each.judgement.condition:
                detail = f": {each.judgement.detail}" if each.judgement.detail else ""
                facts = {"cards": alias, "condition": each.judgement.condition.value, "detail": detail, "host": name}
                change.tell(EventKind.CARD_CONDITION, facts, host=saved.host, cards=[card])

    async def _keep_alive(self, change: Change, judged: list[_Judged]) -> None:
        seen = sorted(
            {
                process.lease
                for each in judged
                for process in each.processes
                if process.owner is Owner.MEMBER and process.lease
            }
        )
        if not seen:
            return
        leases = [LeaseId(lease) for lease in seen]
        for lease in leases:
            if await lease_store.accept_lease(change.conn, lease, None, self._times.lease, even_late=True):
                held = await lease_store.get_lease(change.conn, lease)
                assert held is not None
                await foretell_end(change.conn, held)
                facts = {"agent": held.agent_name, "cards": ", ".join(held.card_names)}
                change.tell(
                    EventKind.LEASE_ACCEPTED,
                    facts,
                    project=held.project,
                    task=held.task,
                    lease=lease,
                    session=held.session,
                )
        await lease_store.renew_seen(change.conn, leases, self._times.lease)

    async def _remind(self, change: Change, name: str, saved: SavedHost, judged: list[_Judged]) -> None:
        """Send a word to those whose processes keep others away, and to those whose card has just been lost."""
        known = [(each, each.remembered.before if each.remembered else _unknown(saved.now)) for each in judged]
        for each, before in known:
            card = f"{name}/{each.fact.index}"
            told = remind_stayers(card, each.processes, before, each.judgement.condition)
            for session, text in told.items():
                await session_store.send_notice(change.conn, SessionId(session), WARPLOOM, text)
        lost = {each.fact.uuid for each, before in known if before.has_live_lease and _is_newly_lost(each, before)}
        if lost:
            await remind_lost(change, saved.host, lost)


def _is_newly_lost(each: _Judged, before: Remembered) -> bool:
    return each.judgement.condition is Condition.LOST and before.condition is not Condition.LOST


def _with_holder_of_record(each: _Judged, last: tuple[str, datetime | None] | None) -> _Judged:
    if last is None:
        return each
    holder, ended_at = last
    until = f" until {ended_at:%-d %b %H:%M} UTC" if ended_at else ""
    detail = f"{each.judgement.detail}; last held by {holder}{until}"
    return replace(each, judgement=replace(each.judgement, detail=detail))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _unknown(now: datetime) -> Remembered:
    return Remembered(Condition.CLEAR, now, None, None, has_live_lease=False)


def _missing(facts: list[CardFact], known: dict[str, RememberedCard], problem: str | None) -> list[CardFact]:
    """Stand in for known cards that a survey does not show: lost, gone or, when the provider has a problem, blind."""
    seen = {fact.uuid for fact in facts}
    return [_stand_in(uuid, card, facts, problem) for uuid, card in known.items() if uuid not in seen]


def _stand_in(uuid: str, card: RememberedCard, facts: list[CardFact], problem: str | None) -> CardFact:
    bare = CardFact(uuid, card.index, card.model, card.memory_mib, parent_uuid=card.parent_uuid)
    if problem is not None:
        return replace(bare, fault=CardFault.BLIND, problem=problem[:400])
    divided = say_divided(uuid, card.parent_uuid, facts)
    if divided is not None:
        return replace(bare, fault=CardFault.GONE, problem=divided[:400])
    return replace(bare, fault=CardFault.LOST, problem="it is missing from the survey")


def _row(each: _Judged) -> dict[str, Any]:
    fact, judgement = each.fact, each.judgement
    return {
        "uuid": fact.uuid,
        "index": fact.index,
        "model": fact.model,
        "memory_mib": fact.memory_mib,
        "pci_bus_id": fact.pci_bus_id,
        "parent_uuid": fact.parent_uuid,
        "condition": judgement.condition.value,
        "condition_since": judgement.since.isoformat(),
        "condition_detail": judgement.detail[:1000] if judgement.detail else None,
        "quiet_until": judgement.quiet_until.isoformat() if judgement.quiet_until else None,
        "baseline_mib": judgement.baseline_mib,
        "used_mib": fact.used_mib,
        "utilisation": fact.utilisation,
        "processes": [_process_row(process) for process in each.processes],
        "ecc_errors": fact.ecc_errors,
        "idle_since": judgement.idle_since.isoformat() if judgement.idle_since else None,
        "answered": fact.fault is None,
        "hides_processes": fact.hides_processes,
        "weight": each.rules.weight,
        "ignored": each.rules.ignore,
    }


def _process_row(process: OwnedProcess) -> dict[str, Any]:
    return {
        "pid": process.fact.pid,
        "started": process.fact.started,
        "lease": process.lease,
        "owner": process.owner.value,
        "text": tell_process(process)[:400],
        "session": process.session,
        "user": process.fact.user,
        "memory_mib": process.fact.memory_mib,
    }
