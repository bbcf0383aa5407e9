"""How tickets are shown: a lease with its exports, or a place in the queue with one reason and an estimate."""

from collections.abc import Sequence
from dataclasses import replace

from warploom.domain.buses import cuda_numbers
from warploom.domain.cards import KnownCard
from warploom.domain.etas import UNKNOWN, Span, show_eta
from warploom.domain.identifiers import HostId, lease_name, ticket_name
from warploom.domain.leases import END_SENTENCES, HeldCard, LeaseState, exports, unnumbered
from warploom.domain.queues import Waiting, forecast, is_put_back
from warploom.domain.reasons import Ahead, waiting_chain
from warploom.domain.reservations import barrier, booking_at
from warploom.domain.standings import Standing, TicketAnswer
from warploom.domain.task_answers import TaskLine
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.texts import spoken_list
from warploom.services.grants import slots_of
from warploom.store import promises as promise_store
from warploom.store import queues as queue_store
from warploom.store.database import Connection
from warploom.store.queues import Head
from warploom.store.tickets import Ticket


async def show_ticket(conn: Connection, ticket: Ticket, cards: Sequence[KnownCard], url: str | None) -> TicketAnswer:
    """Say where a ticket stands: its lease with what to export, or its place with one reason and an estimate."""
    if ticket.state is TaskState.CLAIMED and ticket.lease is not None:
        return _show_lease(ticket, ticket.lease, cards, url)
    if ticket.state is TaskState.READY:
        return await _show_waiting(conn, ticket, cards)
    name = ticket_name(ticket.task)
    if ticket.is_parked:
        return show_plainly(
            ticket,
            Standing.PARKED,
            ticket.outcome or "parked",
            f"Run `warploom wait {name}` to go back into the queue at its original age.",
        )
    reason = ticket.outcome or (END_SENTENCES[ticket.lease_end] if ticket.lease_end else ticket.state.value)
    if ticket.kind is not TaskKind.GPU:
        return show_plainly(
            ticket, Standing.ENDED, reason, f'Claim it again with loom_claim("{name}") if it is not over.'
        )
    return show_plainly(ticket, Standing.ENDED, reason, "Ask again with gpu_request if you still need a card.")


def _show_lease(ticket: Ticket, lease: int, cards: Sequence[KnownCard], url: str | None) -> TicketAnswer:
    held = [card for card in cards if card.card in set(ticket.lease_cards)]
    numbers = cuda_numbers([card for card in cards if card.host_id == held[0].host_id]) if held else {}
    slots = [HeldCard(card.name, card.uuid, card.index, numbers.get(card.uuid)) for card in held]
    is_active = ticket.lease_state is LeaseState.ACTIVE
    start = "Prefix your command with these variables." if is_active else "Start the job now: that accepts the offer."
    answer = TicketAnswer(
        ticket=ticket_name(ticket.task),
        title=ticket.title,
        state=Standing.ACTIVE if is_active else Standing.OFFERED,
        agent=ticket.agent_name,
        cards=[card.name for card in held],
        lease=lease_name(lease),
        export=exports(lease, slots, ticket.env_style, url),
        expires_at=ticket.expires_at,
        next="",
        is_task=ticket.kind is not TaskKind.GPU,
        export_note=unnumbered(slots, ticket.env_style),
        delivered=ticket.delivery.text if ticket.delivery else None,
    )
    return replace(answer, next=f"{start} Call {answer.ending} when {'it' if answer.is_task else 'the job'} ends.")


async def _show_waiting(conn: Connection, ticket: Ticket, cards: Sequence[KnownCard]) -> TicketAnswer:
    candidates = set(ticket.candidates)
    fitting = [card for card in cards if card.card in candidates]
    hosts = sorted({card.host_id for card in fitting})
    heads = await queue_store.read_heads(conn, hosts)
    places = await queue_store.places_of(conn, ticket.task)
    starts = _start_of(ticket, cards, hosts, heads)
    await promise_store.promise_start(conn, ticket.task, starts)
    place = min((_place(places.get(card.card, 1), ticket, card, heads) for card in fitting), default=1)
    ahead = _ahead(ticket, heads, fitting)
    chain = waiting_chain(fitting, _waiting(ticket), ahead[:5], place - 1, ticket.now)
    name = ticket_name(ticket.task)
    return TicketAnswer(
        ticket=name,
        title=ticket.title,
        state=Standing.QUEUED,
        agent=ticket.agent_name,
        cards=[card.name for card in fitting],
        place=place,
        reason=chain[0],
        chain=chain,
        starts=show_eta(starts, ticket.now),
        also_free=_also_free(ticket, cards, heads),
        next=(
            f"Run `warploom wait {name}` in the background and end your turn; it exits when "
            f"{'the card is' if ticket.need_count == 1 else 'the cards are'} yours. "
            "Do not use another card unless the user says so."
        ),
    )


def _start_of(ticket: Ticket, cards: Sequence[KnownCard], hosts: list[HostId], heads: list[Head]) -> Span:
    slots = slots_of([card for card in cards if card.host_id in set(hosts)], ticket.now)
    return forecast(slots, [head.waiting for head in heads], ticket.now).get(ticket.task, UNKNOWN)


def _waiting(ticket: Ticket) -> Waiting:
    return Waiting(ticket.task, ticket.need_count, frozenset(ticket.candidates), ticket.bound, ticket.agent)


def _place(place: int, ticket: Ticket, card: KnownCard, heads: list[Head]) -> int:
    """Correct a place by age for a card that is reserved now: its owner's tickets stand before all others."""
    booking = booking_at(card.bookings, ticket.now)
    if booking is None:
        return place
    owners = [head for head in heads if head.waiting.agent == booking.agent and card.card in head.waiting.candidates]
    older = sum((head.order_key, head.waiting.task) < (ticket.order_key, ticket.task) for head in owners)
    return 1 + older if ticket.agent == booking.agent else place + len(owners) - older


def _ahead(ticket: Ticket, heads: list[Head], cards: Sequence[KnownCard]) -> list[Ahead]:
    return [
        Ahead(head.waiting.task, head.title, head.agent, head.ready_at)
        for head in heads
        if any(card.card in head.waiting.candidates and _is_before(head, ticket, card) for card in cards)
    ]


def _is_before(head: Head, ticket: Ticket, card: KnownCard) -> bool:
    is_late, am_late = (is_put_back(each, card.bookings, ticket.now) for each in (head.waiting.agent, ticket.agent))
    return (is_late, head.order_key, head.waiting.task) < (am_late, ticket.order_key, ticket.task)


def _also_free(ticket: Ticket, cards: Sequence[KnownCard], heads: list[Head]) -> list[str]:
    wanted = {card for head in heads for card in head.waiting.candidates} | set(ticket.candidates)
    free = [
        card
        for card in cards
        if card.is_grantable and barrier(card.bookings, ticket.agent, ticket.now, ticket.bound) is None
    ]
    return [card.name for card in free if card.card not in wanted][:8]


def show_plainly(ticket: Ticket, state: Standing, reason: str, next_step: str) -> TicketAnswer:
    """Say where a ticket stands that neither waits nor holds anything."""
    return TicketAnswer(
        ticket=ticket_name(ticket.task),
        title=ticket.title,
        state=state,
        agent=ticket.agent_name,
        reason=reason,
        next=next_step,
        lease=lease_name(ticket.lease) if ticket.lease is not None else None,
        is_task=ticket.kind is not TaskKind.GPU,
    )


def next_for(held: list[TicketAnswer], waiting: list[TicketAnswer], claimed: list[TaskLine]) -> str:
    """Say what a session does best next, by what it holds, waits for and has claimed."""
    offered = [answer.lease or "" for answer in held if answer.state is Standing.OFFERED]
    if offered:
        return f"Accept {spoken_list(offered)} by starting the job or reporting on it before the offer runs out."
    if held:
        return f"Go on with what you hold, and call {held[0].ending} as soon as it ends."
    if claimed:
        task, lease = claimed[0].task, claimed[0].lease
        return f'Go on with {task}, and end it with loom_done("{task}", lease="{lease}") or loom_fail.'
    if waiting:
        return f"Run `warploom wait {waiting[0].ticket}` in the background and end your turn."
    return "You hold nothing and wait for nothing; loom_claim() takes a task, gpu_request asks for a card."
