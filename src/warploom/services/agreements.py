"""Agreements: what an accepted proposal does by itself. Nothing is taken: holders are told when their time has come."""

from dataclasses import dataclass, replace
from datetime import datetime

from warploom.domain.agreements import Agreement
from warploom.domain.events import EventKind
from warploom.domain.identifiers import AgentId, lease_name, ticket_name
from warploom.domain.messages import WARPLOOM
from warploom.domain.proposals import GRACE, Party, Proposal, ProposalState, say_due, say_terms
from warploom.domain.texts import spoken_duration
from warploom.services.changes import Change, Changes, repeated
from warploom.services.messages import tell_sessions
from warploom.store import messages as message_store
from warploom.store import proposals as proposal_store
from warploom.store import tickets as ticket_store
from warploom.store.leases import Lease
from warploom.store.messages import NewMessage
from warploom.store.sessions import KnownAgent


@dataclass(frozen=True, slots=True)
class Word:
    """What a holder has given its word for, as each of its reports is answered."""

    is_due: bool
    text: str


class AgreementService:
    """Follows proposals on which time or events decide."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    @repeated
    async def turn(self) -> int:
        """Lapse what nobody answered or what is pointless now, close what was kept, tell what is due or was broken; once each."""
        async with self._changes.database.connection() as conn:
            if not await proposal_store.is_any_due(conn, GRACE):
                return 0
        async with self._changes.begin() as change:
            turned = await proposal_store.turn_proposals(change.conn, GRACE)
            for found in turned:
                await _follow(change, found)
            return len(turned)


async def word_of(change: Change, held: Lease) -> Word | None:
    """Say what the holder of a lease has agreed to, and note and tell it once when its step or moment is reached."""
    found = await proposal_store.agreement_of(change.conn, held.lease)
    if found is None:
        return None
    if not _as_agreement(found).is_due(held.pace.step if held.pace else None, held.now):
        return Word(is_due=False, text=f"You agreed that {say_terms(found)} ({found.name}).")
    if await proposal_store.note_due(change.conn, found.proposal):
        await _tell_due(change, found)
    return Word(is_due=True, text=say_due(found))


async def behind_asker(change: Change, held: Lease) -> datetime | None:
    """Return the place right behind the asker for whom a holder pauses, whose run is bounded as agreed; None without one.

    The caller has locked the cards. Whoever waits behind the two waits no longer than for both, as before.
    """
    found = await proposal_store.agreement_of(change.conn, held.lease)
    if found is None or found.terms.length is None or found.ticket is None:
        return None
    asker = await ticket_store.get_ticket(change.conn, found.ticket)
    if asker is None or not asker.candidates:
        return None
    await proposal_store.bound_run(change.conn, found.ticket, found.terms.length)
    if await proposal_store.keep_proposal(change.conn, found.proposal):
        tell_proposal(change, EventKind.PROPOSAL_KEPT, found)
    return asker.order_key


def _as_agreement(found: Proposal) -> Agreement:
    terms = found.terms
    return Agreement(found.proposal, found.asker.name, terms.step, terms.moment, terms.length)


async def _follow(change: Change, found: Proposal) -> None:
    """Tell what became of a proposal."""
    match found.state:
        case ProposalState.ACCEPTED:
            await _tell_due(change, found)
        case ProposalState.KEPT:
            tell_proposal(change, EventKind.PROPOSAL_KEPT, found)
        case ProposalState.BROKEN:
            await _tell_broken(change, found)
        case _:
            await _tell_lapsed(change, found)


async def _tell_due(change: Change, found: Proposal) -> None:
    tell_proposal(change, EventKind.PROPOSAL_DUE, found)
    await write_to(change, found.holder, found, say_due(found))


async def _tell_broken(change: Change, found: Proposal) -> None:
    tell_proposal(change, EventKind.PROPOSAL_BROKEN, found)
    lease, late = lease_name(found.lease or 0), spoken_duration(GRACE)
    await write_to(
        change,
        found.holder,
        found,
        f"{lease} was to be released {late} ago ({found.name}), and counts as not kept. Nothing is taken from you; "
        f"{found.asker.name} still waits: release as soon as you can, or write to it.",
    )
    await write_to(
        change,
        found.asker,
        found,
        f"{found.holder.name} has not released {lease} within {late} as agreed ({found.name}). Nothing is taken from it; your "
        f"ticket {ticket_name(found.ticket or 0)} keeps its place.",
    )


async def _tell_lapsed(change: Change, found: Proposal) -> None:
    tell_proposal(change, EventKind.PROPOSAL_LAPSED, found)
    if found.answered_at is not None:
        text = (
            f"{found.name} binds you no more: {ticket_name(found.ticket or 0)} of {found.asker.name} does not wait now."
        )
        await write_to(change, found.holder, found, text)
    elif found.expires_at <= found.now:
        text = f"{found.partner.name} did not answer {found.name} in time; nothing was moved."
        await write_to(change, found.proposer, found, text)
    else:
        text = f"{found.name} lapsed: what it was about is over. Nothing was moved; loom_me shows where you stand."
        await write_to(change, found.proposer, found, text)


async def write_to(change: Change, party: Party, found: Proposal, text: str) -> None:
    """Leave word of a proposal with one of its parties, told at its next contact and pushed to its live sessions."""
    new = NewMessage([party.agent], None, found.project, None, WARPLOOM, text, found.proposal)
    await message_store.insert_messages(change.conn, new)
    await tell_sessions(change, [KnownAgent(party.agent, party.name)], new)


def tell_proposal(
    change: Change, kind: EventKind, found: Proposal, *, agent: str | None = None, reason: str = ""
) -> None:
    """Add an event about a proposal; `agent` did it."""
    facts = {
        "proposal": found.name,
        "proposer": found.proposer.name,
        "partner": found.partner.name,
        "terms": say_terms(found),
        "agent": agent or found.proposer.name,
    }
    if reason:
        facts["reason"] = reason
    change.tell(kind, facts, project=found.project, task=found.ticket, lease=found.lease)


def party_of(found: Proposal, agent: AgentId) -> Party | None:
    """Return which of the two an agent is."""
    return next((party for party in (found.proposer, found.partner) if party.agent == agent), None)


def closed_as(found: Proposal, state: ProposalState, answer: str | None = None) -> Proposal:
    """Return a proposal as it is once it was moved, with the names it had before."""
    return replace(found, state=state, answer=answer or found.answer)
