"""Standpoints: what a proposal is about, found, locked, checked and moved. A proposal that no longer fits is refused with why."""

from datetime import datetime, timedelta

from warploom.domain.errors import Impossible, MalformedInput, NotFound, NotReady
from warploom.domain.identifiers import LeaseId, ReservationId, TaskId, lease_name, reservation_name, ticket_name
from warploom.domain.leases import LeaseState, lease_lost
from warploom.domain.messages import EVERYBODY
from warploom.domain.proposals import Draft, Proposal, ProposalKind
from warploom.domain.sessions import Actor
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.texts import spoken_duration, spoken_list
from warploom.services.changes import Change
from warploom.services.grants import GrantTimes, Round, grant_possible
from warploom.services.sessions import agent_named
from warploom.store import cards as card_store
from warploom.store import leases as lease_store
from warploom.store import proposals as proposal_store
from warploom.store import queues as queue_store
from warploom.store import reservations as reservation_store
from warploom.store import tickets as ticket_store
from warploom.store.database import Connection
from warploom.store.leases import Lease
from warploom.store.proposals import NewProposal
from warploom.store.reservations import Reservation
from warploom.store.sessions import KnownAgent
from warploom.store.tickets import Ticket

_LEAST = timedelta(minutes=1)
"""What stays of a window with its owner."""
_TICK = timedelta(microseconds=1)


async def draft_of(conn: Connection, actor: Actor, draft: Draft) -> NewProposal:
    """Find the other party and what is meant; raise NotFound, MalformedInput or Impossible where there is no such thing."""
    if draft.lease is not None:
        return await _draft_lease(conn, actor, draft, draft.lease)
    if draft.reservation is not None:
        return await _draft_reservation(conn, actor, draft, draft.reservation)
    return await _draft_swap(conn, actor, draft, draft.other_ticket or TaskId(0))


async def _draft_lease(conn: Connection, actor: Actor, draft: Draft, lease: LeaseId) -> NewProposal:
    held = await _lease(conn, lease)
    partner = await _other(conn, actor, KnownAgent(held.agent, held.agent_name), draft.to, lease_name(lease))
    is_own = held.agent == actor.agent
    asker = partner if is_own else KnownAgent(actor.agent, actor.agent_name)
    ticket = await proposal_store.ticket_waiting_for(conn, asker.agent, held.cards)
    if ticket is None and held.state is not LeaseState.ENDED:
        cards = spoken_list(held.card_names[:8]) or "a card of it"
        who = f"{asker.name} does" if is_own else "You do"
        raise Impossible(
            f"{who} not wait for {cards}: nobody is helped by its release.",
            f'Ask for the card first with gpu_request(device="{(held.card_names or ["…"])[0]}").',
        )
    if ticket is None:
        raise await _ended(conn, held)
    return _new(actor, draft, partner, lease=lease, ticket=ticket)


async def _draft_reservation(conn: Connection, actor: Actor, draft: Draft, reservation: ReservationId) -> NewProposal:
    found = await _reservation(conn, reservation)
    owner = KnownAgent(found.booking.agent, found.booking.agent_name)
    partner = await _other(conn, actor, owner, draft.to, found.booking.name)
    return _new(actor, draft, partner, reservation=reservation)


async def _draft_swap(conn: Connection, actor: Actor, draft: Draft, other: TaskId) -> NewProposal:
    theirs = await _ticket(conn, other)
    if theirs.agent == actor.agent:
        raise MalformedInput(
            f"{ticket_name(other)} is your own.", "Name the other's ticket; your own is found by itself."
        )
    partner = await _other(conn, actor, KnownAgent(theirs.agent, theirs.agent_name), draft.to, ticket_name(other))
    mine = draft.ticket or await proposal_store.twin_of(conn, actor.agent, other)
    if mine is None:
        raise Impossible(
            f"You have no ticket in the very queues of {ticket_name(other)}: a swap would push back others, who have not agreed.",
            "Propose release_at_step or split_window to a holder, or wait.",
        )
    ticket = await _ticket(conn, mine)
    if ticket.agent != actor.agent:
        raise MalformedInput(f"{ticket_name(mine)} is not yours.", "Name a ticket of your own; loom_me lists them.")
    return _new(actor, draft, partner, ticket=mine, other_ticket=other)


def _new(
    actor: Actor,
    draft: Draft,
    partner: KnownAgent,
    *,
    lease: LeaseId | None = None,
    ticket: TaskId | None = None,
    other_ticket: TaskId | None = None,
    reservation: ReservationId | None = None,
) -> NewProposal:
    return NewProposal(
        project=actor.project,
        proposer=actor.agent,
        partner=partner.agent,
        terms=draft.terms,
        reason=draft.reason,
        patience=draft.patience,
        lease=lease,
        ticket=ticket,
        other_ticket=other_ticket,
        reservation=reservation,
        replaces=draft.instead_of,
    )


async def _other(conn: Connection, actor: Actor, owner: KnownAgent, to: str | None, about: str) -> KnownAgent:
    """Return to whom a proposal goes: the owner of what it is about, or whom its own owner names."""
    if to is not None and to.lower() == EVERYBODY:
        raise MalformedInput("A proposal goes to one agent.", "Name it, or leave the recipient out.")
    named = None if to is None else await agent_named(conn, to)
    if owner.agent != actor.agent:
        if named is not None and named.agent != owner.agent:
            raise MalformedInput(f"{about} is {owner.name}'s, not {named.name}'s.", f"Write to {owner.name}.")
        return owner
    if named is None or named.agent == actor.agent:
        raise MalformedInput(f"{about} is your own.", "Name the agent that you propose it to.")
    return named


async def lock_facts(conn: Connection, found: Proposal | NewProposal) -> None:
    """Lock what a proposal is about: cards, then the lease, then the tickets."""
    if found.lease is not None:
        await lease_store.lock_cards_of(conn, found.lease)
        await lease_store.lock_leases(conn, [found.lease])
    elif found.reservation is not None:
        await card_store.lock_cards(conn, [(await _reservation(conn, found.reservation)).host])
    elif found.ticket is not None:
        candidates = (await _ticket(conn, found.ticket)).candidates
        await card_store.lock_cards(conn, await ticket_store.hosts_of_cards(conn, candidates))
    tickets = [ticket for ticket in (found.ticket, found.other_ticket) if ticket is not None]
    if tickets:
        await proposal_store.lock_tasks(conn, tickets)


async def require_facts(conn: Connection, found: Proposal) -> None:
    """Raise NotReady or Impossible unless all that a proposal is about still stands, and nobody else is pushed back by it."""
    if found.lease is not None:
        await _require_lease(conn, found, await _lease(conn, found.lease))
    elif found.reservation is not None:
        _require_window(found, await _reservation(conn, found.reservation))
    else:
        await _require_swap(conn, found)


async def _require_lease(conn: Connection, found: Proposal, held: Lease) -> None:
    if held.state is LeaseState.ENDED:
        raise await _ended(conn, held)
    lease = lease_name(held.lease)
    if held.state is LeaseState.OFFERED:
        raise NotReady(f"{lease} is an offer that nobody has taken up yet.", "Propose it once its owner has started.")
    agreed = await proposal_store.agreement_of(conn, held.lease)
    if agreed is not None:
        raise NotReady(
            f"{lease} is promised already: {agreed.name} with {agreed.asker.name}.",
            "Wait with your ticket; each release lets the first who waits go.",
        )
    ticket = await _waiting(conn, found.ticket or TaskId(0))
    if not set(ticket.candidates) & set(held.cards):
        raise Impossible(f"{ticket_name(ticket.task)} waits for no card of {lease}.", "Propose it to another holder.")
    if found.terms.step is not None:
        _require_step(held, found.terms.step)
    if found.terms.kind is ProposalKind.SPLIT_WINDOW:
        await _require_pause(conn, held, ticket)


def _require_step(held: Lease, step: int) -> None:
    lease = lease_name(held.lease)
    if held.pace is None:
        raise Impossible(
            f"{lease} has reported no steps, so nobody would see it reach one.",
            "Say in how many minutes instead, or let its job report first.",
        )
    if held.pace.step >= step:
        raise NotReady(
            f"{lease} has reached step {held.pace.step:,} already.", "Name a later step, or a time in minutes."
        )


async def _require_pause(conn: Connection, held: Lease, ticket: Ticket) -> None:
    """A holder can come back right behind the asker only where that pushes nobody back."""
    lease, name = lease_name(held.lease), ticket_name(ticket.task)
    if held.kind is not TaskKind.GPU:
        raise Impossible(
            f"{lease} is the claim of the task {ticket_name(held.task)}, which cannot be paused.",
            "Propose release_at_step: its end gives the card back.",
        )
    if ticket.need_count != len(held.cards) or not set(held.cards) <= set(ticket.candidates):
        raise Impossible(f"{name} and {lease} do not need the same cards.", "Propose release_at_step instead.")
    places = await queue_store.places_of(conn, ticket.task)
    if any(places.get(card) != 1 for card in held.cards):
        raise NotReady(
            f"{name} is not the first who waits for {spoken_list(held.card_names[:8])}: those before it have not agreed.",
            "Propose a swap to the first, or wait until your ticket is.",
        )


def _require_window(found: Proposal, window: Reservation) -> None:
    booking, length = window.booking, found.terms.length
    if window.is_given_up or booking.ends_at <= window.now:
        raise NotReady(f"{booking.name} is over.", "`warploom reservations` lists those that are not.")
    rest = booking.ends_at - max(booking.starts_at, window.now)
    if length is None or rest - length < _LEAST:
        raise Impossible(
            f"{booking.name} has {spoken_duration(rest)} left, too little to split that off.",
            "Propose a shorter part; at least a minute stays with its owner.",
        )


async def _require_swap(conn: Connection, found: Proposal) -> None:
    one = await _waiting(conn, found.ticket or TaskId(0))
    two = await _waiting(conn, found.other_ticket or TaskId(0))
    if one.agent != found.proposer.agent or two.agent != found.partner.agent:
        raise NotReady("One of the two tickets is somebody else's now.", "loom_me shows yours.")
    names = f"{ticket_name(one.task)} and {ticket_name(two.task)}"
    if one.candidates != two.candidates or one.need_count != two.need_count:
        raise Impossible(
            f"{names} do not stand in the same queues for as many cards: a swap would push back others, who have not agreed.",
            "Propose release_at_step or split_window to a holder, or wait.",
        )
    first, second = sorted((one, two), key=_order)
    is_longer = first.run is not None and (second.run is None or second.run > first.run)
    if is_longer and await proposal_store.count_between(conn, first.task, second.task):
        raise Impossible(
            f"{ticket_name(second.task)} may run longer than {ticket_name(first.task)}, and others stand between them, who would wait "
            "longer and have not agreed.",
            f"Declare a run of at most {spoken_duration(first.run or _LEAST)} for it, or wait.",
        )


async def settle(change: Change, agreed: Proposal, times: GrantTimes) -> None:
    """Do what an agreement does in its very moment, and grant what that makes possible; the caller has locked all of it."""
    conn = change.conn
    if agreed.reservation is not None and agreed.terms.length is not None:
        await proposal_store.split_reservation(conn, agreed.reservation, agreed.asker.agent, agreed.terms.length)
        host = (await _reservation(conn, agreed.reservation)).host
        await grant_possible(change, times, Round([host]), agreed.now)
    elif agreed.terms.kind is ProposalKind.SWAP:
        tickets = [
            await _waiting(conn, ticket) for ticket in (agreed.ticket, agreed.other_ticket) if ticket is not None
        ]
        first, second = sorted(tickets, key=_order)
        later = max(second.order_key, first.order_key + _TICK)
        await proposal_store.place_tickets(conn, {first.task: later, second.task: first.order_key})
        hosts = await ticket_store.hosts_of_cards(conn, first.candidates)
        await grant_possible(change, times, Round(hosts), agreed.now)


def _order(ticket: Ticket) -> tuple[datetime, TaskId]:
    return ticket.order_key, ticket.task


async def _lease(conn: Connection, lease: LeaseId) -> Lease:
    held = await lease_store.get_lease(conn, lease)
    if held is None:
        raise NotFound(f"There is no lease {lease_name(lease)}.", "gpu_survey shows who holds which card.")
    return held


async def _ended(conn: Connection, held: Lease) -> NotReady:
    fate = await lease_store.fate_of(conn, held.lease)
    cause = f"{lease_name(held.lease)} is over." if fate is None else lease_lost(fate).cause
    return NotReady(cause, "Nothing was moved; gpu_survey shows who holds the card now.")


async def _ticket(conn: Connection, task: TaskId) -> Ticket:
    ticket = await ticket_store.get_ticket(conn, task)
    if ticket is None:
        raise NotFound(f"There is no ticket {ticket_name(task)}.", "gpu_survey shows who waits.")
    return ticket


async def _waiting(conn: Connection, task: TaskId) -> Ticket:
    ticket = await _ticket(conn, task)
    if ticket.state is TaskState.READY and ticket.candidates:
        return ticket
    held = f": it has {lease_name(ticket.lease)}" if ticket.state is TaskState.CLAIMED and ticket.lease else ""
    parked = " while it is parked" if ticket.is_parked else " any more"
    raise NotReady(
        f"{ticket_name(task)} of {ticket.agent_name} does not wait{held or parked}.",
        "Nothing was moved; gpu_survey shows who waits.",
    )


async def _reservation(conn: Connection, reservation: ReservationId) -> Reservation:
    found = await reservation_store.get_reservation(conn, reservation)
    if found is None:
        raise NotFound(
            f"There is no reservation {reservation_name(reservation)}.", "`warploom reservations` lists them."
        )
    return found
