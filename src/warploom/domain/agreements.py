"""Agreements: what the holder of a lease has said yes to, as its card's lane and the estimates of those who wait show it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from warploom.domain.etas import FARTHEST, EtaWord, Pace, Span
from warploom.domain.identifiers import proposal_name
from warploom.domain.reservations import spoken_moment
from warploom.domain.texts import spoken_duration


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the holder of a lease has agreed to, as far as its card's lane and estimate need it."""

    proposal: int
    asker: str
    step: int | None
    moment: datetime | None
    length: timedelta | None
    """How long the asker's run is at most, where the holder comes back after it."""

    def is_due(self, step: int | None, now: datetime) -> bool:
        """Say whether its step or its moment is reached."""
        if self.step is not None:
            return step is not None and step >= self.step
        return self.moment is None or self.moment <= now

    def say(self, now: datetime) -> str:
        """Say it as a reason does: 'will be released at step 500, agreed with claude-2 (P-3)'."""
        verb = "will be released" if self.length is None else f"will be lent for {spoken_duration(self.length)}"
        return f"{verb} {spoken_when(self.step, self.moment, now)}, agreed with {self.asker} ({proposal_name(self.proposal)})"


def agreed_end(end: Span, agreement: Agreement | None, pace: Pace | None, now: datetime) -> Span:
    """Bring the estimated end of a run forward to what its holder has agreed to, where that comes first."""
    moment = None if agreement is None else _expected(agreement, pace)
    if moment is None or moment <= now or (end.soonest is not None and end.soonest <= moment):
        return end
    return Span(EtaWord.DECLARED, moment, moment)


def _expected(agreement: Agreement, pace: Pace | None) -> datetime | None:
    if agreement.step is None:
        return agreement.moment
    if pace is None or not pace.rate:
        return None
    seconds = (agreement.step - pace.step) / pace.rate
    return pace.reported_at + timedelta(seconds=seconds) if 0 <= seconds <= FARTHEST.total_seconds() else None


def spoken_when(step: int | None, moment: datetime | None, now: datetime) -> str:
    """Say when it is: 'at step 500', 'at 14:20 UTC', 'as soon as it can'."""
    if step is not None:
        return f"at step {step:,}"
    return "as soon as it can" if moment is None else f"at {spoken_moment(moment, now)}"
