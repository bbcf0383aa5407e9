"""Cards: three independent facts (service, condition, lease) and the one word that sums them up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from warploom.domain.agreements import Agreement
from warploom.domain.calibrations import SourceRecord
from warploom.domain.card_rules import NO_RULES, CardRules
from warploom.domain.deliveries import Delivery
from warploom.domain.etas import EtaView, Pace
from warploom.domain.histories import Past
from warploom.domain.identifiers import CardId, HostId
from warploom.domain.leases import SESSION_SILENCE, Holder, LeaseState
from warploom.domain.reservations import Booking, ReservationView

IDLE_TIME: Final = timedelta(minutes=10)
"""How long a held card must hardly be used before anybody is told."""


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
    GONE = "gone"


class CardState(StrEnum):
    """The one word a lane shows, derived from service, condition, lease and the age of the survey."""

    FREE = "free"
    RESERVED = "reserved"
    LEASED = "leased"
    OFFERED = "offered"
    OVERDUE = "overdue"
    SETTLING = "settling"
    OCCUPIED = "occupied"
    FOREIGN = "foreign"
    GHOST = "ghost"
    LOST = "lost"
    BLIND = "blind"
    GONE = "gone"
    DRAINED = "drained"
    QUARANTINED = "quarantined"
    UNSEEN = "unseen"


GLYPHS: dict[CardState, str] = {
    CardState.FREE: "○",
    CardState.RESERVED: "◇",
    CardState.LEASED: "●",
    CardState.OFFERED: "◐",
    CardState.OVERDUE: "⧗",
    CardState.SETTLING: "◐",
    CardState.OCCUPIED: "▲",
    CardState.FOREIGN: "▲",
    CardState.GHOST: "◆",
    CardState.LOST: "✕",
    CardState.BLIND: "✕",
    CardState.GONE: "‖",
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
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class ProcessView:
    """A process on a card as every door shows it."""

    pid: int
    owner: Owner
    text: str
    user: str | None = None
    memory_mib: int | None = None
    lease: str | None = None
    """Of a member the lease it works under, of an ex-holder the one that has ended."""
    started: int | None = None
    """With the pid it names this process and no later one of that number."""


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


def line_up(queue: Sequence[QueuePlace], reservations: Sequence[ReservationView]) -> list[QueuePlace | ReservationView]:
    """Put the places of a queue and what is reserved into one order of time; a start that nobody knows comes last."""
    line: list[QueuePlace | ReservationView] = list(queue)
    for each in reversed(reservations):
        later = (
            n for n, place in enumerate(queue) if not place.starts.soonest or place.starts.soonest > each.starts_at
        )
        line.insert(next(later, len(queue)), each)
    return line


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
    read_at: datetime | None = None
    """When memory, utilisation and processes were read, where the card has not answered since; None where they are of now."""
    reservations: list[ReservationView] = field(default_factory=list[ReservationView])
    """Those that are current or begin within a day, in order of time."""
    weight: float | None = None
    """How fast it is beside the others; None where all are alike."""


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
    limits: list[str] = field(default_factory=list[str])
    """What its host agent cannot know where it runs, each in a few words."""


@dataclass(frozen=True, slots=True)
class Rack:
    """Everything on one screen: who holds what, how far along, until when, who waits."""

    at: datetime
    hosts: list[HostLanes]
    waiting: int
    longest_wait: str | None
    next: str
    notices: list[str] = field(default_factory=list[str])
    calibration: list[SourceRecord] = field(default_factory=list[SourceRecord])
    """How well each source of estimates has done."""


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """What taking a card out of service or putting it back does, or would do when `done` is false."""

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
    past: Past | None = None
    """How long earlier runs of the same purpose took."""
    is_task: bool = False
    """Whether it is the claim of a task of the graph, and no mere request for cards."""
    agreement: Agreement | None = None
    """When it has agreed to give the card to somebody."""
    delivery: Delivery | None = None


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
    """Whether it was observed within two survey intervals; what lies further ahead was observed before the clock was set back."""
    used_mib: int | None
    utilisation: int | None
    processes: list[ProcessView]
    holder: KnownHolder | None
    pci_bus_id: str | None = None
    parent_uuid: str | None = None
    """Of a MIG instance: the GPU that it is a part of."""
    capabilities: frozenset[str] = frozenset()
    """What its host can do besides."""
    moved_from: int | None = None
    """The number it had before the driver last gave it another one, at `moved_at`."""
    moved_at: datetime | None = None
    read_at: datetime | None = None
    """When it last answered: its memory, utilisation and processes are of then. None when it never did."""
    rules: CardRules = NO_RULES
    suspicion: str | None = None
    """What makes it suspect, since `suspected_at`: failures in a row that do not name the hardware."""
    suspected_at: datetime | None = None
    hides_processes: bool = False
    """Whether its driver reports no list of processes."""
    idle_since: datetime | None = None
    """Since when its holder has hardly used it, where the driver tells how much it is used."""
    bookings: tuple[Booking, ...] = ()
    """What is reserved from now on, in order of time."""

    @property
    def name(self) -> str:
        """The card's name as people say it: host/index."""
        return f"{self.host}/{self.index}"

    @property
    def members(self) -> int:
        """How many processes of its lease were seen on it."""
        return sum(process.owner is Owner.MEMBER for process in self.processes)

    @property
    def is_stale(self) -> bool:
        """Whether its memory, utilisation and processes are older than the latest look at it."""
        return self.read_at is not None and self.read_at < self.observed_at

    def is_unattended(self, now: datetime) -> bool:
        """Say whether its holder's process runs on while the session behind it is silent."""
        if self.holder is None or self.holder.state is not LeaseState.ACTIVE:
            return False
        return self.members > 0 and now - self.holder.seen_at > SESSION_SILENCE

    def idle_time(self, now: datetime) -> timedelta | None:
        """Return how long its holder has hardly used it, once that is worth a word."""
        if self.holder is None or self.holder.state is not LeaseState.ACTIVE or self.idle_since is None:
            return None
        idle = now - max(self.idle_since, self.holder.granted_at)
        return idle if idle >= IDLE_TIME else None

    @property
    def is_grantable(self) -> bool:
        """In service, observed clear lately, and without a live lease: nothing less."""
        return (
            self.service is Service.IN_SERVICE
            and self.condition is Condition.CLEAR
            and self.is_fresh
            and self.holder is None
        )
