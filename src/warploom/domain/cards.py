"""Cards: three independent facts (service, condition, lease) and the one word that sums them up."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from warploom.domain.etas import EtaView, Pace
from warploom.domain.hosts import CardFact, CardFault, ProcessFact
from warploom.domain.identifiers import CardId, HostId
from warploom.domain.leases import Holder, LeaseState
from warploom.domain.texts import spoken_duration, spoken_memory


class Service(StrEnum):
    """Whether people and the breaker let a card be granted."""

    IN_SERVICE = "in_service"
    DRAINING = "draining"
    DRAINED = "drained"
    QUARANTINED = "quarantined"


class Condition(StrEnum):
    """What the latest survey saw on a card."""

    CLEAR = "clear"
    OCCUPIED = "occupied"
    SETTLING = "settling"
    FOREIGN = "foreign"
    GHOST = "ghost"
    LOST = "lost"
    BLIND = "blind"


class CardState(StrEnum):
    """The one word a lane shows, derived from service, condition, lease and the age of the survey."""

    FREE = "free"
    LEASED = "leased"
    OFFERED = "offered"
    OVERDUE = "overdue"
    SETTLING = "settling"
    OCCUPIED = "occupied"
    FOREIGN = "foreign"
    GHOST = "ghost"
    LOST = "lost"
    BLIND = "blind"
    DRAINED = "drained"
    QUARANTINED = "quarantined"
    UNSEEN = "unseen"


GLYPHS: dict[CardState, str] = {
    CardState.FREE: "○",
    CardState.LEASED: "●",
    CardState.OFFERED: "◐",
    CardState.OVERDUE: "⧗",
    CardState.SETTLING: "◐",
    CardState.OCCUPIED: "▲",
    CardState.FOREIGN: "▲",
    CardState.GHOST: "◆",
    CardState.LOST: "✕",
    CardState.BLIND: "✕",
    CardState.DRAINED: "‖",
    CardState.QUARANTINED: "✕",
    CardState.UNSEEN: "✕",
}


class Owner(StrEnum):
    """Whose a process on a card is."""

    MEMBER = "member"
    EX_HOLDER = "ex_holder"
    UNLEASED = "unleased"
    FOREIGN = "foreign"
    GRAPHICS = "graphics"


@dataclass(frozen=True, slots=True)
class OwnedProcess:
    """A process on a card with whose it is: for members and ex-holders the lease, for our own sessions the session."""

    fact: ProcessFact
    owner: Owner
    lease: int | None = None
    session: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseOnHost:
    """A lease as attribution needs it: live ones, and ended ones that a process still names or descends from."""

    lease: int
    session: int
    card_uuids: frozenset[str]
    is_live: bool


def attribute(
    process: ProcessFact, card_uuid: str, leases: dict[int, LeaseOnHost], sessions: dict[tuple[int, int], int]
) -> OwnedProcess:
    """Say whose a process on a card is, by the lease in its environment, then by descent from a session.

    `leases` holds every lease with a claim on this host, by number; `sessions` maps (pid, started) of each
    session's process on this host to the session. A reused pid differs in its start and is nobody's.
    """
    named = _named_lease(process)
    if named in leases:
        return _by_lease(process, card_uuid, leases[named])
    lineage = [(process.pid, process.started), *((parent.pid, parent.started) for parent in process.ancestors)]
    session = next((sessions[step] for step in lineage if step in sessions), None)
    if session is not None:
        return _by_session(process, card_uuid, session, leases)
    return OwnedProcess(process, Owner.GRAPHICS if process.kind == "graphics" else Owner.FOREIGN)


def _named_lease(process: ProcessFact) -> int | None:
    digits = (process.lease or "").removeprefix("L-")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def _by_lease(process: ProcessFact, card_uuid: str, lease: LeaseOnHost) -> OwnedProcess:
    if not lease.is_live:
        return OwnedProcess(process, Owner.EX_HOLDER, lease.lease, lease.session)
    if card_uuid in lease.card_uuids:
        return OwnedProcess(process, Owner.MEMBER, lease.lease, lease.session)
    return OwnedProcess(process, Owner.UNLEASED, session=lease.session)


def _by_session(process: ProcessFact, card_uuid: str, session: int, leases: dict[int, LeaseOnHost]) -> OwnedProcess:
    own = [lease for lease in leases.values() if lease.session == session and card_uuid in lease.card_uuids]
    live = next((lease for lease in own if lease.is_live), None)
    if live is not None:
        return OwnedProcess(process, Owner.MEMBER, live.lease, session)
    if own:
        return OwnedProcess(process, Owner.EX_HOLDER, max(lease.lease for lease in own), session)
    return OwnedProcess(process, Owner.UNLEASED, session=session)


@dataclass(frozen=True, slots=True)
class SurveyRules:
    """How long a card must prove itself; all settings."""

    settle_time: timedelta = timedelta(seconds=60)
    """After this long with memory held and nobody on the card, it is a ghost."""
    foreign_quiet: timedelta = timedelta(minutes=2)
    slack_mib: int = 512
    """Used memory up to the idle baseline and this much more counts as clear."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the last survey left on a card."""

    condition: Condition
    since: datetime
    baseline_mib: int | None
    quiet_until: datetime | None
    has_live_lease: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a card is after a survey, and what must be remembered for the next one."""

    condition: Condition
    since: datetime
    detail: str | None
    baseline_mib: int | None
    quiet_until: datetime | None = None


def judge(
    fact: CardFact, processes: list[OwnedProcess], before: Remembered, now: datetime, rules: SurveyRules
) -> Judgement:
    """Decide a card's condition from one reading. Somebody else's process always wins; N/A is never taken for 0."""
    baseline = _learn_baseline(fact, before)
    condition, detail, quiet_until = _condition(fact, processes, before, now, rules)
    since = before.since if condition is before.condition else now
    return Judgement(condition, since, detail, baseline, quiet_until)


_Verdict = tuple[Condition, str | None, datetime | None]


def _condition(
    fact: CardFact, processes: list[OwnedProcess], before: Remembered, now: datetime, rules: SurveyRules
) -> _Verdict:
    if fact.fault is not None:
        fallback = "it no longer answers" if fact.fault is CardFault.LOST else "its driver does not answer"
        return Condition(fact.fault.value), fact.problem or fallback, before.quiet_until
    intruders = [process for process in processes if process.owner in (Owner.FOREIGN, Owner.UNLEASED)]
    if intruders:
        return Condition.FOREIGN, "; ".join(map(tell_process, intruders[:3])), now + rules.foreign_quiet
    if any(process.owner is Owner.MEMBER for process in processes):
        return Condition.OCCUPIED, None, None
    leavers = [process for process in processes if process.owner is Owner.EX_HOLDER]
    if leavers:
        return _leaving(leavers, before, now, rules)
    if _holds_memory(fact, before, rules):
        return _unexplained(fact, before, now, rules)
    if before.quiet_until is not None and before.quiet_until > now:
        left = spoken_duration(before.quiet_until - now)
        return (
            Condition.FOREIGN,
            f"somebody else's process is gone; back in the pool in {left} if it stays away",
            before.quiet_until,
        )
    return Condition.CLEAR, None, None


def _leaving(leavers: list[OwnedProcess], before: Remembered, now: datetime, rules: SurveyRules) -> _Verdict:
    detail = "; ".join(map(tell_process, leavers[:3]))
    patient = before.condition is not Condition.SETTLING or now - before.since < rules.settle_time
    return (Condition.SETTLING if patient else Condition.OCCUPIED), detail, None


def _unexplained(fact: CardFact, before: Remembered, now: datetime, rules: SurveyRules) -> _Verdict:
    held = spoken_memory(fact.used_mib or 0)
    if before.has_live_lease:
        return Condition.OCCUPIED, None, None
    if before.condition in (Condition.GHOST, Condition.FOREIGN, Condition.CLEAR):
        if before.condition is Condition.GHOST:
            return Condition.GHOST, f"{held} held by no living process", None
        return Condition.FOREIGN, f"{held} used by a process that cannot be named", now + rules.foreign_quiet
    waited = now - before.since if before.condition is Condition.SETTLING else timedelta(0)
    if waited < rules.settle_time:
        return Condition.SETTLING, f"{held} still in use", None
    return Condition.GHOST, f"{held} held by no living process", None


def _holds_memory(fact: CardFact, before: Remembered, rules: SurveyRules) -> bool:
    return fact.used_mib is not None and fact.used_mib > (before.baseline_mib or 0) + rules.slack_mib


def _learn_baseline(fact: CardFact, before: Remembered) -> int | None:
    """The least memory ever seen while nobody was on the card is what it uses by itself."""
    if fact.used_mib is None or fact.processes or fact.fault is not None or before.has_live_lease:
        return before.baseline_mib
    if before.baseline_mib is None and before.condition is not Condition.CLEAR:
        return None
    return fact.used_mib if before.baseline_mib is None else min(before.baseline_mib, fact.used_mib)


def tell_process(process: OwnedProcess) -> str:
    """Name a process for people: what, whose, pid and how much memory (or that it is not reported)."""
    fact = process.fact
    memory = "memory not reported" if fact.memory_mib is None else spoken_memory(fact.memory_mib)
    whose = {
        Owner.EX_HOLDER: f"ex-holder L-{process.lease}",
        Owner.UNLEASED: f"session S-{process.session} without a lease",
        Owner.MEMBER: f"L-{process.lease}",
    }.get(process.owner, f"user {fact.user or 'unknown'}")
    return f"{fact.command or 'a process'} ({whose}, pid {fact.pid}, {memory})"


@dataclass(frozen=True, slots=True)
class ProcessView:
    """A process on a card as every door shows it."""

    pid: int
    owner: Owner
    text: str
    user: str | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """One ticket in a card's queue."""

    ticket: str
    place: int
    title: str
    agent: str
    priority: int
    since: datetime
    waiting: str
    starts: EtaView


@dataclass(frozen=True, slots=True)
class CardLane:
    """One card as every door shows it: now, and its queue (the first few places; `waiting` counts all)."""

    card: str
    uuid: str
    index: int
    model: str
    memory_mib: int
    state: CardState
    say: str
    """One sentence: why it is so, or how to ask for it."""
    since: datetime
    service: Service
    condition: Condition
    used_mib: int | None
    lease_mib: int | None
    utilisation: int | None
    holder: Holder | None
    processes: list[ProcessView]
    queue: list[QueuePlace]
    waiting: int
    free: EtaView


@dataclass(frozen=True, slots=True)
class HostLanes:
    """A host and its cards, in index order."""

    host: str
    provider: str
    driver: str | None
    surveyed_at: datetime
    is_present: bool
    problem: str | None
    cards: list[CardLane]


@dataclass(frozen=True, slots=True)
class Rack:
    """Everything on one screen: who holds what, how far along, until when, who waits."""

    at: datetime
    hosts: list[HostLanes]
    waiting: int
    longest_wait: str | None
    next: str
    notices: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class DrainAnswer:
    """What draining or undraining a card does, or would do when `done` is false."""

    card: str
    service: Service
    done: bool
    consequences: list[str]


@dataclass(frozen=True, slots=True)
class KnownHolder:
    """The live lease of a card, as the database has it."""

    lease: int
    task: int
    title: str
    agent: str
    session: int
    client: str | None
    directory: str | None
    state: LeaseState
    granted_at: datetime
    expires_at: datetime
    expected_end: datetime | None
    seen_at: datetime
    pace: Pace | None


@dataclass(frozen=True, slots=True)
class KnownCard:
    """A card as the database has it, with its host's name and its live lease."""

    card: CardId
    host_id: HostId
    host: str
    index: int
    uuid: str
    model: str
    memory_mib: int
    service: Service
    service_reason: str | None
    service_since: datetime
    condition: Condition
    condition_since: datetime
    condition_detail: str | None
    observed_at: datetime
    is_fresh: bool
    """Whether it was observed within two survey intervals."""
    used_mib: int | None
    utilisation: int | None
    processes: list[ProcessView]
    holder: KnownHolder | None

    @property
    def name(self) -> str:
        """The card's name as people say it: host/index."""
        return f"{self.host}/{self.index}"

    @property
    def is_grantable(self) -> bool:
        """In service, observed clear lately, and without a live lease: nothing less."""
        return (
            self.service is Service.IN_SERVICE
            and self.condition is Condition.CLEAR
            and self.is_fresh
            and self.holder is None
        )
