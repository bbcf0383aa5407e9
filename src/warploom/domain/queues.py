"""The queue of a card: the order, who is granted what, and when the rest may expect their turn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from warploom.domain.etas import UNKNOWN, EtaWord, Span, after, weakest
from warploom.domain.identifiers import CardId, HostId, TaskId


@dataclass(frozen=True, slots=True)
class Slot:
    """A card in service as the queue sees it.

    `free` is when its present holder will be done. Where that is unknown or None, a card that is not grantable may become
    so at any moment.
    """

    card: CardId
    host: HostId
    is_grantable: bool
    free: Span | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A ticket in queue order. `candidates` are the cards it may use; it needs `count` of them on one host."""

    task: TaskId
    count: int
    candidates: frozenset[CardId]
    run: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A decision: this ticket gets these cards, in card order."""

    task: TaskId
    cards: tuple[CardId, ...]


def decide(slots: Sequence[Slot], tickets: Sequence[Waiting], now: datetime) -> list[Grant]:
    """Decide every grant that is possible now, first come first served, all or nothing.

    The first ticket that must wait for a card holds it, when it is clear, until it could start. A later ticket may use a
    held card only if its declared run has ended by then. A ticket for which no host has enough cards in service holds
    none: it cannot start before somebody brings one back.
    """
    open_cards = {slot.card: slot for slot in slots if slot.is_grantable}
    held_until: dict[CardId, datetime] = {}
    grants: list[Grant] = []
    for ticket in tickets:
        usable = [
            slot
            for slot in open_cards.values()
            if slot.card in ticket.candidates and _may_use(ticket, held_until.get(slot.card), now)
        ]
        chosen = _choose(usable, ticket.count)
        if chosen is not None:
            grants.append(Grant(ticket.task, chosen))
            for card in chosen:
                del open_cards[card]
            continue
        rooms = _rooms(slots, ticket)
        start = min((_could_start(room, ticket.count, now) for room in rooms), default=now)
        for slot in chain.from_iterable(rooms):
            if slot.card in open_cards:
                held_until.setdefault(slot.card, start)
    return grants


def _may_use(ticket: Waiting, held_until: datetime | None, now: datetime) -> bool:
    return held_until is None or (ticket.run is not None and now + ticket.run <= held_until)


def _choose(usable: Iterable[Slot], count: int) -> tuple[CardId, ...] | None:
    """Take `count` cards of one host: the host with the fewest spare ones, so that larger requests find room."""
    hosts: dict[HostId, list[CardId]] = {}
    for slot in usable:
        hosts.setdefault(slot.host, []).append(slot.card)
    fitting = [cards for cards in hosts.values() if len(cards) >= count]
    if not fitting:
        return None
    fewest = min(fitting, key=lambda cards: (len(cards), min(cards)))
    return tuple(sorted(fewest)[:count])


def _rooms(slots: Sequence[Slot], ticket: Waiting) -> list[list[Slot]]:
    """Return the cards that a ticket may use, for each host that has enough of them."""
    hosts: dict[HostId, list[Slot]] = {}
    for slot in slots:
        if slot.card in ticket.candidates:
            hosts.setdefault(slot.host, []).append(slot)
    return [room for room in hosts.values() if len(room) >= ticket.count]


def _could_start(room: Sequence[Slot], count: int, now: datetime) -> datetime:
    """Return the first moment at which `count` of these cards could be free; what is not known could be now."""
    frees = sorted(
        now if slot.is_grantable or slot.free is None or slot.free.soonest is None else slot.free.soonest
        for slot in room
    )
    return frees[count - 1]


def forecast(slots: Sequence[Slot], tickets: Sequence[Waiting], now: datetime) -> dict[TaskId, Span]:
    """Estimate when each ticket will start, by playing the queue forward in order.

    Each ticket takes the `count` candidates of one host that are free first; it starts when the last of them is, and
    they are free again when its declared run ends. One unknown link makes everything behind it on that card unknown.
    """
    free: dict[CardId, Span] = {slot.card: _free(slot, now) for slot in slots}
    starts: dict[TaskId, Span] = {}
    for ticket in tickets:
        cards = _first_free(slots, ticket, free)
        start = _last_of([free[card] for card in cards]) if cards else UNKNOWN
        starts[ticket.task] = start
        end = after(start, ticket.run)
        for card in cards:
            free[card] = end
    return starts


def _free(slot: Slot, now: datetime) -> Span:
    if slot.free is not None:
        return slot.free
    return Span(EtaWord.MEASURED, now, now) if slot.is_grantable else UNKNOWN


def _first_free(slots: Sequence[Slot], ticket: Waiting, free: dict[CardId, Span]) -> list[CardId]:
    best: tuple[datetime, list[CardId]] | None = None
    fallback: list[CardId] = []
    for host in sorted({slot.host for slot in slots if slot.card in ticket.candidates}):
        own = [slot.card for slot in slots if slot.host == host and slot.card in ticket.candidates]
        if len(own) < ticket.count:
            continue
        known = sorted(
            (card for card in own if free[card].is_known), key=lambda card: (free[card].latest or datetime.max, card)
        )
        if len(known) < ticket.count:
            fallback = fallback or [*known, *(card for card in own if card not in known)][: ticket.count]
            continue
        chosen = known[: ticket.count]
        start = max(moment for card in chosen if (moment := free[card].latest) is not None)
        if best is None or start < best[0]:
            best = (start, chosen)
    return best[1] if best else fallback


def _last_of(spans: list[Span]) -> Span:
    soonest = [span.soonest for span in spans if span.soonest is not None]
    latest = [span.latest for span in spans if span.latest is not None]
    if len(latest) < len(spans) or not spans:
        return UNKNOWN
    return Span(weakest(span.word for span in spans), max(soonest), max(latest))
