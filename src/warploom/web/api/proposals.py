"""Proposals over HTTP: make one, list what is open or agreed, answer one, take it back."""

from typing import Annotated

from fastapi import APIRouter, Body, Query

from warploom.domain.identifiers import parse_proposal
from warploom.domain.proposals import ProposalAnswer, ProposalView, ProposalWish
from warploom.web.callers import TheActor, TheApp
from warploom.web.notices import told

router = APIRouter(prefix="/proposals", tags=["proposals"])


@router.get("")
async def proposals(app: TheApp, actor: TheActor, everybodys: Annotated[bool, Query()] = False) -> list[ProposalView]:
    """List what is open or agreed from and to the caller; for operators everybody's, where asked for."""
    return await app.proposals.look(actor, everybodys=everybodys)


@router.post("")
async def propose(wish: ProposalWish, app: TheApp, actor: TheActor) -> ProposalAnswer:
    """Propose something to another agent about a lease, a ticket or a reservation; nothing moves before it agrees."""
    return await told(app, actor, await app.proposals.propose(actor, wish))


@router.post("/{proposal}/accept")
async def accept(proposal: str, app: TheApp, actor: TheActor) -> ProposalAnswer:
    """Agree to what was proposed to the caller, if all it is about still stands; twice is success."""
    return await told(app, actor, await app.proposals.accept(actor, parse_proposal(proposal)))


@router.post("/{proposal}/decline")
async def decline(
    proposal: str, app: TheApp, actor: TheActor, reason: Annotated[str, Body(embed=True)]
) -> ProposalAnswer:
    """Say no, with a reason; twice is success."""
    return await told(app, actor, await app.proposals.decline(actor, parse_proposal(proposal), reason))


@router.post("/{proposal}/withdraw")
async def withdraw(
    proposal: str,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str | None, Body()] = None,
    preview: Annotated[bool, Body()] = False,
) -> ProposalAnswer:
    """Take one's own back or, for operators, anybody's; with `preview` only say what would happen."""
    answer = await app.proposals.withdraw(actor, parse_proposal(proposal), reason, preview=preview)
    return await told(app, actor, answer)
