"""The judge: whether every grant reached its waiter exactly once and in time, and no card lay idle meanwhile.

An offer has to reach its waiter within `PROMPT` of its grant. That is `POLL_SECONDS`, after which a server that heard no hint
reads for itself, and `WORK_SECONDS` for the reading, the answer and the waiter's end on a busy machine. So much holds through
everything that happens to Redis. What takes the waiter, its server or that server's database away adds the time until it is
gone, then its lag, then `PROMPT` anew. The lag is the longest pause of a client between two tries, `LONGEST_PAUSE`; for a
database connection that is lost in silence, `STATEMENT_SECONDS` too, after which a server gives a statement up; for a waiter or
stdio server that was killed, `START_SECONDS`, in which it is there again; so long has each to be there in the first place.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torture.book import Book, Delivery, Reach, Trouble, Waiter
from torture.ledger import ENDS, GRANTS, LAPSED, QUEUED, Ledger, Line
from warploom.bus.hints import POLL_SECONDS
from warploom.store.database import STATEMENT_SECONDS

WORK_SECONDS = 5.0
PROMPT = POLL_SECONDS + WORK_SECONDS
LONGEST_PAUSE = 5.0
START_SECONDS = 10.0
SILENT_LAG = STATEMENT_SECONDS + LONGEST_PAUSE
QUIET = "none"


@dataclass(frozen=True, slots=True)
class Handover:
    """A card that was free (or wanted) from a moment on, its offer, and the moment at which it reached its waiter."""

    lease: int
    freed_at: float
    offered_at: float
    delivered_at: float
    way: str
    trouble: str

    @property
    def seconds(self) -> float:
        """How long it took from the release to the waiter."""
        return self.delivered_at - self.freed_at


@dataclass(slots=True)
class Verdict:
    """What came of a run; `late` and `idle` say of each case what it was, `wrong` all that must never happen."""

    handovers: list[Handover] = field(default_factory=list[Handover])
    offers: int = 0
    late: list[str] = field(default_factory=list[str])
    idle: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])
    longest_idle: float = 0.0

    @property
    def is_good(self) -> bool:
        """Say whether nothing was wrong."""
        return (
            bool(self.handovers) and self.offers == len(self.handovers) and not (self.late or self.idle or self.wrong)
        )

    @property
    def last_line(self) -> str:
        """Sum it up in the words that a run ends with."""
        return (
            f"handovers {self.offers}, delivered exactly once {len(self.handovers)}, "
            f"late {len(self.late)}, idle cards {len(self.idle)}"
        )


@dataclass(slots=True)
class _Card:
    """What is known of a card while its lines are read in order."""

    lease: int | None = None
    free_since: float = 0.0
    waiting: dict[int, float] = field(default_factory=dict[int, float])
    """Since when each ticket waits."""
    lapsed: int | None = None


class Judge:
    """Reads a ledger from its first line to its last and compares it with the book."""

    def __init__(self, book: Book, ledger: Ledger, offer_seconds: float) -> None:
        self._book = book
        self._ledger = ledger
        self._offer_seconds = offer_seconds
        self._verdict = Verdict()
        self._cards: dict[str, _Card] = defaultdict(_Card)
        self._freed: dict[int, float] = {}

    def judge(self) -> Verdict:
        """Return what there is to say."""
        for line in self._ledger.lines:
            self._read(line)
        self._deliveries()
        self._verdict.wrong += self._book.faults
        reaged = [number for number, ticket in self._ledger.tickets.items() if not ticket.has_its_age]
        self._verdict.wrong += [f"T-{number} has not kept its age" for number in reaged]
        return self._verdict

    def _read(self, line: Line) -> None:
        card = self._cards[line.card]
        if line.kind == QUEUED:
            card.waiting[line.ticket] = line.at
        elif line.kind in GRANTS:
            self._grant(card, line)
        elif line.kind in ENDS:
            self._end(card, line)

    def _grant(self, card: _Card, line: Line) -> None:
        if card.lease is not None:
            self._verdict.wrong.append(f"L-{line.lease} was granted on {line.card} while L-{card.lease} was live")
        tickets = self._ledger.tickets
        age = tickets[line.ticket].age
        older = [each for each in card.waiting if tickets[each].age < age and each != card.lapsed]
        if older:
            self._verdict.wrong.append(f"T-{line.ticket} was granted {line.card} before T-{older[0]}, which is older")
        wanted_since = min([*card.waiting.values(), line.at])
        free_since = max(card.free_since, wanted_since)
        self._freed[line.lease] = max(card.free_since, card.waiting.get(line.ticket, line.at))
        self._idle(line, line.at - free_since)
        card.waiting.pop(line.ticket, None)
        card.lease, card.lapsed = line.lease, None

    def _idle(self, line: Line, seconds: float) -> None:
        self._verdict.longest_idle = max(self._verdict.longest_idle, seconds)
        if seconds > self._offer_seconds:
            self._verdict.idle.append(f"{line.card} lay idle for {seconds:.1f} s before L-{line.lease}")

    def _end(self, card: _Card, line: Line) -> None:
        if card.lease != line.lease:
            self._verdict.wrong.append(f"L-{line.lease} ended on {line.card}, where it was not live")
        card.lease, card.free_since = None, line.at
        if line.kind == LAPSED:
            card.waiting[line.ticket], card.lapsed = line.at, line.ticket

    def _deliveries(self) -> None:
        reached: dict[int, list[Delivery]] = defaultdict(list)
        for delivery in self._book.deliveries:
            reached[delivery.lease].append(delivery)
        offers = [line for line in self._ledger.lines if line.kind == "lease.offered"]
        self._verdict.offers = len(offers)
        for line in offers:
            self._deliver(line, reached.pop(line.lease, []))
        self._verdict.wrong += [f"L-{lease} was delivered and never offered" for lease in reached]

    def _deliver(self, line: Line, deliveries: list[Delivery]) -> None:
        if len(deliveries) != 1:
            self._verdict.wrong.append(f"L-{line.lease} of T-{line.ticket} was delivered {len(deliveries)} times")
            return
        [delivery] = deliveries
        owner = self._ledger.tickets[line.ticket].agent
        if (delivery.ticket, delivery.waiter.agent) != (line.ticket, owner):
            self._verdict.wrong.append(
                f"L-{line.lease} of T-{line.ticket} ({owner}) went to T-{delivery.ticket} ({delivery.waiter.agent})"
            )
            return
        freed_at, troubles = self._freed[line.lease], self._book.troubles
        self._verdict.handovers.append(
            Handover(
                line.lease,
                freed_at,
                line.at,
                delivery.at,
                delivery.waiter.way,
                in_force(troubles, freed_at, delivery.at),
            )
        )
        due = due_at(line.at, delivery.waiter, [*troubles, *_start(delivery)])
        if delivery.at > due:
            self._verdict.late.append(
                f"L-{line.lease} reached {owner} ({delivery.waiter.way}) {delivery.at - line.at:.1f} s after its grant, "
                f"which is {delivery.at - due:.1f} s late; {in_force(troubles, line.at, delivery.at)}"
            )


def _start(delivery: Delivery) -> list[Trouble]:
    """Give a waiter that is a process of its own the time to start."""
    if delivery.waiter.way == "long poll":
        return []
    reach = Reach(START_SECONDS, agents=frozenset([delivery.waiter.agent]))
    return [Trouble("start", delivery.since, delivery.since, reach)]


def due_at(offered_at: float, waiter: Waiter, troubles: Iterable[Trouble]) -> float:
    """Return until when an offer has to reach its waiter."""
    due = offered_at + PROMPT
    for trouble in sorted(troubles, key=lambda each: each.since):
        felt_until = trouble.until + trouble.reach.lag
        if trouble.reach.covers(waiter) and trouble.since <= due and felt_until >= offered_at:
            due = max(due, felt_until + PROMPT)
    return due


def in_force(troubles: Iterable[Trouble], since: float, until: float) -> str:
    """Name the first trouble that was there at some time between two moments."""
    return next((each.name for each in troubles if each.since <= until and each.until >= since), QUIET)


def trouble_lines(troubles: Sequence[Trouble]) -> list[str]:
    """Say of each kind of trouble how often it was there, and how long at most."""
    names = Counter(each.name for each in troubles)
    longest = {name: max(each.until - each.since for each in troubles if each.name == name) for name in names}
    return [f"{name}: {count} times, {longest[name]:.1f} s at most" for name, count in sorted(names.items())]


def table(handovers: Sequence[Handover]) -> list[str]:
    """Lay out how long hand-overs took from release to delivery, by way and by trouble."""
    ways, troubles = _grouped(handovers, "way"), _grouped(handovers, "trouble")
    groups = {"all": [each.seconds for each in handovers], **ways, **troubles}
    head = f"{'release to delivery, in seconds':<44}{'count':>6}{'p50':>9}{'p90':>9}{'p99':>9}{'max':>9}"
    return [head, *(_row(name, sorted(group)) for name, group in groups.items() if group)]


def _grouped(handovers: Sequence[Handover], by: str) -> dict[str, list[float]]:
    names = Counter(getattr(each, by) for each in handovers)
    return {
        f"{by}: {name}": [each.seconds for each in handovers if getattr(each, by) == name] for name in sorted(names)
    }


def _row(name: str, seconds: Sequence[float]) -> str:
    shown = [seconds[min(len(seconds) - 1, int(share * len(seconds)))] for share in (0.5, 0.9, 0.99)]
    return f"{name:<44}{len(seconds):>6}" + "".join(f"{each:>9.3f}" for each in (*shown, seconds[-1]))
