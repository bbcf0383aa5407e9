"""The breaker's rule: which failures in a row on a card speak against it, and what makes it only suspect."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from warploom.domain.errors import MalformedInput
from warploom.domain.failures import FailureClass, parse_failure
from warploom.domain.identifiers import CardId, lease_name
from warploom.domain.signatures import Signature, find_signature
from warploom.domain.texts import REASON_LIMIT, cut_line, spoken_duration, spoken_list

MOST_FAILURES: Final = 8
"""How many failures in a row a card remembers, the latest."""
_NOT_THE_CARD: Final = frozenset(
    {FailureClass.USER_ERROR, FailureClass.OOM_DEVICE, FailureClass.OOM_HOST, FailureClass.INTERRUPTED}
)
_WORDS: Final = 80
_LONGEST_TEXT: Final = 4000


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """How many failures in a row count, and how soon after its start a job must fail; all settings."""

    failures: int = 2
    """So many in the hardware's words take a card out of service."""
    suspicions: int = 3
    """So many of different jobs make it suspect, whatever they said."""
    fast: timedelta = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class JobFailure:
    """How a job on cards failed, in its holder's words and class, and what those words say of the hardware."""

    words: str
    failure: FailureClass
    signature: Signature | None = None

    @property
    def blames_no_card(self) -> bool:
        """Whether the cards have nothing to do with it, by its holder's word and by its own."""
        return self.failure in _NOT_THE_CARD and self.signature is None

    @property
    def told_class(self) -> FailureClass:
        """Its class; broken hardware is no fault of the task, also where nobody said so."""
        return FailureClass.INFRA if self.signature and self.failure is FailureClass.UNKNOWN else self.failure


def job_failure(text: str, failure: FailureClass = FailureClass.UNKNOWN) -> JobFailure:
    """Read how a job failed; of a text longer than a line may be, the end is kept, where a traceback says what it was."""
    line = " ".join(text[-_LONGEST_TEXT:].split())
    words = line if len(line) <= REASON_LIMIT else f"…{line[1 - REASON_LIMIT :]}"
    return JobFailure(cut_line(words, REASON_LIMIT) or "it failed", failure, find_signature(line))


def read_job_failure(error: str | None, failure: str | None) -> JobFailure | None:
    """Read what a holder says of its job; None when it went well. Raise MalformedInput for a class without an error."""
    if error is not None and error.strip():
        return job_failure(error, parse_failure(failure))
    if parse_failure(failure) is not FailureClass.UNKNOWN:
        raise MalformedInput("That names a class of failure, but no error.", "Say what went wrong with the error, too.")
    return None


@dataclass(frozen=True, slots=True)
class CardFailure:
    """One failure as a card remembers it; `cards` are all that the lease had."""

    lease: int
    job: str
    at: datetime
    words: str
    cards: list[int]
    signature: str | None = None
    is_certain: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether it may have been another card of the lease."""
        return len(self.cards) > 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the failures of a card come to: out of service, or only suspect, with the evidence in words."""

    is_broken: bool
    evidence: str


def card_failure(failure: JobFailure, lease: int, job: str, at: datetime, cards: Iterable[int]) -> CardFailure:
    """Return a failure as a card remembers it."""
    seen = failure.signature
    words = seen.words if seen else failure.words[:_WORDS]
    return CardFailure(
        lease, job, at, words, sorted(cards), seen.words if seen else None, is_certain=bool(seen and seen.is_certain)
    )


def weigh(card: CardId, failures: Sequence[CardFailure], rules: BreakerRules) -> Verdict | None:
    """Judge a card by its fast failures since the last success, oldest first; None when they speak for nothing yet.

    It is broken when enough of them name the hardware and it is the only card that they share; words that may also come of
    how a program was started count once for each job. Enough failures of different jobs, whatever they say, make it suspect.
    """
    signed = _each_job_once([each for each in failures if each.signature])
    shared = set[int].intersection(*(set(each.cards) for each in signed)) if signed else set[int]()
    if len(signed) >= rules.failures and shared == {card}:
        return Verdict(is_broken=True, evidence=_say(signed, rules, "in the words of the hardware"))
    jobs = {each.job: each for each in failures}
    if len(signed) >= rules.failures or len(jobs) >= rules.suspicions:
        told = signed if len(signed) >= rules.failures else list(jobs.values())
        return Verdict(is_broken=False, evidence=_say(told, rules, "on it"))
    return None


def _each_job_once(signed: list[CardFailure]) -> list[CardFailure]:
    uncertain = {each.job: each.lease for each in signed if not each.is_certain}
    return [each for each in signed if each.is_certain or uncertain[each.job] == each.lease]


def _say(told: Sequence[CardFailure], rules: BreakerRules, how: str) -> str:
    latest = told[-3:]
    each = spoken_list([f"{lease_name(one.lease)} at {one.at:%-d %b %H:%M} UTC ({one.words})" for one in latest])
    doubt = "; each of them had other cards too, and it may be any" if all(one.is_shared for one in told) else ""
    return f"{len(told)} jobs in a row failed {how} within {spoken_duration(rules.fast)} of their start: {each}{doubt}"
