"""Tickets: ask for cards, wait for them, learn why it takes so long, leave the queue."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from warploom.domain.cards import KnownCard
from warploom.domain.deliveries import DeliveryWay
from warploom.domain.errors import MalformedInput, NotFound, NotReady, NotYours, Taken
from warploom.domain.events import EventKind
from warploom.domain.histories import alike
from warploom.domain.identifiers import CardId, LeaseId, TaskId, session_name, ticket_name
from warploom.domain.leases import LeaseState
from warploom.domain.proposals import Proposal, say_due, show_proposal
from warploom.domain.reservations import show_booking
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer
from warploom.domain.tasks import HeadStarts, TaskKind, TaskState
from warploom.domain.tickets import GpuRequest, Me, resolve_cards
from warploom.services.changes import Change, Changes, names, repeated, ticket_topic
from warploom.services.deliveries import deliver
from warploom.services.grants import GrantTimes, Round, grant_possible
from warploom.services.leases import LeaseService
from warploom.services.projects import hold_project
from warploom.services.queues import candidates_of, widen_queues
from warploom.services.task_views import show_lines
from warploom.services.tasks import get
from warploom.services.ticket_views import next_for, show_plainly, show_ticket
from warploom.store import cards as card_store
from warploom.store import claims as claim_store
from warploom.store import graphs as graph_store
from warploom.store import leases as lease_store
from warploom.store import proposals as proposal_store
from warploom.store import queues as queue_store
from warploom.store import runs as run_store
from warploom.store import task_lists
from warploom.store import tickets as ticket_store
from warploom.store.clock import read_clock
from warploom.store.database import Connection
from warploom.store.tickets import Ticket

LONGEST_WAIT_SECONDS = 55.0
_MOST_PROPOSALS = 50


@dataclass(frozen=True, slots=True)
class TicketRules:
    """How the queue is ordered, how long leases and offers live, and the URL that holders are given."""

    head_starts: HeadStarts
    times: GrantTimes
    url: str | None


class TicketService:
    """What can be done with tickets."""

    def __init__(self, changes: Changes, leases: LeaseService, rules: TicketRules) -> None:
        self._changes = changes
        self._leases = leases
        self._rules = rules

    @repeated
    async def request(self, actor: Actor, request: GpuRequest, home: str | None = None) -> TicketAnswer:
        """Ask for cards: a lease when they are free and it is one's turn, else a place in their queue.

        Never blocks. Asking again for the same purpose returns the ticket that is open already. `home` is the caller's
        own host. Raises Impossible for what could never be had, NotReady in an archived project.
        """
        async with self._changes.begin() as change:
            await hold_project(change.conn, actor, None)
            cards = await card_store.read_cards(change.conn)
            allowed = resolve_cards(request.need, cards, home)
            named = sorted(allowed) if request.need.named else []
            head_start = self._rules.head_starts.of(request.priority)
            task = await ticket_store.insert_ticket(change.conn, actor, request, named, head_start)
            if task is not None:
                await self._enter(change, actor, task, request.job, cards, allowed)
                return await self._answer(change.conn, task)
        return await self._existing(actor, request)

    @repeated
    async def enter(self, actor: Actor, task: TaskId) -> TicketAnswer:
        """Take a task that needs cards into their queues as the actor's ticket; it is claimed together with them.

        Entering again is success. Raises Taken when somebody else waits with it, NotReady when it is not ready or when no
        card there is could serve it.
        """
        async with self._changes.begin() as change:
            cards = await self._want(change, actor, task)
            if cards is not None:
                ticket = await _get(change.conn, task)
                allowed = candidates_of(ticket, cards)
                await self._enter(change, actor, task, ticket.title, cards, allowed)
            return await self._answer(change.conn, task)

    @repeated
    async def take_at_once(self, actor: Actor, task: TaskId) -> TicketAnswer | None:
        """Take a task with its cards if that is possible right now; None, with nothing changed, if it would have to wait."""
        try:
            async with self._changes.begin() as change:
                await self._require_clear(change.conn, task)
                cards = await self._want(change, actor, task) or []
                ticket = await _get(change.conn, task)
                await self._enter(change, actor, task, ticket.title, cards, candidates_of(ticket, cards))
                answer = await self._answer(change.conn, task)
                if answer.state is not Standing.ACTIVE:
                    raise _NotAtOnce
                return answer
        except (_NotAtOnce, Taken, NotReady):
            return None

    async def explain(self, actor: Actor, task: TaskId) -> TicketAnswer:
        """Say where a ticket stands: its lease, or one dominant reason, its place, when it starts and who is ahead."""
        return await self._explain(actor, await self._read(task), DeliveryWay.ANSWER)

    @repeated
    async def leave(self, actor: Actor, task: TaskId) -> TicketAnswer:
        """Leave the queue, or give an offer back; a lease that is in use is released instead, with gpu_release."""
        async with self._changes.begin() as change:
            ticket = await _get(change.conn, task)
            _require_own(actor, ticket)
            cards = ticket.candidates or ticket.lease_cards
            hosts = await ticket_store.hosts_of_cards(change.conn, cards)
            await card_store.lock_cards(change.conn, hosts)
            ticket = await _get(change.conn, task)
            if ticket.state is TaskState.CLAIMED:
                await self._withdraw(change, ticket)
            elif await _leave(change.conn, ticket):
                await ticket_store.dequeue(change.conn, task)
                facts = await self._facts(change.conn, ticket)
                change.tell(EventKind.TICKET_LEFT, facts, project=ticket.project, task=task, session=ticket.session)
            await grant_possible(change, self._rules.times, Round(hosts), ticket.now)
            if ticket.kind is not TaskKind.GPU:
                return show_plainly(ticket, Standing.ENDED, "left the queue", "Anybody may claim its task again.")
            return await self._answer(change.conn, task)

    async def wait(
        self, actor: Actor, task: TaskId, seconds: float, way: DeliveryWay = DeliveryWay.WAIT
    ) -> TicketAnswer:
        """Wait until a ticket is no longer queued, at most `seconds` (55 at most); holds no database connection.

        `way` says who waits, for the note of how its offer was delivered. A parked ticket whose owner waits again goes back
        into the queue first; an offer that has run out is passed on. Listens, then reads, then waits; the backstop rings where a
        hint was lost.
        """
        end = time.monotonic() + max(0.0, min(seconds, LONGEST_WAIT_SECONDS))
        bus = self._changes.bus
        with bus.listen(ticket_topic(task)) as listener:
            while not bus.is_closing:
                ticket = await self._read(task)
                if ticket.is_parked:
                    await self._resume(actor, task)
                elif ticket.offer_ran_out:
                    await self._leases.lapse(LeaseId(ticket.lease or 0))
                    continue
                elif ticket.state is not TaskState.READY or time.monotonic() >= end:
                    return await self._explain(actor, ticket, way)
                await listener.wait(end - time.monotonic())
        return await self.explain(actor, task)

    async def me(self, actor: Actor, notices: list[str]) -> Me:
        """Return what a session's agent holds and waits for: enough to go on after its context was compacted."""
        async with self._changes.database.connection() as conn:
            tickets = await ticket_store.open_tickets(conn, actor)
            claimed = show_lines(await task_lists.rows_held(conn, actor.agent))
            cards = await card_store.read_cards(conn)
            delivered = {each.task: each for each in await deliver(conn, self._changes, tickets, DeliveryWay.ANSWER)}
            tickets = [delivered.get(ticket.task, ticket) for ticket in tickets]
            answers = [await show_ticket(conn, ticket, cards, self._rules.url) for ticket in tickets]
            now = await read_clock(conn)
            project = await graph_store.name_of(conn, actor.project)
            proposals = await proposal_store.proposals_of(conn, actor.agent, _MOST_PROPOSALS)
        held = [answer for answer in answers if answer.state in (Standing.ACTIVE, Standing.OFFERED)]
        waiting = [answer for answer in answers if answer not in held]
        return Me(
            session=session_name(actor.session),
            agent=actor.agent_name,
            project=project,
            at=now,
            leases=held,
            tickets=waiting,
            notices=notices,
            next=_due_word(actor, proposals) or next_for(held, waiting, claimed),
            tasks=claimed,
            reservations=[
                show_booking(booking, card.name, now)
                for card in cards
                for booking in card.bookings
                if booking.agent == actor.agent
            ],
            proposals=[show_proposal(each) for each in proposals],
        )

    @repeated
    async def grant_everywhere(self) -> int:
        """Put ready tickets into the queues that they are missing from, and grant what is possible on every host.

        Changes grant by themselves; this is the net under them. Returns how many grants were made.
        """
        async with self._changes.begin() as change:
            cards = await card_store.read_cards(change.conn)
            await card_store.lock_cards(change.conn, sorted({card.host_id for card in cards}))
            for task in await ticket_store.stray_tickets(change.conn):
                ticket = await _get(change.conn, task)
                await ticket_store.enqueue(change.conn, task, candidates_of(ticket, cards))
            await widen_queues(change.conn, cards)
            hosts = await queue_store.hosts_with_work(change.conn)
            if not hosts:
                return 0
            now = await read_clock(change.conn)
            return len(await grant_possible(change, self._rules.times, Round(hosts), now))

    async def _enter(
        self, change: Change, actor: Actor, task: TaskId, job: str, cards: list[KnownCard], allowed: list[CardId]
    ) -> None:
        chosen = [card for card in cards if card.card in set(allowed)]
        hosts = sorted({card.host_id for card in chosen})
        await card_store.lock_cards(change.conn, hosts)
        past = alike(await run_store.runs_like(change.conn, task), {card.model for card in chosen})
        if past:
            await ticket_store.remember_runs(change.conn, task, past)
        await ticket_store.enqueue(change.conn, task, allowed)
        facts = {"agent": actor.agent_name, "title": job, "cards": names(card.name for card in chosen)}
        change.tell(
            EventKind.TICKET_QUEUED, facts, project=actor.project, task=task, session=actor.session, cards=allowed
        )
        now = await read_clock(change.conn)
        await grant_possible(change, self._rules.times, Round(hosts, present=task), now)

    async def _want(self, change: Change, actor: Actor, task: TaskId) -> list[KnownCard] | None:
        """Make a task the actor's ticket and return all cards; None when it was the actor's already.

        The cards it may use are locked before it is.
        """
        cards = await card_store.read_cards(change.conn)
        allowed = set(candidates_of(await get(change.conn, task), cards))
        await card_store.lock_cards(change.conn, sorted({card.host_id for card in cards if card.card in allowed}))
        if not await claim_store.want_task(change.conn, task, actor):
            ticket = await ticket_store.get_ticket(change.conn, task)
            if ticket is None or ticket.state not in (TaskState.READY, TaskState.CLAIMED):
                raise NotReady(f"{ticket_name(task)} cannot be claimed as it stands.", "loom_explain says why.")
            if ticket.agent != actor.agent:
                raise Taken(f"{ticket.agent_name} has {ticket_name(task)}.", "Take another task with loom_claim().")
            return None
        if not allowed:
            raise NotReady(f"No card there is could serve {ticket_name(task)}.", "`warploom status` shows the cards.")
        return cards

    async def _require_clear(self, conn: Connection, task: TaskId) -> None:
        """Raise _NotAtOnce unless enough of the cards that a task may use are clear, so that it is worth locking them."""
        found, cards = await get(conn, task), await card_store.read_cards(conn)
        allowed = set(candidates_of(found, cards))
        if sum(card.is_grantable for card in cards if card.card in allowed) < found.need_count:
            raise _NotAtOnce

    async def _existing(self, actor: Actor, request: GpuRequest) -> TicketAnswer:
        async with self._changes.database.connection() as conn:
            task = await ticket_store.find_ticket(conn, actor, request.purpose)
        if task is None:
            return await self.request(actor, request)
        ticket = await self._read(task)
        if ticket.is_parked:
            await self._resume(actor, task)
        if request.run is not None and ticket.run is None:
            await self._bound(task, request.run)
        return replace(await self.explain(actor, task), deduplicated=True)

    @repeated
    async def _bound(self, task: TaskId, run: timedelta) -> None:
        """Note how long a waiting ticket's run will take, which may let it go before others or before a reservation."""
        async with self._changes.begin() as change:
            hosts = await ticket_store.hosts_of_cards(change.conn, (await _get(change.conn, task)).candidates)
            await card_store.lock_cards(change.conn, hosts)
            if await ticket_store.bound_ticket(change.conn, task, run):
                now = await read_clock(change.conn)
                await grant_possible(change, self._rules.times, Round(hosts, present=task), now)

    @repeated
    async def _resume(self, actor: Actor, task: TaskId) -> None:
        async with self._changes.begin() as change:
            ticket = await _get(change.conn, task)
            _require_own(actor, ticket)
            cards = await card_store.read_cards(change.conn)
            allowed = candidates_of(ticket, cards)
            hosts = sorted({card.host_id for card in cards if card.card in set(allowed)})
            await card_store.lock_cards(change.conn, hosts)
            if not await ticket_store.resume_ticket(change.conn, task):
                return
            await ticket_store.enqueue(change.conn, task, allowed)
            ticket = await _get(change.conn, task)
            facts = await self._facts(change.conn, ticket)
            change.tell(EventKind.TICKET_RESUMED, facts, project=ticket.project, task=task, session=ticket.session)
            await grant_possible(change, self._rules.times, Round(hosts), ticket.now)

    async def _withdraw(self, change: Change, ticket: Ticket) -> None:
        if ticket.lease_state is LeaseState.ACTIVE:
            shown = show_plainly(ticket, Standing.ACTIVE, "", "")
            raise MalformedInput(
                f"{shown.ticket} does not wait any more: it holds {shown.lease}.",
                f"Call {shown.ending} once your job has ended.",
            )
        held = await lease_store.get_lease(change.conn, LeaseId(ticket.lease or 0))
        assert held is not None
        await self._leases.withdraw(change, held)

    async def _read(self, task: TaskId) -> Ticket:
        async with self._changes.database.connection() as conn:
            return await _get(conn, task)

    async def _explain(self, actor: Actor, ticket: Ticket, way: DeliveryWay) -> TicketAnswer:
        """Show a ticket; an offer that is shown to its own agent has reached it."""
        async with self._changes.database.connection() as conn:
            if actor.agent == ticket.agent and ticket.is_undelivered:
                ticket = next(iter(await deliver(conn, self._changes, [ticket], way)), ticket)
            return await show_ticket(conn, ticket, await card_store.read_cards(conn), self._rules.url)

    async def _facts(self, conn: Connection, ticket: Ticket) -> dict[str, str]:
        chosen = set(ticket.candidates or ticket.lease_cards or ticket.need_cards)
        cards = await card_store.read_cards(conn)
        joined = names(card.name for card in cards if card.card in chosen) or "any card"
        return {"agent": ticket.agent_name, "title": ticket.title, "cards": joined}

    async def _answer(self, conn: Connection, task: TaskId) -> TicketAnswer:
        ticket = await _get(conn, task)
        return await show_ticket(conn, ticket, await card_store.read_cards(conn), self._rules.url)


def _due_word(actor: Actor, proposals: Sequence[Proposal]) -> str | None:
    """Remind a holder of what it agreed to do by now."""
    due = [
        each for each in proposals if each.due_at is not None and each.answered_at and each.holder.agent == actor.agent
    ]
    return say_due(due[0]) if due else None


class _NotAtOnce(Exception):
    """Undoes a change that would have made a task wait."""


async def _leave(conn: Connection, ticket: Ticket) -> bool:
    """Cancel a waiting request for cards; a task that waits for cards may be claimed by anybody again."""
    if ticket.kind is TaskKind.GPU:
        return await ticket_store.leave_ticket(conn, ticket.task, "left the queue")
    return await claim_store.return_task(conn, ticket.task)


async def _get(conn: Connection, task: TaskId) -> Ticket:
    ticket = await ticket_store.get_ticket(conn, task)
    if ticket is None:
        raise NotFound(f"There is no ticket {ticket_name(task)}.", "loom_me lists the tickets you wait with.")
    return ticket


def _require_own(actor: Actor, ticket: Ticket) -> None:
    if actor.agent != ticket.agent:
        raise NotYours(
            f"{ticket_name(ticket.task)} belongs to {ticket.agent_name}, not to {actor.agent_name}.",
            "Name a ticket of your own; loom_me lists them.",
        )
