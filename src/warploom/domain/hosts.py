"""What a host agent tells of its machine: cards, readings and the processes seen on them."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from warploom.domain.card_rules import CardRules
from warploom.domain.errands import Errand
from warploom.domain.processes import ProcessIdentity


class ProcessKind(StrEnum):
    """What a process does on a card, as the driver says."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"


@dataclass(frozen=True, slots=True)
class ProcessFact:
    """One process seen on a card. Memory is None where the driver does not report it; that is never 0."""

    pid: int
    started: int
    kind: ProcessKind = ProcessKind.COMPUTE
    user: str | None = None
    command: str | None = None
    memory_mib: int | None = None
    lease: str | None = None
    """The value of WARPLOOM_LEASE in its environment, when that can be read."""
    ancestors: list[ProcessIdentity] = field(default_factory=list[ProcessIdentity])
    """Its parents, nearest first, without itself."""
    is_ignored: bool = False
    """Whether a rule of its host says that it keeps nobody away."""


class CardFault(StrEnum):
    """Why a card could not be read; one is gone when its GPU is divided into other cards by now."""

    LOST = "lost"
    BLIND = "blind"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class CardFact:
    """One card as one survey saw it; None means the driver did not say. Memory is in MiB, utilisation in percent."""

    uuid: str
    index: int
    model: str
    memory_mib: int
    pci_bus_id: str | None = None
    parent_uuid: str | None = None
    used_mib: int | None = None
    utilisation: int | None = None
    temperature: int | None = None
    ecc_errors: int | None = None
    """Memory errors that could not be corrected, as counted since the driver was loaded."""
    xids: list[int] = field(default_factory=list[int])
    """The critical errors that the driver told of since the last survey, in the order in which they came."""
    processes: list[ProcessFact] = field(default_factory=list[ProcessFact])
    hides_processes: bool = False
    """Whether the driver reports no list of processes: `processes` is empty then, and says nothing."""
    fault: CardFault | None = None
    problem: str | None = None
    rules: CardRules | None = None
    """What the people of its host say of it; None where that was not told, which changes nothing."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything one look at a host found. A card missing from `cards` counts as lost, never as absent."""

    provider: str
    driver: str | None
    version: str
    interval_seconds: float
    cards: list[CardFact]
    problem: str | None = None
    """One sentence when the provider as a whole could not answer, such as a missing driver."""
    clock: float | None = None
    """The host's own wall clock as a Unix time, to tell how far it is from the database's."""
    age_seconds: float = 0.0
    """How long before this was sent the look began: what it saw may be that old."""
    capabilities: list[str] = field(default_factory=list[str])
    """What the host can do besides, such as docker; tasks may need it."""
    limits: list[str] = field(default_factory=list[str])
    """What its host agent cannot know where it runs: codes of `Limit`."""


@dataclass(frozen=True, slots=True)
class SurveyAnswer:
    """What the server makes of a survey."""

    at: datetime
    interval_seconds: float
    conditions: dict[str, str]
    """Card UUID to the condition it was judged to be in."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a host is asked to do next; `survey` asks for a look at once, and `errands` are those it does not have yet."""

    survey: bool
    cursor: str
    errands: list[Errand] = field(default_factory=list[Errand])
