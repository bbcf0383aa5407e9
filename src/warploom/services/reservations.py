"""Reservations: promise a named card to an agent for a window, give it up, and follow its beginning and its end."""

from collections.abc import Sequence

from warploom.domain.callers import Role
from warploom.domain.cards import Condition, KnownCard, Service
from warploom.domain.errors import Impossible, NotFound, NotReady, NotYours
from warploom.domain.etas import show_eta
from warploom.domain.events import EventKind
from warploom.domain.identifiers import HostId, ReservationId, SessionId, lease_name, reservation_name, ticket_name
from warploom.domain.instances import refuse_instances
from warploom.domain.messages import WARPLOOM
from warploom.domain.queues import forecast
from warploom.domain.reasons import blocker, free_span, run_into
from warploom.domain.reservations import (
    ReservationAnswer,
    ReservationRules,
    ReservationView,
    ReservationWish,
    read_window,
    refuse_overlap,
    show_booking,
    spoken_window,
)
from warploom.domain.sessions import Actor
from warploom.domain.texts import spoken_list
from warploom.domain.tickets import card_by_name
from warploom.services.changes import Change, Changes, repeated
from warploom.services.grants import GrantTimes, Round, grant_possible, slots_of
from warploom.store import cards as card_store
from warploom.store import messages as message_store
from warploom.store import queues as queue_store
from warploom.store import reservations as reservation_store
from warploom.store import sessions as session_store
from warploom.store.clock import read_clock
from warploom.store.messages import NewMessage
from warploom.store.queues import Head
from warploom.store.reservations import Reservation

MOST_SHOWN = 500


class ReservationService:
    """What can be done with reservations, and what their windows do."""

    def __init__(self, changes: Changes, times: GrantTimes, rules: ReservationRules) -> None:
        self._changes = changes
        self._times = times
        self._rules = rules

    async def upcoming(self) -> list[ReservationView]:
        """Return every reservation that is current or still to come, in order of time."""
        async with self._changes.database.connection() as conn:
            found = await reservation_store.open_reservations(conn, MOST_SHOWN)
        return [_show(each) for each in found]

    @repeated
    async def reserve(self, actor: Actor, wish: ReservationWish, home: str | None = None) -> ReservationAnswer:
        """Promise a named card to the actor's agent for a window; `home` is the caller's own host.

        Raises Taken for a window that overlaps another one, Impossible for one that no rule allows or a card that is lost.
        """
        async with self._changes.begin() as change:
            card = await self._lock(change, wish.card, home)
            now = await read_clock(change.conn)
            window = read_window(wish, self._rules, now)
            _refuse_missing(card)
            refuse_overlap(card.name, card.bookings, window, now)
            await self._refuse_many(change, actor)
            before = await self._queue(change, card.host_id)
            number = await reservation_store.insert_reservation(change.conn, actor, card.card, window)
            made = await _get(change, number)
            _tell(change, EventKind.RESERVATION_MADE, made, session=actor.session)
            after = await self._queue(change, card.host_id)
            told = [*_say_service(card, made), *_say_holder(card, made), *_say_pushed(before, after, made)]
            await grant_possible(change, self._times, Round([card.host_id]), now)
            return ReservationAnswer(_show(made), True, True, told, _next(made))

    @repeated
    async def give_up(self, actor: Actor, reservation: ReservationId, *, preview: bool) -> ReservationAnswer:
        """Take a promise back, one's own or, for operators, anybody's, whose owner is told; again is success.

        With `preview` only say what would happen.
        """
        async with self._changes.begin() as change:
            found = await _get(change, reservation)
            is_own = found.booking.agent == actor.agent
            if not is_own and actor.role is not Role.OPERATOR:
                raise NotYours(
                    f"{found.booking.name} belongs to {found.booking.agent_name}, not to {actor.agent_name}.",
                    "Name one of your own, or ask its owner or an operator; `warploom reservations` lists them.",
                )
            await card_store.lock_cards(change.conn, [found.host])
            found = await _get(change, reservation)
            told = await self._take_back(change, actor, found, preview=preview)
            return ReservationAnswer(_show(found), not preview, is_own, told, "`warploom reservations` lists the rest.")

    @repeated
    async def turn(self) -> int:
        """Follow the windows that have begun or ended: grant what that makes possible, and tell who runs into one."""
        async with self._changes.database.connection() as conn:
            if not await reservation_store.due_hosts(conn):
                return 0
        async with self._changes.begin() as change:
            hosts = await reservation_store.due_hosts(change.conn)
            await card_store.lock_cards(change.conn, hosts)
            over = await reservation_store.note_over(change.conn, hosts)
            begun = await reservation_store.note_begun(change.conn, hosts)
            for each in over:
                _tell(change, EventKind.RESERVATION_OVER, each)
            for each in begun:
                _tell(change, EventKind.RESERVATION_BEGUN, each)
            await _warn_holders(change, hosts, begun)
            await grant_possible(change, self._times, Round(hosts), await read_clock(change.conn))
            return len(over) + len(begun)

    async def _lock(self, change: Change, name: str, home: str | None) -> KnownCard:
        card = card_by_name(name, await card_store.read_cards(change.conn), home)
        await card_store.lock_cards(change.conn, [card.host_id])
        cards = await card_store.read_cards(change.conn, [card.host_id])
        return next(found for found in cards if found.card == card.card)

    async def _refuse_many(self, change: Change, actor: Actor) -> None:
        count = await reservation_store.count_open(change.conn, actor.agent)
        if count >= self._rules.most:
            raise Impossible(
                f"{actor.agent_name} has {count} open reservations, the most that one may have.",
                "Wait until one is over, or give one up that is not needed; `warploom reservations` lists them.",
            )

    async def _queue(self, change: Change, host: HostId) -> list[tuple[Head, str | None]]:
        """Return who waits on a host, each with when it is expected to start; None where nobody knows."""
        cards = await card_store.read_cards(change.conn, [host])
        heads = await queue_store.read_heads(change.conn, [host])
        now = await read_clock(change.conn)
        starts = forecast(slots_of(cards, now), [head.waiting for head in heads], now)
        return [
            (head, show_eta(span, now).text if (span := starts[head.waiting.task]).is_known else None) for head in heads
        ]

    async def _take_back(self, change: Change, actor: Actor, found: Reservation, *, preview: bool) -> list[str]:
        booking = found.booking
        if found.is_given_up:
            return [f"{booking.name} was given up already."]
        if booking.ends_at <= found.now:
            raise NotReady(f"{booking.name} is over.", "Nothing is left of it to be given up.")
        lengths = await queue_store.queue_lengths(change.conn, [found.card_id])
        told = _say_back(found, lengths.get(found.card_id, 0))
        if booking.agent != actor.agent:
            told.append(f"{booking.agent_name} is told.")
        if preview or not await reservation_store.give_up(change.conn, booking.reservation, actor.agent):
            return told
        _tell(change, EventKind.RESERVATION_GIVEN_UP, found, session=actor.session, by=actor.agent_name)
        if booking.agent != actor.agent:
            await _tell_owner(change, actor, found)
        await grant_possible(change, self._times, Round([found.host]), found.now)
        return told


async def _get(change: Change, reservation: ReservationId) -> Reservation:
    found = await reservation_store.get_reservation(change.conn, reservation)
    if found is None:
        raise NotFound(
            f"There is no reservation {reservation_name(reservation)}.", "`warploom reservations` lists them."
        )
    return found


def _show(found: Reservation) -> ReservationView:
    return show_booking(found.booking, found.card, found.now)


def _tell(
    change: Change, kind: EventKind, found: Reservation, *, session: SessionId | None = None, by: str = ""
) -> None:
    booking = found.booking
    facts = {
        "reservation": booking.name,
        "agent": booking.agent_name,
        "cards": found.card,
        "window": spoken_window(booking, found.now),
    }
    if by:
        facts["by"] = by
    change.tell(kind, facts, session=session, host=found.host, cards=[found.card_id])


async def _tell_owner(change: Change, actor: Actor, found: Reservation) -> None:
    booking = found.booking
    text = (
        f"{actor.agent_name} gave up your reservation {booking.name} of {found.card} "
        f"({spoken_window(booking, found.now)}). `warploom reserve` makes another one."
    )
    await message_store.insert_messages(
        change.conn, NewMessage([booking.agent], None, actor.project, None, WARPLOOM, text)
    )


async def _warn_holders(change: Change, hosts: Sequence[HostId], begun: Sequence[Reservation]) -> None:
    """Send one message to each holder who still runs where somebody else's window has begun."""
    started = {each.booking.reservation for each in begun}
    now = await read_clock(change.conn)
    for card in await card_store.read_cards(change.conn, list(hosts)):
        booking = run_into(card, now)
        if booking is None or booking.reservation not in started or card.holder is None:
            continue
        lease = lease_name(card.holder.lease)
        text = (
            f"{card.name}, which you hold with {lease} '{card.holder.title}', is reserved for {booking.agent_name} "
            f"{spoken_window(booking, now)} ({booking.name}), and that time has begun. Nothing is taken from you; "
            f"give the card back as soon as your job ends, for {booking.agent_name} is the next to have it."
        )
        await session_store.send_notice(change.conn, SessionId(card.holder.session), WARPLOOM, text)


def _refuse_missing(card: KnownCard) -> None:
    refuse_instances([card])
    if card.condition is Condition.LOST:
        raise Impossible(
            f"{card.name} is lost: nobody knows whether it comes back.",
            "Reserve another card; `warploom status` shows them.",
        )


def _say_service(card: KnownCard, made: Reservation) -> list[str]:
    if card.service is Service.IN_SERVICE:
        return []
    return [f"{blocker(card, made.now)}. {made.booking.name} holds all the same, and is of use once it is back."]


def _say_holder(card: KnownCard, made: Reservation) -> list[str]:
    holder, booking = card.holder, made.booking
    if holder is None or holder.agent == booking.agent_name:
        return []
    free = free_span(card, made.now)
    who = f"{lease_name(holder.lease)} '{holder.title}' ({holder.agent})"
    if free.latest is not None and free.latest <= booking.starts_at:
        return [f"{who} runs there now and expects to be done before."]
    return [f"{who} runs there and may run into it: nothing is taken from it, and your request goes next."]


def _say_pushed(
    before: Sequence[tuple[Head, str | None]], after: Sequence[tuple[Head, str | None]], made: Reservation
) -> list[str]:
    earlier = {head.waiting.task: start for head, start in before}
    later = [
        f"{ticket_name(head.waiting.task)} '{head.title}' ({head.agent})"
        for head, start in after
        if head.waiting.agent != made.booking.agent and start != earlier.get(head.waiting.task)
    ]
    if not later:
        return []
    more = f" and {len(later) - 5} more" if len(later) > 5 else ""
    return [f"It pushes back {spoken_list(later[:5])}{more}."]


def _say_back(found: Reservation, waiting: int) -> list[str]:
    when = "now" if found.booking.is_current(found.now) else spoken_window(found.booking, found.now)
    tickets = f"; {waiting} {'ticket waits' if waiting == 1 else 'tickets wait'} for it" if waiting else ""
    return [f"Anybody may be granted {found.card} {when}{tickets}."]


def _next(made: Reservation) -> str:
    card = made.card
    ask = f'gpu_request(device="{card}") or `warploom run --card {card} -- …`'
    if made.booking.is_current(made.now):
        return f"Ask for it with {ask}: your requests go first there until it is over."
    return f"Ask for it with {ask} then, or now to wait for it; `warploom unreserve {made.booking.name}` gives it up."
