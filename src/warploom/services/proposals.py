"""Proposals: ask another agent for its card or its place, agree, decline or withdraw; nothing moves before both have agreed."""

from dataclasses import replace
from datetime import timedelta

from warploom.domain.callers import Role
from warploom.domain.errors import Impossible, MalformedInput, NotAllowed, NotFound, NotReady, NotYours, Taken
from warploom.domain.events import EventKind
from warploom.domain.identifiers import ProposalId, lease_name, proposal_name
from warploom.domain.proposals import (
    MOST_AN_HOUR,
    MOST_OPEN,
    STATE_SENTENCES,
    Proposal,
    ProposalAnswer,
    ProposalKind,
    ProposalState,
    ProposalView,
    ProposalWish,
    quote,
    read_proposal,
    say_proposal,
    say_terms,
    show_proposal,
)
from warploom.domain.sessions import Actor
from warploom.domain.texts import REASON_LIMIT, optional_line, spoken_duration
from warploom.services.agreements import closed_as, party_of, tell_proposal, write_to
from warploom.services.changes import Change, Changes, repeated
from warploom.services.grants import GrantTimes
from warploom.services.standpoints import draft_of, lock_facts, require_facts, settle
from warploom.store import proposals as proposal_store
from warploom.store.clock import read_clock
from warploom.store.proposals import NewProposal

MOST_SHOWN = 200
_HOUR = timedelta(hours=1)


class ProposalService:
    """What agents do with proposals; what comes of them by itself is the agreements' business."""

    def __init__(self, changes: Changes, times: GrantTimes) -> None:
        self._changes = changes
        self._times = times

    @repeated
    async def propose(self, actor: Actor, wish: ProposalWish) -> ProposalAnswer:
        """Propose something to another agent, which is told at once; making it is the maker's own yes.

        With `instead_of` the proposal that it answers is declined in the same step. Raises Taken when one about the same is open
        between the two, Impossible for too many, and for what could not be agreed to anyway what `accept` raises.
        """
        async with self._changes.begin() as change:
            draft = read_proposal(wish, await read_clock(change.conn))
            new = await draft_of(change.conn, actor, draft)
            await lock_facts(change.conn, new)
            if draft.instead_of is not None:
                await self._decline(change, actor, draft.instead_of, f"answered with another: {draft.reason}")
            number = await _insert(change, actor, new)
            made = await _get(change, number)
            await require_facts(change.conn, made)
            tell_proposal(change, EventKind.PROPOSAL_MADE, made)
            await write_to(change, made.partner, made, say_proposal(made))
        after = f"{made.partner.name} is told; its answer comes to you as a notice. Go on, or wait as you did: nothing moves before."
        return ProposalAnswer(show_proposal(made), done=True, next=after)

    @repeated
    async def accept(self, actor: Actor, proposal: ProposalId) -> ProposalAnswer:
        """Agree to what somebody proposed, if all it is about still stands; agreeing twice is success.

        Raises NotReady that says where it stands now when it lapsed, was withdrawn or its lease or ticket is over.
        """
        async with self._changes.begin() as change:
            found = await _lock(change, proposal)
            _require_partner(actor, found)
            if found.state is not ProposalState.OPEN and found.answered_at is not None:
                if found.state is ProposalState.DECLINED:
                    raise _over(found)
                return ProposalAnswer(show_proposal(found), done=True, next=_after_accept(found))
            _require_open(found)
            await require_facts(change.conn, found)
            state = _agreed_state(found)
            await proposal_store.answer_proposal(change.conn, proposal, state, None)
            agreed = replace(closed_as(found, state), answered_at=found.now)
            tell_proposal(change, EventKind.PROPOSAL_ACCEPTED, agreed, agent=actor.agent_name)
            await settle(change, agreed, self._times)
            text = f"{actor.agent_name} agreed to {found.name}: {say_terms(found)}. {_after_accept(agreed)}"
            await write_to(change, found.proposer, agreed, text)
            return ProposalAnswer(show_proposal(agreed), done=True, next=_after_accept(agreed))

    @repeated
    async def decline(self, actor: Actor, proposal: ProposalId, reason: str) -> ProposalAnswer:
        """Say no with a reason; declining twice is success."""
        async with self._changes.begin() as change:
            found = await self._decline(change, actor, proposal, reason)
        return ProposalAnswer(show_proposal(found), done=True, next="Nothing was moved; its maker is told.")

    @repeated
    async def withdraw(
        self, actor: Actor, proposal: ProposalId, reason: str | None = None, *, preview: bool = False
    ) -> ProposalAnswer:
        """Take a proposal back: its maker while it is open, the one it serves when it is in force, operators anybody's.

        With `preview` only say what would happen. Again is success.
        """
        why = optional_line(reason, "reason", REASON_LIMIT)
        async with self._changes.begin() as change:
            await _get(change, proposal)
            await proposal_store.lock_proposal(change.conn, proposal)
            found = await _get(change, proposal)
            _require_withdrawer(actor, found)
            if found.state is ProposalState.WITHDRAWN:
                return ProposalAnswer(show_proposal(found), done=not preview, next="It was withdrawn already.")
            if found.state not in (ProposalState.OPEN, ProposalState.ACCEPTED):
                raise _over(found)
            others = [party for party in (found.proposer, found.partner) if party.agent != actor.agent]
            told = " and ".join(party.name for party in others)
            after = (
                f"It binds nobody any more, and nothing is moved; {told} {'is' if len(others) == 1 else 'are'} told."
            )
            if preview:
                return ProposalAnswer(show_proposal(found), done=False, next=after)
            await proposal_store.withdraw_proposal(change.conn, proposal, why)
            withdrawn = closed_as(found, ProposalState.WITHDRAWN, why)
            tell_proposal(change, EventKind.PROPOSAL_WITHDRAWN, withdrawn, agent=actor.agent_name)
            because = f", saying {quote(why)}" if why else ""
            for party in others:
                text = f"{actor.agent_name} withdrew {found.name}{because}; it binds nobody any more."
                await write_to(change, party, withdrawn, text)
        return ProposalAnswer(show_proposal(withdrawn), done=True, next=after)

    async def look(self, actor: Actor, *, everybodys: bool = False) -> list[ProposalView]:
        """Return what is open or in force from and to the actor's agent; for operators everybody's, where asked for."""
        if everybodys and actor.role is not Role.OPERATOR:
            raise NotAllowed("Only operators see the proposals of others.", "Leave that out to see your own.")
        async with self._changes.database.connection() as conn:
            if everybodys:
                found = await proposal_store.open_proposals(conn, MOST_SHOWN)
            else:
                found = await proposal_store.proposals_of(conn, actor.agent, MOST_SHOWN)
        return [show_proposal(each) for each in found]

    async def _decline(self, change: Change, actor: Actor, proposal: ProposalId, reason: str) -> Proposal:
        why = optional_line(reason[:REASON_LIMIT], "reason", REASON_LIMIT)
        if why is None:
            raise MalformedInput(
                "It is declined without a reason.", "Say why in a few words, or propose something else."
            )
        await _get(change, proposal)
        await proposal_store.lock_proposal(change.conn, proposal)
        found = await _get(change, proposal)
        _require_partner(actor, found)
        if found.state is ProposalState.DECLINED:
            return found
        _require_open(found)
        await proposal_store.answer_proposal(change.conn, proposal, ProposalState.DECLINED, why)
        declined = closed_as(found, ProposalState.DECLINED, why)
        tell_proposal(change, EventKind.PROPOSAL_DECLINED, declined, agent=actor.agent_name, reason=why)
        text = f"{actor.agent_name} declined {found.name}, saying, as data: {quote(why)}. Nothing was moved."
        await write_to(change, found.proposer, declined, text)
        return declined


async def _insert(change: Change, actor: Actor, new: NewProposal) -> ProposalId:
    if await proposal_store.count_open(change.conn, actor.agent) >= MOST_OPEN:
        raise Impossible(
            f"You have made {MOST_OPEN} proposals that are open, the most that one may have.",
            "Wait for answers, or withdraw one; loom_me and `warploom proposals` list them.",
        )
    if await proposal_store.count_lately(change.conn, actor.agent, new.partner, _HOUR) >= MOST_AN_HOUR:
        raise Impossible(
            f"You have made {MOST_AN_HOUR} proposals to it within {spoken_duration(_HOUR)}.",
            "Wait a while, or write a message that says what you need.",
        )
    number = await proposal_store.insert_proposal(change.conn, new)
    if number is None:
        rival = await proposal_store.rival_of(change.conn, new)
        name = "One" if rival is None else proposal_name(rival)
        raise Taken(
            f"{name} about the same is open between you two.",
            "Wait for its answer, answer it, or withdraw it first; loom_me shows it.",
        )
    return number


async def _get(change: Change, proposal: ProposalId) -> Proposal:
    found = await proposal_store.get_proposal(change.conn, proposal)
    if found is None:
        raise NotFound(
            f"There is no proposal {proposal_name(proposal)}.", "loom_me and `warploom proposals` list them."
        )
    return found


async def _lock(change: Change, proposal: ProposalId) -> Proposal:
    """Lock all that a proposal is about and then the proposal, in the one order, and read it again."""
    await lock_facts(change.conn, await _get(change, proposal))
    await proposal_store.lock_proposal(change.conn, proposal)
    return await _get(change, proposal)


def _require_partner(actor: Actor, found: Proposal) -> None:
    if actor.agent == found.partner.agent:
        return
    if actor.agent == found.proposer.agent:
        raise NotYours(
            f"{found.name} is your own: making it was your yes, and {found.partner.name} answers it.",
            "Wait for the answer, or withdraw it.",
        )
    raise NotYours(
        f"{found.name} goes from {found.proposer.name} to {found.partner.name}, not to {actor.agent_name}.",
        "Answer one of your own; loom_me lists them.",
    )


def _require_withdrawer(actor: Actor, found: Proposal) -> None:
    if actor.role is Role.OPERATOR:
        return
    if party_of(found, actor.agent) is None:
        raise NotYours(f"{found.name} is not yours to withdraw.", "loom_me lists the proposals from and to you.")
    is_agreed = found.state is ProposalState.ACCEPTED
    allowed = found.asker if is_agreed else found.proposer
    if found.state is ProposalState.OPEN and actor.agent != allowed.agent:
        raise NotYours(f"{found.name} was made by {allowed.name}.", "Decline it instead.")
    if is_agreed and actor.agent != allowed.agent:
        raise NotYours(
            f"{found.name} is agreed: only {allowed.name}, whom it serves, can let you off.",
            f'Ask with loom_message("{allowed.name}", …), or propose something else to it.',
        )


def _require_open(found: Proposal) -> None:
    if found.state is not ProposalState.OPEN:
        raise _over(found)
    if found.expires_at <= found.now:
        raise NotReady(
            f"{found.name} lapsed at {found.expires_at:%H:%M:%S} UTC.", "Propose it again if both still want it."
        )


def _over(found: Proposal) -> NotReady:
    at = f" at {found.closed_at:%H:%M:%S} UTC" if found.closed_at else ""
    return NotReady(
        f"{found.name} {STATE_SENTENCES[found.state]}{at}.", "Nothing was moved; propose anew if both still want it."
    )


def _agreed_state(found: Proposal) -> ProposalState:
    """What is done in the moment of the agreement is kept at once; what waits for the holder is in force until then."""
    is_at_once = found.terms.kind is ProposalKind.SWAP or found.reservation is not None
    return ProposalState.KEPT if is_at_once else ProposalState.ACCEPTED


def _after_accept(found: Proposal) -> str:
    if found.state is ProposalState.ACCEPTED and found.terms.step is None and found.terms.moment is None:
        lease = lease_name(found.lease or 0)
        return f'{found.holder.name} releases as soon as it can: gpu_release("{lease}", keep_place=true) lets the other go first.'
    if found.state is ProposalState.ACCEPTED:
        return f"Nothing moves until {found.holder.name} releases; it is told when the time has come."
    return "It is done." if found.state is ProposalState.KEPT else f"It {STATE_SENTENCES[found.state]}."
