"""Leases over HTTP: every call names its lease."""

from typing import Annotated

from fastapi import APIRouter, Body

from warploom.domain.identifiers import parse_lease
from warploom.domain.leases import LeaseAnswer
from warploom.web.callers import NamedActor, TheActor, TheApp

router = APIRouter(prefix="/leases", tags=["leases"])


@router.post("/{lease}/accept")
async def accept(lease: str, app: TheApp, actor: TheActor) -> LeaseAnswer:
    """Take up an offer; accepting an active lease again is success."""
    return await app.leases.accept(actor, parse_lease(lease))


@router.post("/{lease}/extend")
async def extend(
    lease: str,
    app: TheApp,
    actor: TheActor,
    minutes: Annotated[float, Body()],
    reason: Annotated[str, Body()],
) -> LeaseAnswer:
    """Say that a job needs longer, so that the queue's estimates stay honest."""
    return await app.leases.extend(actor, parse_lease(lease), minutes, reason)


@router.post("/{lease}/report")
async def report(
    lease: str,
    app: TheApp,
    actor: NamedActor,
    step: Annotated[int, Body()],
    total: Annotated[int | None, Body()] = None,
) -> LeaseAnswer:
    """Report progress; a training process may do so by its lease alone."""
    return await app.leases.report(parse_lease(lease), step, total, actor)


@router.post("/{lease}/release")
async def release(
    lease: str, app: TheApp, actor: TheActor, keep_place: Annotated[bool, Body(embed=True)] = False
) -> LeaseAnswer:
    """Give the cards back; releasing twice is success. With `keep_place` the ticket waits on, right behind the first."""
    return await app.leases.release(actor, parse_lease(lease), keeps_place=keep_place)
