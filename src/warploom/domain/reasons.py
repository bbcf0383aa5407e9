"""Why a card is not free and why a ticket waits, each said once for every door."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from warploom.domain.agreements import agreed_end
from warploom.domain.cards import CardState, Condition, KnownCard, KnownHolder, Service
from warploom.domain.etas import UNKNOWN, EtaWord, Span, at, run_end, show_eta
from warploom.domain.identifiers import lease_name, ticket_name
from warploom.domain.leases import LeaseState
from warploom.domain.queues import Waiting
from warploom.domain.reservations import SHOWN_AHEAD, Booking, barrier, booking_at, say_barrier, spoken_window
from warploom.domain.texts import spoken_duration, spoken_list, spoken_memory

_CONDITION_STATES = {
    Condition.CLEAR: CardState.FREE,
    Condition.OCCUPIED: CardState.OCCUPIED,
    Condition.SETTLING: CardState.SETTLING,
    Condition.FOREIGN: CardState.FOREIGN,
    Condition.GHOST: CardState.GHOST,
    Condition.LOST: CardState.LOST,
    Condition.BLIND: CardState.BLIND,
    Condition.GONE: CardState.GONE,
}


def is_overdue(holder: KnownHolder, now: datetime) -> bool:
    """Say whether a holder has run past the end it declared."""
    return holder.expected_end is not None and holder.expected_end < now


def card_state(card: KnownCard, now: datetime) -> CardState:
    """Sum a card up in one word: a fault first, then its lease, then people's wish, then what was seen."""
    if card.condition in (Condition.LOST, Condition.BLIND, Condition.GONE):
        return _CONDITION_STATES[card.condition]
    if card.holder is not None:
        if card.holder.state is LeaseState.OFFERED:
            return CardState.OFFERED
        return CardState.OVERDUE if is_overdue(card.holder, now) else CardState.LEASED
    if not card.is_fresh:
        return CardState.UNSEEN
    if card.service is Service.QUARANTINED:
        return CardState.QUARANTINED
    if card.service in (Service.DRAINING, Service.DRAINED):
        return CardState.DRAINED
    if card.condition is Condition.CLEAR and booking_at(card.bookings, now) is not None:
        return CardState.RESERVED
    return _CONDITION_STATES[card.condition]


def state_since(card: KnownCard, state: CardState) -> datetime:
    """Return since when a card is in the state that `card_state` gave."""
    if state is CardState.RESERVED:
        return card.bookings[0].starts_at
    if card.holder is not None and state in (CardState.LEASED, CardState.OFFERED, CardState.OVERDUE):
        overdue = card.holder.expected_end if state is CardState.OVERDUE else None
        return overdue or card.holder.granted_at
    if state in (CardState.DRAINED, CardState.QUARANTINED):
        return card.service_since
    return card.observed_at if state is CardState.UNSEEN else card.condition_since


def free_span(card: KnownCard, now: datetime) -> Span:
    """Estimate when a card is free: now, at its holder's end, at the end of its reservation, or unknown."""
    if card.holder is not None:
        holder = card.holder
        end = run_end(holder.pace, holder.expected_end, now, holder.past)
        return agreed_end(end, holder.agreement, holder.pace, now)
    booking = booking_at(card.bookings, now)
    if card.is_grantable and booking is not None:
        return Span(EtaWord.DECLARED, booking.ends_at, booking.ends_at)
    return at(now) if card.is_grantable else UNKNOWN


def run_into(card: KnownCard, now: datetime) -> Booking | None:
    """Return the reservation of somebody else in whose window a card's holder still runs."""
    booking = booking_at(card.bookings, now)
    return booking if booking and card.holder and card.holder.agent != booking.agent_name else None


def blocker(card: KnownCard, now: datetime) -> str | None:
    """Say in one sentence why a card cannot be granted now, or None when it can."""
    if card.is_grantable:
        return None
    state = card_state(card, now)
    say = _SAYINGS.get(state)
    return say(card, now) if say else f"{card.name} is {state.value}{_detail(card)}"


def say_card(card: KnownCard, now: datetime) -> str:
    """Say what a card's lane says: how to ask for a free card, or why it is not free."""
    held = blocker(card, now)
    if held is not None:
        return f"{held}."
    ask = f'gpu_request(device="{card.name}") or `warploom run --card {card.name} -- …`'
    coming = next((each for each in card.bookings if each.starts_at < now + SHOWN_AHEAD), None)
    if coming is None:
        return f"Observed clear. Ask for it with {ask}."
    if coming.is_current(now):
        return f"Observed clear, and {_reserved(coming, now)}: until then only {coming.agent_name} is granted it."
    return (
        f"Observed clear. Ask for it with {ask}, and say how many minutes you need: it is {_reserved(coming, now)}, and "
        "only a run that ends before that goes first."
    )


def _reserved(booking: Booking, now: datetime) -> str:
    title = f" for '{booking.title}'" if booking.title else ""
    return f"reserved for {booking.agent_name} {spoken_window(booking, now)} ({booking.name}){title}"


def _detail(card: KnownCard) -> str:
    return f": {card.condition_detail}" if card.condition_detail else ""


def _say_held(card: KnownCard, now: datetime) -> str:
    holder = card.holder
    assert holder is not None
    eta = show_eta(free_span(card, now), now)
    who = f"{card.name} is held by {lease_name(holder.lease)} '{holder.title}' ({holder.agent})"
    if is_overdue(holder, now):
        over = spoken_duration(now - (holder.expected_end or now))
        who += f", {over} past the end it declared"
    if card.is_unattended(now):
        who += f", whose session is silent for {spoken_duration(now - holder.seen_at)} while its process runs on"
    if holder.agreement is not None:
        who += f", {holder.agreement.say(now)}"
    idle = card.idle_time(now)
    if idle is not None:
        who += f", hardly used for {spoken_duration(idle)}"
    into = run_into(card, now)
    if into is not None:
        who += f", running into {into.name} of {into.agent_name} ({spoken_window(into, now)})"
    after = _after(card)
    if eta.minutes is None:
        return f"{who}, free at an unknown time{after}"
    return f"{who}, free {_when(eta.text)}, {eta.word} {eta.source}{after}"


def _after(card: KnownCard) -> str:
    if card.service is Service.QUARANTINED:
        return f", then quarantined: {card.service_reason or 'no reason was given'}"
    return ", then drained by an operator" if card.service is Service.DRAINING else ""


def _say_offered(card: KnownCard, _now: datetime) -> str:
    holder = card.holder
    assert holder is not None
    until = f"{holder.expires_at:%H:%M:%S} UTC"
    return f"{card.name} is offered to {holder.agent} for '{holder.title}' ({lease_name(holder.lease)}) until {until}"


def _say_unseen(card: KnownCard, now: datetime) -> str:
    age = spoken_duration(now - card.observed_at)
    return f"{card.name} has not been surveyed for {age}: its host agent is silent, so nothing is granted there"


def _say_drained(card: KnownCard, _now: datetime) -> str:
    why = f": {card.service_reason}" if card.service_reason else ""
    return f"{card.name} is drained by an operator{why}"


def _say_quarantined(card: KnownCard, now: datetime) -> str:
    out = f"since {card.service_since:%-d %b %H:%M} UTC ({spoken_duration(now - card.service_since)})"
    return f"{card.name} is quarantined {out}: {card.service_reason or 'no reason was given'}"


def _say_foreign(card: KnownCard, _now: datetime) -> str:
    return f"{card.name} is used by somebody else since {card.condition_since:%H:%M} UTC{_detail(card)}"


def _say_ghost(card: KnownCard, _now: datetime) -> str:
    since = f"{card.condition_since:%H:%M} UTC"
    return (
        f"{card.name} is held by a ghost since {since}{_detail(card)}; it comes back by itself once that memory is free"
    )


def _say_fault(card: KnownCard, now: datetime) -> str:
    read = ""
    if card.is_stale and card.read_at is not None:
        used = "" if card.used_mib is None else f" with {spoken_memory(card.used_mib)} in use"
        read = f"; last read {spoken_duration(now - card.read_at)} ago{used}"
    return f"{card.name} is {card.condition.value}{_detail(card)}{read}"


def _say_settling(card: KnownCard, _now: datetime) -> str:
    return f"{card.name} is waiting to be observed clear{_detail(card)}"


_SAYINGS = {
    CardState.LEASED: _say_held,
    CardState.OVERDUE: _say_held,
    CardState.OFFERED: _say_offered,
    CardState.UNSEEN: _say_unseen,
    CardState.DRAINED: _say_drained,
    CardState.QUARANTINED: _say_quarantined,
    CardState.FOREIGN: _say_foreign,
    CardState.SETTLING: _say_settling,
    CardState.GHOST: _say_ghost,
    CardState.LOST: _say_fault,
    CardState.BLIND: _say_fault,
}


@dataclass(frozen=True, slots=True)
class Ahead:
    """A ticket that is granted before another one."""

    task: int
    title: str
    agent: str
    ready_at: datetime


def tell_ahead(ticket: Ahead, now: datetime) -> str:
    """Name a ticket that is ahead: 'T-18 'eval-sweep' (claude-2), waiting 41 min'."""
    waited = spoken_duration(now - ticket.ready_at)
    return f"{ticket_name(ticket.task)} '{ticket.title}' ({ticket.agent}), waiting {waited}"


def waiting_chain(
    cards: Sequence[KnownCard], ticket: Waiting, ahead: Sequence[Ahead], places_ahead: int, now: datetime
) -> list[str]:
    """Say everything that stands between a ticket and its cards, the dominant reason first.

    `cards` are those it may use; `ahead` the nearest tickets before it, of `places_ahead` in all.
    """
    if not cards:
        return ["no card that is known fits it any more"]
    held = [(card, said) for card in cards if (said := blocker(card, now) or _barred(card, ticket, now)) is not None]
    chain = _card_reasons(cards, ticket.count, held, now)
    if places_ahead:
        names = spoken_list([f"{ticket_name(each.task)} '{each.title}'" for each in ahead[:3]])
        more = f" and {places_ahead - 3} more" if places_ahead > 3 else ""
        chain.append(f"ahead of you: {names}{more}" if names else f"{places_ahead} tickets are ahead of you")
    if not chain:
        chain.append("the card was just freed and is being granted")
    chain.extend(tell_ahead(each, now) for each in ahead)
    if len(cards) == ticket.count:
        chain.extend(said for card, _ in held if (said := _barred(card, ticket, now)) is not None and said not in chain)
    return chain


def _barred(card: KnownCard, ticket: Waiting, now: datetime) -> str | None:
    """Say which reservation of somebody else a ticket's run would run into, once its card is free."""
    start = free_span(card, now).soonest if card.holder else None
    booking = barrier(card.bookings, ticket.agent, start or now, ticket.run)
    return say_barrier(card.name, booking, ticket.run, now) if booking else None


def _card_reasons(
    cards: Sequence[KnownCard], count: int, held: Sequence[tuple[KnownCard, str]], now: datetime
) -> list[str]:
    clear = len(cards) - len(held)
    if clear >= count or not held:
        return []
    if len(cards) == count:
        return [said for _, said in held]
    first = min(
        held, key=lambda pair: (free_span(pair[0], now).latest or datetime.max.replace(tzinfo=now.tzinfo), pair[0].card)
    )
    others = f"; {len(held) - 1} more are in use too" if len(held) > 1 else ""
    verb = "no fitting card is free" if count == 1 else f"{count} cards of one host are not free together"
    return [f"{verb}: {first[1]}{others}"]


def _when(text: str) -> str:
    return text if text == "now" else f"in {text}"
