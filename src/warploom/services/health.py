"""Doctor: what is well, what is not, and what to do about it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from warploom.bus.hints import POLL_SECONDS, Bus, BusState
from warploom.domain.card_rules import NO_RULES
from warploom.domain.cards import CardState, KnownCard, Service
from warploom.domain.errors import WarploomError
from warploom.domain.health import Check, Word
from warploom.domain.limits import words_of
from warploom.domain.reasons import blocker, card_state
from warploom.domain.texts import spoken_duration
from warploom.domain.unreported import tell_unreported
from warploom.store import cards as card_store
from warploom.store import hosts as host_store
from warploom.store import leaders as leader_store
from warploom.store.clock import read_clock
from warploom.store.database import Connection, Database
from warploom.store.health import DatabaseFacts, read_facts
from warploom.store.hosts import HostRow
from warploom.store.migrations import read_status

LEADER = "orchestrator"
_CLOCK_GAP_SECONDS = 2.0
_OLD_TRANSACTION = timedelta(minutes=5)
_NEW_NAME = timedelta(days=7)
_FAULTS = {CardState.LOST, CardState.BLIND, CardState.GHOST, CardState.UNSEEN, CardState.QUARANTINED}
_HELD = {CardState.LEASED, CardState.OFFERED, CardState.OVERDUE}
_NOTEWORTHY = {CardState.FOREIGN, CardState.DRAINED, CardState.OCCUPIED}


class HealthService:
    """Checks the server's own parts and everything the database knows of the rest."""

    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._bus = bus

    async def doctor(self) -> list[Check]:
        """Run every check; a database that is away is a check that came out bad, not an error."""
        try:
            async with self._database.connection() as conn:
                now = await read_clock(conn)
                return [
                    *await self._database_checks(conn),
                    self._check_bus(),
                    await self._check_leader(conn, now),
                    *await self._check_hosts(conn, now),
                ]
        except WarploomError as error:
            return [Check(Word.BAD, "postgres", error.cause, error.next_step), self._check_bus()]

    async def schema(self) -> str:
        """Return the database's schema revision; raises Unreachable when the database is away."""
        async with self._database.connection() as conn:
            return (await read_status(conn)).current or "none"

    async def _database_checks(self, conn: Connection) -> list[Check]:
        facts, status = await read_facts(conn), await read_status(conn)
        return [check_postgres(facts, status.current), *_check_counts(facts)]

    def _check_bus(self) -> Check:
        health = self._bus.health()
        if health.state is BusState.ABSENT:
            return Check(
                Word.WARN,
                "bus",
                f"no Redis or Valkey: waiters are woken by a look at the database every {POLL_SECONDS:g} s",
            )
        if health.state is BusState.BROKEN:
            since = spoken_duration(timedelta(seconds=health.seconds_in_state))
            problem = health.problem or "not connected yet"
            text = f"not reachable for {since} ({problem}): wakes come within {POLL_SECONDS:g} s instead of at once"
            return Check(Word.WARN, "bus", text, "Start it again; Warploom reconnects by itself.")
        seen = (
            "no hint yet" if health.seconds_since_hint is None else f"last hint {health.seconds_since_hint:.1f} s ago"
        )
        return Check(Word.OK, "bus", f"connected, {health.listeners} waiting here, {seen}")

    async def _check_leader(self, conn: Connection, now: datetime) -> Check:
        leader = await leader_store.read_leader(conn, LEADER)
        if leader is None or not leader.is_current:
            return Check(
                Word.BAD, "leader", "nobody does the orchestrator's duties", "Start a server with `warploom up`."
            )
        since = spoken_duration(now - leader.taken_at)
        return Check(Word.OK, "leader", f"{leader.holder} for {since}")

    async def _check_hosts(self, conn: Connection, now: datetime) -> list[Check]:
        hosts = await host_store.read_hosts(conn)
        if not hosts:
            return [
                Check(
                    Word.WARN,
                    "hosts",
                    "no host has reported",
                    "Run `warploom up` or `warploom host` on a machine with GPUs.",
                )
            ]
        checks = [check for host in hosts for check in _host_checks(host, now)]
        cards = await card_store.read_cards(conn)
        for host in hosts:
            checks += _check_limits(host, [card for card in cards if card.host_id == host.host])
        for card in cards:
            checks += [*_check_alias(card, now), *_check_rules(card), *_check_suspicion(card, now)]
            state = card_state(card, now)
            if card.service is Service.QUARANTINED and state in _HELD:
                state = CardState.QUARANTINED
            if state in _FAULTS | _NOTEWORTHY:
                word = Word.BAD if state in _FAULTS else Word.WARN
                checks.append(Check(word, card.name, blocker(card, now) or state.value, _fix(state)))
        return checks


def check_postgres(facts: DatabaseFacts, schema: str | None) -> Check:
    """Say what the database is; warn of a transaction so old that rows which are over cannot be cleared away behind it."""
    age = facts.oldest_transaction or timedelta(0)
    text = f"{facts.version}, schema {schema}, oldest transaction {spoken_duration(age)}"
    if age <= _OLD_TRANSACTION:
        return Check(Word.OK, "postgres", text)
    fix = f"Find out in pg_stat_activity who runs process {facts.oldest_pid} and ask them to finish."
    return Check(Word.WARN, "postgres", f"{text}: readers of the event log wait for it", fix)


def _check_counts(facts: DatabaseFacts) -> list[Check]:
    if facts.strays == 0:
        return [Check(Word.OK, "queues", f"{facts.waiting} waiting; every waiting ticket stands in a queue")]
    text = f"{facts.strays} waiting tickets stand in no queue"
    return [Check(Word.BAD, "queues", text, "The orchestrator puts them back at their age within ten seconds.")]


def _host_checks(host: HostRow, now: datetime) -> list[Check]:
    if not host.is_present:
        age = spoken_duration(now - host.surveyed_at)
        return [
            Check(
                Word.BAD,
                host.name,
                f"silent for {age}: nothing is granted there",
                f"Start its host agent: `warploom up` on {host.name}.",
            )
        ]
    if host.problem:
        return [Check(Word.WARN, host.name, host.problem)]
    gap = host.clock_gap_seconds or 0.0
    if abs(gap) > _CLOCK_GAP_SECONDS:
        where = "ahead of" if gap > 0 else "behind"
        text = f"its clock is {abs(gap):.1f} s {where} the database's: expiry is judged by the database, logs will look odd"
        return [Check(Word.WARN, host.name, text, f"Enable time sync on {host.name}.")]
    driver = f"driver {host.driver}" if host.driver else "no driver version"
    return [
        Check(Word.OK, host.name, f"{host.provider}, {driver}, surveyed {spoken_duration(now - host.surveyed_at)} ago")
    ]


def _check_limits(host: HostRow, cards: Sequence[KnownCard]) -> list[Check]:
    """Say which guarantees are reduced there, by where its host agent runs and by what its driver does not report."""
    if not host.is_present:
        return []
    told = [Check(Word.WARN, host.name, words.text, words.fix) for words in words_of(host.limits)]
    return [*told, *(Check(Word.WARN, host.name, text) for text in tell_unreported(cards))]


def _check_alias(card: KnownCard, now: datetime) -> list[Check]:
    if card.moved_at is None or now - card.moved_at > _NEW_NAME:
        return []
    text = (
        f"it was {card.host}/{card.moved_from} until {card.moved_at:%-d %b %H:%M} UTC: the driver numbers its cards anew; "
        "leases and tickets stay with the card"
    )
    return [Check(Word.WARN, card.name, text, f"Call it {card.name} from now on, or by its UUID.")]


def _check_rules(card: KnownCard) -> list[Check]:
    return [] if card.rules == NO_RULES else [Check(Word.OK, card.name, f"{card.rules}: a rule of its host")]


def _check_suspicion(card: KnownCard, now: datetime) -> list[Check]:
    if card.suspicion is None or card.suspected_at is None or card.service is Service.QUARANTINED:
        return []
    since = f"{card.suspected_at:%-d %b %H:%M} UTC ({spoken_duration(now - card.suspected_at)})"
    text = f"{card.name} is suspect since {since}: {card.suspicion}"
    fix = f"Try it with a job that is known to work; one that goes well clears it. `warploom quarantine {card.name}` keeps it out."
    return [Check(Word.WARN, card.name, text, fix)]


def _fix(state: CardState) -> str | None:
    return {
        CardState.GHOST: "`fuser -v /dev/nvidia*` on the host names who still has it open; the card returns by itself once it is free.",
        CardState.LOST: "Check the card and its driver; leases are kept, nothing is granted there.",
        CardState.BLIND: "Reboot the host or reload its driver once its jobs are done; leases are kept.",
        CardState.UNSEEN: "Start the host agent there with `warploom up`.",
        CardState.DRAINED: "`warploom undrain` puts it back in service.",
        CardState.QUARANTINED: "Look at its evidence. `warploom probe` tries the card; `warploom clear` puts it back untried.",
    }.get(state)
