"""The queue of a card: the order, who is granted what, and when the rest may expect their turn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from warploom.domain.etas import UNKNOWN, EtaWord, Span, after, fewest, weakest
from warploom.domain.histories import Length, declared
from warploom.domain.identifiers import AgentId, CardId, HostId, TaskId
from warploom.domain.reservations import Booking, booking_at


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
    bookings: tuple[Booking, ...] = ()
    """What is reserved from now on, in order of time."""
    weight: float = 1.0
    """How fast it is beside the others."""

    def owner(self, now: datetime) -> AgentId | None:
        """Return whose window it is now."""
        booking = booking_at(self.bookings, now)
        return booking.agent if booking else None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A ticket in queue order. `candidates` are the cards it may use; it needs `count` of them on one host."""

    task: TaskId
    count: int
    candidates: frozenset[CardId]
    run: timedelta | None = None
    """What bounds its run: what was declared, or what nine in ten earlier ones kept to."""
    agent: AgentId | None = None
    lead: timedelta = timedelta()
    """How long it may take from the grant until its run starts; it must be over before somebody's window all the same."""
    usual: Length | None = None
    """How long earlier runs of the same purpose took."""

    @property
    def taken(self) -> timedelta | None:
        """How long it keeps a card from the grant on, at most; None where it does not say."""
        return None if self.run is None else self.lead + self.run

    @property
    def length(self) -> Length | None:
        """How long its run will be: as earlier ones were, else as was declared; None where nobody knows."""
        return self.usual or (None if self.run is None else declared(self.run))


@dataclass(frozen=True, slots=True)
class Grant:
    """A decision: this ticket gets these cards, in card order."""

    task: TaskId
    cards: tuple[CardId, ...]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A stretch of a card's time that is promised: to a reservation, or to a run that waits for its end."""

    starts_at: datetime
    ends_at: datetime | None
    """None where nobody knows."""
    agent: AgentId | None
    """Whom it does not hinder, from `since` on (None: at any time): the owner of the reservation."""
    since: datetime | None = None


def decide(slots: Sequence[Slot], tickets: Sequence[Waiting], now: datetime) -> list[Grant]:
    """Decide every grant that is possible now, first come first served, all or nothing.

    The first ticket that must wait for a card holds it, when it is clear, until it could start. A later ticket may use a
    held card only if its declared run has ended by then. A ticket for which no host has enough cards in service holds
    none: it cannot start before somebody brings one back. A reserved card goes to its owner alone, who is held up by
    nobody else's ticket there; before its window it goes to others only for a declared run that has ended by then.
    """
    open_cards = {slot.card: slot for slot in slots if slot.is_grantable}
    held_until: dict[CardId, datetime] = {}
    grants: list[Grant] = []
    for ticket in tickets:
        usable = [
            slot
            for slot in open_cards.values()
            if slot.card in ticket.candidates and _may_use(ticket, slot, held_until.get(slot.card), now)
        ]
        chosen = _choose(usable, ticket, now)
        if chosen is not None:
            grants.append(Grant(ticket.task, chosen))
            for card in chosen:
                del open_cards[card]
            continue
        rooms = _rooms(slots, ticket)
        start = min((_could_start(room, ticket, now) for room in rooms), default=now)
        for slot in chain.from_iterable(rooms):
            if slot.card in open_cards and slot.owner(now) in (None, ticket.agent):
                held_until.setdefault(slot.card, start)
    return grants


def is_put_back(agent: AgentId | None, bookings: Sequence[Booking], now: datetime) -> bool:
    """Say whether an agent's tickets come after those of somebody else, whose window it is on that card."""
    booking = booking_at(bookings, now)
    return booking is not None and booking.agent != agent


def _may_use(ticket: Waiting, slot: Slot, held_until: datetime | None, now: datetime) -> bool:
    if held_until is not None and (ticket.run is None or now + ticket.run > held_until):
        return False
    return _past(now, ticket.taken, ticket.agent, _promised(slot.bookings)) == now


def _choose(usable: Iterable[Slot], ticket: Waiting, now: datetime) -> tuple[CardId, ...] | None:
    """Take cards of one host: reserved for its owner, then of the host with the fewest spare ones, so that larger requests
    find room, then the heaviest."""
    hosts: dict[HostId, list[Slot]] = {}
    for slot in usable:
        hosts.setdefault(slot.host, []).append(slot)
    rooms = [_best_first(room, ticket, now) for room in hosts.values() if len(room) >= ticket.count]
    if not rooms:
        return None
    best = min(rooms, key=lambda room: _rank(room, ticket, now))
    return tuple(sorted(slot.card for slot in best[: ticket.count]))


def _best_first(room: Sequence[Slot], ticket: Waiting, now: datetime) -> list[Slot]:
    return sorted(room, key=lambda slot: (not _is_own(slot, ticket, now), -slot.weight, slot.card))


def _rank(room: Sequence[Slot], ticket: Waiting, now: datetime) -> tuple[int, int, float, CardId]:
    own = sum(_is_own(slot, ticket, now) for slot in room)
    weight = sum(slot.weight for slot in room[: ticket.count])
    return -own, len(room), -weight, min(slot.card for slot in room)


def _is_own(slot: Slot, ticket: Waiting, now: datetime) -> bool:
    return ticket.agent is not None and slot.owner(now) == ticket.agent


def _rooms(slots: Sequence[Slot], ticket: Waiting) -> list[list[Slot]]:
    """Return the cards that a ticket may use, for each host that has enough of them."""
    hosts: dict[HostId, list[Slot]] = {}
    for slot in slots:
        if slot.card in ticket.candidates:
            hosts.setdefault(slot.host, []).append(slot)
    return [room for room in hosts.values() if len(room) >= ticket.count]


def _could_start(room: Sequence[Slot], ticket: Waiting, now: datetime) -> datetime:
    """Return the first moment at which enough of these cards could be free; what is not known could be now."""
    frees = sorted(_soonest(slot, ticket, now) for slot in room)
    return frees[ticket.count - 1]


def _soonest(slot: Slot, ticket: Waiting, now: datetime) -> datetime:
    free = now if slot.is_grantable or slot.free is None or slot.free.soonest is None else slot.free.soonest
    return _past(free, ticket.taken, ticket.agent, _promised(slot.bookings)) or free


def _promised(bookings: Iterable[Booking]) -> list[_Stretch]:
    return [_Stretch(each.starts_at, each.ends_at, each.agent) for each in bookings]


def _past(
    moment: datetime, run: timedelta | None, agent: AgentId | None, promised: Iterable[_Stretch]
) -> datetime | None:
    """Return the first moment from one on at which a run (None: of any length) runs into nothing that is promised.

    `promised` is in order of time. None when nobody knows.
    """
    for stretch in promised:
        is_over = stretch.ends_at is not None and stretch.ends_at <= moment
        if is_over or (run is not None and moment + run <= stretch.starts_at):
            continue
        if agent is not None and stretch.agent == agent:
            moment = max(moment, stretch.since or moment)
        elif stretch.ends_at is None:
            return None
        else:
            moment = stretch.ends_at
    return moment


def forecast(slots: Sequence[Slot], tickets: Sequence[Waiting], now: datetime) -> dict[TaskId, Span]:
    """Estimate when each ticket will start, by playing the queue forward in order.

    Each ticket takes the `count` candidates of one host that are free first; it starts when the last of them is, and
    they are free again when its run ends, as earlier ones did or as was declared. One unknown link makes everything
    behind it on that card unknown. A start that would run into somebody else's reservation is pushed behind it; what
    fits into the gap goes before.
    """
    free = {slot.card: _free(slot, now) for slot in slots}
    promised = {slot.card: _promised(slot.bookings) for slot in slots}
    starts: dict[TaskId, Span] = {}
    for ticket in tickets:
        alone = {card: _push(free[card], ticket, promised[card]) for card in ticket.candidates if card in free}
        cards = _first_free(slots, ticket, alone)
        unhindered = _last_of([free[card] for card in cards]) if cards else UNKNOWN
        before = sorted(chain.from_iterable(promised[card] for card in cards), key=_by_time)
        start = starts[ticket.task] = _push(unhindered, ticket, before)
        end = after(start, ticket.length)
        for card in cards:
            if start == unhindered:
                free[card] = end
            else:
                promised[card] = sorted([*promised[card], *_behind(start, end, before)], key=_by_time)
    return starts


def _by_time(stretch: _Stretch) -> datetime:
    return stretch.starts_at


def _push(span: Span, ticket: Waiting, promised: Iterable[_Stretch]) -> Span:
    """Push a start behind what is promised to others and would be run into."""
    moments = span.moments
    if moments is None:
        return span
    soonest, p50, latest = (_past(moment, ticket.run, ticket.agent, promised) for moment in moments)
    if soonest is None or p50 is None or latest is None:
        return UNKNOWN
    if (soonest, p50, latest) == moments:
        return span
    return Span(weakest([span.word, EtaWord.DECLARED]), soonest, latest, p50, span.runs)


def _behind(start: Span, end: Span, promised: Iterable[_Stretch]) -> list[_Stretch]:
    """Promise a card's time to a run that waits for the end of a reservation, which does not hinder its owner within it."""
    if start.soonest is None:
        return []
    last = [each for each in promised if each.ends_at is not None and each.ends_at <= start.soonest][-1:]
    agents = [(each.agent, each.since or each.starts_at) for each in last] or [(None, None)]
    return [_Stretch(start.soonest, end.latest, agent, since) for agent, since in agents]


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
    """Return when the last of several is there: the latest of each of their moments."""
    known = [moments for span in spans if (moments := span.moments) is not None]
    if len(known) < len(spans) or not spans:
        return UNKNOWN
    soonest, p50, latest = (max(moments) for moments in zip(*known, strict=True))
    return Span(weakest(span.word for span in spans), soonest, latest, p50, fewest(span.runs for span in spans))
