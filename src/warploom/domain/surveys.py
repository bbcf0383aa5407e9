"""What one look at a card means: whose each process is, and what condition the card is in."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from warploom.domain.cards import Condition, Owner
from warploom.domain.hosts import CardFact, CardFault, ProcessFact, ProcessKind
from warploom.domain.texts import spoken_duration, spoken_memory


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
    session's process on this host to the session. A reused pid differs in its start and is nobody's. What a lease
    is worth depends on the card: a process that names a lease of another card has no claim on this one.
    """
    named = _named_lease(process)
    lineage = [(process.pid, process.started), *((parent.pid, parent.started) for parent in process.ancestors)]
    by_descent = next((sessions[step] for step in lineage if step in sessions), None)
    session = leases[named].session if named in leases else by_descent
    if session is None:
        return OwnedProcess(process, _unclaimed(process, Owner.FOREIGN))
    own = [lease for lease in leases.values() if lease.session == session and card_uuid in lease.card_uuids]
    claim = max(own, key=lambda lease: (lease.is_live, lease.lease == named, lease.lease), default=None)
    if claim is None:
        return OwnedProcess(process, _unclaimed(process, Owner.UNLEASED), session=session)
    return OwnedProcess(process, Owner.MEMBER if claim.is_live else Owner.EX_HOLDER, claim.lease, session)


def _unclaimed(process: ProcessFact, otherwise: Owner) -> Owner:
    """A rule of the host never covers for one of our sessions, nor for a process that names a lease."""
    if process.is_ignored and process.lease is None and otherwise is Owner.FOREIGN:
        return Owner.IGNORED
    return Owner.GRAPHICS if process.kind is ProcessKind.GRAPHICS else otherwise


def _named_lease(process: ProcessFact) -> int | None:
    digits = (process.lease or "").removeprefix("L-")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


@dataclass(frozen=True, slots=True)
class SurveyRules:
    """How long a card must prove itself; all settings."""

    settle_time: timedelta = timedelta(seconds=60)
    """After this long with memory held and nobody on the card, it is a ghost."""
    foreign_quiet: timedelta = timedelta(minutes=2)
    slack_mib: int = 512
    """Used memory up to the idle baseline and this much more counts as clear."""
    idle_percent: int = 5
    """A held card that is used less than this is hardly used."""
    unnamed: str | None = None
    """Why a process may be one that cannot be named, where the host tells so."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the last survey left on a card."""

    condition: Condition
    since: datetime
    baseline_mib: int | None
    quiet_until: datetime | None
    has_live_lease: bool
    idle_since: datetime | None = None
    unleased: frozenset[int] = frozenset()
    """The sessions that were on it without a lease."""
    is_probed: bool = False
    """Whether a probe of it was asked for and is not answered yet."""

    def as_of(self, now: datetime, rules: "SurveyRules") -> "Remembered":
        """Return it with no time that has yet to come: a clock that is set back makes no card wait for it to catch up."""
        return replace(
            self,
            since=min(self.since, now),
            quiet_until=None if self.quiet_until is None else min(self.quiet_until, now + rules.foreign_quiet),
            idle_since=None if self.idle_since is None else min(self.idle_since, now),
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a card is after a survey, and what must be remembered for the next one."""

    condition: Condition
    since: datetime
    detail: str | None
    baseline_mib: int | None
    quiet_until: datetime | None = None
    idle_since: datetime | None = None


def judge(
    fact: CardFact, processes: list[OwnedProcess], before: Remembered, now: datetime, rules: SurveyRules
) -> Judgement:
    """Decide a card's condition from one reading. Somebody else's process always wins; N/A is never taken for 0."""
    baseline = _learn_baseline(fact, before, rules)
    condition, detail, quiet_until = _condition(fact, processes, before, now, rules)
    since = before.since if condition is before.condition else now
    return Judgement(condition, since, detail, baseline, quiet_until, _idle_since(fact, before, now, rules))


def _idle_since(fact: CardFact, before: Remembered, now: datetime, rules: SurveyRules) -> datetime | None:
    """What is not reported is never taken for idle; a look at which the card did not answer changes nothing."""
    if not before.has_live_lease:
        return None
    if fact.utilisation is None:
        return before.idle_since if fact.fault is not None else None
    return (before.idle_since or now) if fact.utilisation < rules.idle_percent else None


_FALLBACKS = {
    CardFault.LOST: "it no longer answers",
    CardFault.BLIND: "its driver does not answer",
    CardFault.GONE: "its GPU is divided otherwise by now",
}
_Verdict = tuple[Condition, str | None, datetime | None]


def _condition(
    fact: CardFact, processes: list[OwnedProcess], before: Remembered, now: datetime, rules: SurveyRules
) -> _Verdict:
    if fact.fault is not None:
        return Condition(fact.fault.value), fact.problem or _FALLBACKS[fact.fault], before.quiet_until
    if fact.used_mib is None and fact.hides_processes:
        return Condition.BLIND, "its driver reports neither its memory nor its processes", before.quiet_until
    intruders = [process for process in processes if process.owner in (Owner.FOREIGN, Owner.UNLEASED)]
    if intruders:
        return Condition.FOREIGN, _tell_first(intruders), now + rules.foreign_quiet
    if any(process.owner is Owner.MEMBER for process in processes):
        return Condition.OCCUPIED, None, None
    leavers = [process for process in processes if process.owner is Owner.EX_HOLDER]
    if leavers:
        return _leaving(leavers, before, now, rules)
    if _holds_memory(fact, processes, before, rules):
        return _unexplained(fact, processes, before, now, rules)
    if before.quiet_until is not None and before.quiet_until > now:
        return Condition.FOREIGN, _tell_quiet(processes, before.quiet_until - now), before.quiet_until
    if before.is_probed:
        return Condition.SETTLING, "it is probed", None
    return Condition.CLEAR, None, None


def _tell_quiet(processes: list[OwnedProcess], left: timedelta) -> str:
    back = f"back in the pool in {spoken_duration(left)}"
    if any(process.owner is Owner.IGNORED for process in processes):
        return f"nobody is left whom its host does not ignore; {back} if that stays so"
    return f"somebody else's process is gone; {back} if it stays away"


def _leaving(leavers: list[OwnedProcess], before: Remembered, now: datetime, rules: SurveyRules) -> _Verdict:
    """Ending a lease makes its cards settle; ones that are occupied without a lease have had that time already."""
    has_waited = before.condition is Condition.SETTLING and now - before.since >= rules.settle_time
    is_stuck = before.condition is Condition.OCCUPIED and not before.has_live_lease
    return (Condition.OCCUPIED if has_waited or is_stuck else Condition.SETTLING), _tell_first(leavers), None


def _unexplained(
    fact: CardFact, processes: list[OwnedProcess], before: Remembered, now: datetime, rules: SurveyRules
) -> _Verdict:
    held = spoken_memory(fact.used_mib or 0)
    if before.has_live_lease:
        return Condition.OCCUPIED, None, None
    if before.is_probed:
        return Condition.SETTLING, f"{held} in use while it is probed", None
    if before.condition in (Condition.GHOST, Condition.FOREIGN, Condition.CLEAR):
        if before.condition is Condition.GHOST:
            return Condition.GHOST, _tell_ghost(held, processes), None
        why = f" ({rules.unnamed})" if rules.unnamed else ""
        detail = f"{held} used by {_tell_silent(processes)}a process that cannot be named{why}"
        return Condition.FOREIGN, detail, now + rules.foreign_quiet
    waited = now - before.since if before.condition is Condition.SETTLING else timedelta(0)
    if waited < rules.settle_time:
        return Condition.SETTLING, f"{held} still in use", None
    return Condition.GHOST, _tell_ghost(held, processes), None


def _tell_ghost(held: str, processes: list[OwnedProcess]) -> str:
    return f"{held} held by {_tell_silent(processes)}no living process"


def _tell_silent(processes: list[OwnedProcess]) -> str:
    """Name the ignored processes whose memory is not reported: it cannot be told from what somebody else holds."""
    silent = [process for process in processes if process.owner is Owner.IGNORED and process.fact.memory_mib is None]
    return f"{_tell_first(silent)} or by " if silent else ""


def _holds_memory(fact: CardFact, processes: list[OwnedProcess], before: Remembered, rules: SurveyRules) -> bool:
    if fact.used_mib is None:
        return False
    harmless = (Owner.GRAPHICS, Owner.IGNORED)
    shown = sum(process.fact.memory_mib or 0 for process in processes if process.owner in harmless)
    return fact.used_mib - shown > (before.baseline_mib or 0) + rules.slack_mib


def _learn_baseline(fact: CardFact, before: Remembered, rules: SurveyRules) -> int | None:
    """The least memory ever seen while nobody was on the card is what it uses by itself.

    More than counts as clear is never learnt: it is held by somebody who cannot be named.
    """
    if fact.used_mib is None or fact.processes or fact.fault is not None or before.has_live_lease:
        return before.baseline_mib
    if before.baseline_mib is not None:
        return min(before.baseline_mib, fact.used_mib)
    is_idle = before.condition is Condition.CLEAR and not _holds_memory(fact, [], before, rules)
    return fact.used_mib if is_idle else None


def _tell_first(processes: list[OwnedProcess], most: int = 3) -> str:
    more = [f"and {len(processes) - most} more"] if len(processes) > most else []
    return "; ".join([*map(tell_process, processes[:most]), *more])


def tell_process(process: OwnedProcess) -> str:
    """Name a process for people: what, whose, pid and how much memory (or that it is not reported)."""
    fact = process.fact
    memory = "memory not reported" if fact.memory_mib is None else spoken_memory(fact.memory_mib)
    whose = {
        Owner.EX_HOLDER: f"ex-holder L-{process.lease}",
        Owner.UNLEASED: f"session S-{process.session} without a lease",
        Owner.MEMBER: f"L-{process.lease}",
        Owner.IGNORED: f"user {fact.user or 'unknown'}, ignored by a rule of its host",
    }.get(process.owner, f"user {fact.user or 'unknown'}")
    return f"{fact.command or 'a process'} ({whose}, pid {fact.pid}, {memory})"
