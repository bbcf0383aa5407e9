"""Cards: the whole rack on one screen, and taking a card out of service and back."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from warploom.domain.calibrations import MOST_PROMISES, WINDOW, in_order
from warploom.domain.callers import Role
from warploom.domain.card_rules import NO_RULES
from warploom.domain.cards import (
    CardLane,
    Condition,
    HostLanes,
    KnownCard,
    KnownHolder,
    Owner,
    QueuePlace,
    Rack,
    Service,
    ServiceAnswer,
)
from warploom.domain.errors import NotAllowed
from warploom.domain.etas import UNKNOWN, Span, show_eta
from warploom.domain.events import EventKind
from warploom.domain.identifiers import CardId, TaskId, lease_name, session_name, ticket_name
from warploom.domain.leases import Holder, Label, ProcessCount, three_clocks
from warploom.domain.limits import words_of
from warploom.domain.queues import forecast, is_put_back
from warploom.domain.reasons import card_state, free_span, is_overdue, run_into, say_card, state_since
from warploom.domain.reservations import SHOWN_AHEAD, show_booking
from warploom.domain.sessions import Actor
from warploom.domain.texts import REASON_LIMIT, one_line, optional_line, spoken_duration
from warploom.domain.tickets import card_by_name
from warploom.services.changes import Change, Changes
from warploom.services.grants import GrantTimes, Round, grant_possible, slots_of
from warploom.services.sessions import require
from warploom.store import cards as card_store
from warploom.store import hosts as host_store
from warploom.store import promises as promise_store
from warploom.store import queues as queue_store
from warploom.store.clock import read_clock
from warploom.store.hosts import HostRow
from warploom.store.queues import Head

SHOWN_PLACES = 5


@dataclass(frozen=True, slots=True)
class _Scene:
    now: datetime
    cards: list[KnownCard]
    heads: list[Head]
    lengths: dict[CardId, int]
    starts: dict[TaskId, Span]

    @property
    def has_weights(self) -> bool:
        """Whether any card is faster or slower than others."""
        return any(card.rules.weight != NO_RULES.weight for card in self.cards)


class CardService:
    """What can be seen of cards, and what operators do with them."""

    def __init__(self, changes: Changes, times: GrantTimes) -> None:
        self._changes = changes
        self._times = times

    async def survey(self) -> Rack:
        """Return every host and card: state, holder, progress, ETA with its word, and the first places of its queue."""
        async with self._changes.database.connection() as conn:
            hosts = await host_store.read_hosts(conn)
            cards = await card_store.read_cards(conn)
            heads = await queue_store.read_heads(conn, [host.host for host in hosts], SHOWN_PLACES)
            lengths = await queue_store.queue_lengths(conn)
            waiting, oldest = await queue_store.count_waiting(conn)
            records = await promise_store.read_records(conn, WINDOW, MOST_PROMISES)
            now = await read_clock(conn)
        starts = forecast(slots_of(cards, now), [head.waiting for head in heads], now)
        scene = _Scene(now, cards, heads, lengths, starts)
        return Rack(
            at=now,
            hosts=[_host_lanes(host, scene) for host in hosts],
            waiting=waiting,
            longest_wait=spoken_duration(now - oldest) if oldest else None,
            next=_next(cards),
            calibration=in_order(records),
        )

    async def drain(self, actor: Actor, name: str, reason: str | None, *, preview: bool) -> ServiceAnswer:
        """Grant nothing more on a card; what runs there goes on. With `preview` only say what would happen."""
        require(actor, Role.OPERATOR)
        why = optional_line(reason, "reason", REASON_LIMIT)
        async with self._changes.begin() as change:
            card = await self._lock(change, name)
            service = Service.DRAINING if card.holder else Service.DRAINED
            lengths = await queue_store.queue_lengths(change.conn, [card.card])
            answer = ServiceAnswer(
                card.name, service, not preview, _out_consequences(card, lengths.get(card.card, 0), "undrained")
            )
            if preview:
                return answer
            _refuse_quarantined(card)
            if await card_store.set_service(change.conn, card.card, service, why):
                facts = {"agent": actor.agent_name, "cards": card.name, "reason": why or "no reason given"}
                self._tell(change, EventKind.CARD_DRAINED, card, actor, facts)
            return answer

    async def undrain(self, actor: Actor, name: str, *, preview: bool) -> ServiceAnswer:
        """Put a card back in service, and grant it in the same change if somebody waits."""
        require(actor, Role.OPERATOR)
        async with self._changes.begin() as change:
            card = await self._lock(change, name)
            lengths = await queue_store.queue_lengths(change.conn, [card.card])
            consequences = _back_consequences(card, lengths.get(card.card, 0))
            answer = ServiceAnswer(card.name, Service.IN_SERVICE, not preview, consequences)
            if preview:
                return answer
            _refuse_quarantined(card)
            if await card_store.set_service(change.conn, card.card, Service.IN_SERVICE, None):
                self._tell(
                    change, EventKind.CARD_UNDRAINED, card, actor, {"agent": actor.agent_name, "cards": card.name}
                )
                await self._grant_again(change, card)
            return answer

    async def quarantine(self, actor: Actor, name: str, reason: str, *, preview: bool) -> ServiceAnswer:
        """Take a card out of service because of its faults; its lease and its queue are kept."""
        require(actor, Role.OPERATOR)
        why = one_line(reason, "reason", REASON_LIMIT)
        async with self._changes.begin() as change:
            card = await self._lock(change, name)
            lengths = await queue_store.queue_lengths(change.conn, [card.card])
            consequences = _out_consequences(card, lengths.get(card.card, 0), "cleared")
            if not preview and await card_store.quarantine(change.conn, card.card, why):
                facts = {"agent": actor.agent_name, "cards": card.name, "reason": why}
                self._tell(change, EventKind.CARD_QUARANTINED, card, actor, facts)
            return ServiceAnswer(card.name, Service.QUARANTINED, not preview, consequences)

    async def clear(self, actor: Actor, name: str, *, preview: bool) -> ServiceAnswer:
        """Put a quarantined card back in service, and grant it in the same change if somebody waits."""
        require(actor, Role.OPERATOR)
        async with self._changes.begin() as change:
            card = await self._lock(change, name)
            if card.service in (Service.DRAINING, Service.DRAINED):
                raise NotAllowed(f"{card.name} is drained, not quarantined.", "`warploom undrain` puts it back.")
            lengths = await queue_store.queue_lengths(change.conn, [card.card])
            consequences = _back_consequences(card, lengths.get(card.card, 0))
            if card.service is Service.QUARANTINED:
                consequences.insert(0, f"{card.service_reason or 'Its faults'}: no longer held against it.")
            if not preview and await card_store.clear_quarantine(change.conn, card.card):
                facts = {"agent": actor.agent_name, "cards": card.name}
                self._tell(change, EventKind.CARD_CLEARED, card, actor, facts)
                await self._grant_again(change, card)
            return ServiceAnswer(card.name, Service.IN_SERVICE, not preview, consequences)

    async def _grant_again(self, change: Change, card: KnownCard) -> None:
        change.order_survey(card.host)
        await grant_possible(change, self._times, Round([card.host_id]), await read_clock(change.conn))

    async def _lock(self, change: Change, name: str) -> KnownCard:
        card = card_by_name(name, await card_store.read_cards(change.conn))
        await card_store.lock_cards(change.conn, [card.host_id])
        cards = await card_store.read_cards(change.conn, [card.host_id])
        return next(found for found in cards if found.card == card.card)

    @staticmethod
    def _tell(change: Change, kind: EventKind, card: KnownCard, actor: Actor, facts: dict[str, str]) -> None:
        change.tell(kind, facts, session=actor.session, host=card.host_id, cards=[card.card])


def _refuse_quarantined(card: KnownCard) -> None:
    if card.service is Service.QUARANTINED:
        raise NotAllowed(
            f"{card.name} is quarantined.",
            "`warploom doctor` shows why; `warploom clear` puts it back once that is mended.",
        )


def _out_consequences(card: KnownCard, waiting: int, until: str) -> list[str]:
    lines: list[str] = []
    if card.holder is not None:
        lines.append(f"{lease_name(card.holder.lease)} '{card.holder.title}' ({card.holder.agent}) keeps running.")
    lines.append(
        f"{waiting} waiting {'ticket keeps its place' if waiting == 1 else 'tickets keep their places'}; nothing more is "
        f"granted here until the card is {until}."
        if waiting
        else f"Nobody waits for it; new requests will queue until the card is {until}."
    )
    return lines


def _back_consequences(card: KnownCard, waiting: int) -> list[str]:
    if card.service is Service.IN_SERVICE:
        return ["It is in service already."]
    if waiting:
        return [
            f"{waiting} {'ticket waits' if waiting == 1 else 'tickets wait'}; the first is granted as soon as the card is clear."
        ]
    return ["Nobody waits for it; the next request gets it."]


def _next(cards: Sequence[KnownCard]) -> str:
    if not cards:
        return "No host has reported a card. Start one with `warploom up`, or try WARPLOOM_FAKE_GPUS=2 warploom up."
    return "Ask for a card with gpu_request; a busy card means a place in its queue."


def _host_lanes(host: HostRow, scene: _Scene) -> HostLanes:
    return HostLanes(
        host=host.name,
        provider=host.provider,
        driver=host.driver,
        surveyed_at=host.surveyed_at,
        is_present=host.is_present,
        problem=host.problem,
        limits=[words.short for words in words_of(host.limits)],
        cards=[_lane(card, scene) for card in scene.cards if card.host_id == host.host and _is_shown(card, scene)],
    )


def _is_shown(card: KnownCard, scene: _Scene) -> bool:
    """Leave out MIG instances that are gone, unless somebody holds or wants them."""
    is_gone = card.condition is Condition.GONE and card.parent_uuid is not None
    return not is_gone or card.holder is not None or scene.lengths.get(card.card, 0) > 0 or bool(card.bookings)


def _lane(card: KnownCard, scene: _Scene) -> CardLane:
    state = card_state(card, scene.now)
    own = [process.memory_mib or 0 for process in card.processes if process.owner is Owner.MEMBER]
    return CardLane(
        card=card.name,
        uuid=card.uuid,
        index=card.index,
        model=card.model,
        memory_mib=card.memory_mib,
        state=state,
        say=say_card(card, scene.now),
        since=state_since(card, state),
        service=card.service,
        condition=card.condition,
        used_mib=card.used_mib,
        lease_mib=sum(own) if own else None,
        utilisation=card.utilisation,
        read_at=card.read_at if card.is_stale else None,
        holder=_holder(card, card.holder, scene.lengths.get(card.card, 0), scene.now) if card.holder else None,
        processes=card.processes,
        queue=_queue(card, scene),
        waiting=scene.lengths.get(card.card, 0),
        free=show_eta(free_span(card, scene.now), scene.now),
        reservations=[
            show_booking(each, card.name, scene.now)
            for each in card.bookings
            if each.starts_at <= scene.now + SHOWN_AHEAD
        ],
        weight=card.rules.weight if scene.has_weights else None,
    )


def _queue(card: KnownCard, scene: _Scene) -> list[QueuePlace]:
    mine = [head for head in scene.heads if card.card in head.waiting.candidates]
    mine = sorted(mine, key=lambda head: is_put_back(head.waiting.agent, card.bookings, scene.now))[:SHOWN_PLACES]
    return [
        QueuePlace(
            ticket=ticket_name(head.waiting.task),
            place=place,
            title=head.title,
            agent=head.agent,
            priority=head.priority,
            since=head.ready_at,
            waiting=spoken_duration(scene.now - head.ready_at),
            starts=show_eta(scene.starts.get(head.waiting.task, UNKNOWN), scene.now),
        )
        for place, head in enumerate(mine, 1)
    ]


def _holder(card: KnownCard, held: KnownHolder, waiting: int, now: datetime) -> Holder:
    pace = held.pace
    processes = ProcessCount(card.members, card.read_at if card.is_stale else None)
    clocks = three_clocks(now, held.seen_at, processes, pace.reported_at if pace else None, pace.rate if pace else None)
    labels = [Label.OVERDUE] if is_overdue(held, now) else []
    if waiting and card.idle_time(now) is not None:
        labels.append(Label.IDLE)
    if card.is_unattended(now):
        labels.append(Label.UNATTENDED)
    into = run_into(card, now)
    return Holder(
        lease=lease_name(held.lease),
        ticket=ticket_name(held.task),
        title=held.title,
        agent=held.agent,
        session=session_name(held.session),
        client=held.client,
        directory=held.directory,
        state=held.state,
        granted_at=held.granted_at,
        expires_at=held.expires_at,
        expected_end=held.expected_end,
        step=pace.step if pace else None,
        total=pace.total if pace else None,
        rate=pace.rate if pace else None,
        labels=labels,
        clocks=clocks,
        eta=show_eta(free_span(card, now), now),
        delivered=held.delivery.text if held.delivery else None,
        runs_into=into.name if into else None,
    )
