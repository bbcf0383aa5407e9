"""Leases: the right to work on one task and use its cards until it expires; the number is the fencing token."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from warploom.domain.errors import LeaseLost, MalformedInput
from warploom.domain.etas import EtaView
from warploom.domain.identifiers import lease_name
from warploom.domain.texts import spoken_duration, spoken_list

LONGEST_RUN = timedelta(days=60)
LARGEST_STEP = 2**53
SESSION_SILENCE = timedelta(seconds=60)
"""A session that was silent for longer does not attend to its leases."""
_SHORTEST_RUN_MINUTES = 1e-4


class LeaseState(StrEnum):
    """The life of a lease: offered to somebody who was away, active, ended."""

    OFFERED = "offered"
    ACTIVE = "active"
    ENDED = "ended"


MOVES: dict[LeaseState, tuple[LeaseState, ...]] = {
    LeaseState.OFFERED: (LeaseState.ACTIVE, LeaseState.ENDED),
    LeaseState.ACTIVE: (LeaseState.ENDED,),
    LeaseState.ENDED: (),
}


class LeaseEnd(StrEnum):
    """Why a lease ended; each has one sentence in `END_SENTENCES`."""

    RELEASED = "released"
    EXPIRED = "expired"
    LAPSED = "lapsed"
    WITHDRAWN = "withdrawn"
    DONE = "done"
    FAILED = "failed"
    ESCALATED = "escalated"
    RESET = "reset"
    CANCELLED = "cancelled"
    FORCED = "forced"


END_SENTENCES: dict[LeaseEnd, str] = {
    LeaseEnd.RELEASED: "its holder released it",
    LeaseEnd.EXPIRED: "its holder was silent for a whole lease time",
    LeaseEnd.LAPSED: "the offer was not accepted in time",
    LeaseEnd.WITHDRAWN: "its holder left the queue before accepting it",
    LeaseEnd.DONE: "its task was done",
    LeaseEnd.FAILED: "its task failed",
    LeaseEnd.ESCALATED: "its holder asked for help",
    LeaseEnd.RESET: "its task was given back to be claimed again",
    LeaseEnd.CANCELLED: "its task was cancelled",
    LeaseEnd.FORCED: "an operator ended it",
}


class EnvStyle(StrEnum):
    """How exported variables name cards: by UUID (safe everywhere), or by index for programs that need numbers."""

    UUID = "uuid"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class HeldCard:
    """A card of a lease, as far as its exports need it."""

    name: str
    uuid: str
    index: int
    number: int | None = None
    """What CUDA calls it in the order of the PCI bus, where that is certain."""


def exports(lease: int, cards: list[HeldCard], style: EnvStyle, url: str | None) -> dict[str, str]:
    """Return the variables a holder puts before its command; they replace whatever mask was set before.

    Numbers are those of the PCI bus order, which CUDA_DEVICE_ORDER makes CUDA use too. Where the number of one is
    uncertain, all are named by UUID: CUDA does not take a mask of both.
    """
    ordered = sorted(cards, key=lambda card: card.index)
    numbers = [str(card.number) for card in ordered if card.number is not None]
    is_numbered = style is EnvStyle.INDEX and len(numbers) == len(cards)
    mask = ",".join(numbers if is_numbered else [card.uuid for card in ordered])
    variables = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": mask, "WARPLOOM_LEASE": lease_name(lease)}
    return variables | ({"WARPLOOM_URL": url} if url else {})


def unnumbered(cards: list[HeldCard], style: EnvStyle) -> str | None:
    """Say why a holder who asked for numbers is given UUIDs; None where that is not so."""
    unsure = [card.name for card in cards if card.number is None]
    if style is EnvStyle.UUID or not unsure:
        return None
    return (
        f"CUDA_VISIBLE_DEVICES names cards by UUID although numbers were asked for: which number CUDA gives {spoken_list(unsure)} "
        "is uncertain, because of MIG, or of a card before it on the bus that is lost or cannot be read."
    )


def export_line(variables: dict[str, str]) -> str:
    """Write the variables as one shell line. Values hold no blanks or quotes by construction."""
    return "export " + " ".join(f"{name}={value}" for name, value in variables.items())


def parse_env_style(text: str) -> EnvStyle:
    """Read 'uuid' or 'index'."""
    try:
        return EnvStyle(text.strip().lower())
    except ValueError:
        raise MalformedInput(f"{text[:20]!r} is not a style of exports.", "Use uuid (the default) or index.") from None


def run_length(minutes: float | None) -> timedelta | None:
    """Read declared minutes; raise MalformedInput when they are not above zero and at most sixty days."""
    if minutes is None:
        return None
    if not _SHORTEST_RUN_MINUTES <= minutes <= LONGEST_RUN.total_seconds() / 60:
        raise MalformedInput(
            f"{minutes:g} minutes is not a length of time.",
            "Give minutes above 0 and at most 86,400 (60 days), or leave them out.",
        )
    return timedelta(minutes=minutes)


def check_step(step: int, total: int | None) -> None:
    """Raise MalformedInput unless 0 <= step, and total is None or at least 1."""
    if not 0 <= step <= LARGEST_STEP:
        raise MalformedInput(f"Step {str(step)[:20]} is out of range.", "Report a step of 0 or more.")
    if total is not None and not 1 <= total <= LARGEST_STEP:
        raise MalformedInput(
            f"A total of {str(total)[:20]} steps is out of range.", "Report a total of 1 or more, or none."
        )


@dataclass(frozen=True, slots=True)
class LeaseFate:
    """What became of a lease, for whoever still writes with it."""

    lease: int
    ended_at: datetime
    end: LeaseEnd
    cards: list[str]
    holders: list[str]
    """Who holds those cards now: 'L-58 (codex-1)'; empty when nobody does."""
    ticket: str
    waiting_place: int | None
    """The ticket's place in the queue when it went back there."""
    is_task: bool = False
    """Whether it was the claim of a task of the graph, and no mere request for cards."""
    successor: str | None = None
    """Who holds its task now: 'L-58 (codex-1)'."""


def lease_lost(fate: LeaseFate) -> LeaseLost:
    """Tell a holder what became of its lease and where it stands now."""
    cards = ", ".join(fate.cards)
    held = f"; {cards} is now held by {' and '.join(fate.holders)}" if fate.holders else ""
    if fate.successor is not None and fate.successor not in fate.holders:
        held += f"; {fate.ticket} is now held by {fate.successor}"
    cause = f"{lease_name(fate.lease)} ended at {fate.ended_at:%H:%M:%S} UTC: {END_SENTENCES[fate.end]}{held}."
    if fate.waiting_place is not None:
        return LeaseLost(
            cause,
            f"Your ticket {fate.ticket} is back in the queue at place {fate.waiting_place}, at its original age; "
            f"run `warploom wait {fate.ticket}` again.",
        )
    if fate.is_task:
        return LeaseLost(
            cause, f"Nothing was changed; stop working on {fate.ticket}, and take another with loom_claim."
        )
    return LeaseLost(cause, "Nothing was changed; ask again with gpu_request if you still need a card.")


class Label(StrEnum):
    """What is derived and shown about a holder, never stored."""

    OVERDUE = "overdue"
    UNATTENDED = "unattended"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Clock:
    """One of the three clocks of a lease: session alive, process alive, steps advancing."""

    name: str
    is_running: bool
    text: str


@dataclass(frozen=True, slots=True)
class Holder:
    """A live lease as every door shows it."""

    lease: str
    ticket: str
    title: str
    agent: str
    session: str
    client: str | None
    directory: str | None
    state: LeaseState
    granted_at: datetime
    expires_at: datetime
    expected_end: datetime | None
    step: int | None
    total: int | None
    rate: float | None
    labels: list[Label]
    clocks: list[Clock]
    eta: EtaView
    delivered: str | None = None
    """When and how its offer first reached its session; None where it has not."""
    runs_into: str | None = None
    """The reservation of somebody else in whose window it still runs, such as R-3."""


@dataclass(frozen=True, slots=True)
class LeaseAnswer:
    """What a holder is told after each call that names its lease."""

    lease: str
    ticket: str
    state: LeaseState
    cards: list[str]
    next: str
    expires_at: datetime | None = None
    expected_end: datetime | None = None
    step: int | None = None
    total: int | None = None
    free_in: str | None = None
    eta_source: str | None = None
    should_release: bool = False
    """Whether the step or moment is reached at which its holder agreed to release."""
    notices: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class ForcedAnswer:
    """What ending somebody's lease does, or would do when `done` is false."""

    lease: str
    ticket: str
    cards: list[str]
    done: bool
    consequences: list[str]


@dataclass(frozen=True, slots=True)
class ProcessCount:
    """How many processes of a lease were seen on its card; `seen_at` is given where that was not just now."""

    number: int
    seen_at: datetime | None = None

    def text(self, now: datetime) -> str:
        """Say whether there are any, and how old that is."""
        if not self.number:
            return "no process on the card"
        return "process alive" if self.seen_at is None else f"process seen {spoken_duration(now - self.seen_at)} ago"


def three_clocks(
    now: datetime,
    session_seen: datetime,
    processes: ProcessCount,
    pace_at: datetime | None,
    rate: float | None,
) -> list[Clock]:
    """Derive the clocks of a lease."""
    silent = now - session_seen
    alive = silent <= SESSION_SILENCE
    session = Clock("session", alive, "session alive" if alive else f"session silent for {spoken_duration(silent)}")
    process = Clock("process", processes.number > 0, processes.text(now))
    if pace_at is None:
        return [session, process, Clock("steps", False, "no steps reported")]
    still = now - pace_at
    advancing = still <= max(timedelta(minutes=2), timedelta(seconds=10 / rate) if rate else timedelta(minutes=2))
    steps = f"stepping, {rate:.3g} /s" if rate else "stepping"
    return [
        session,
        process,
        Clock("steps", advancing, steps if advancing else f"no step for {spoken_duration(still)}"),
    ]
