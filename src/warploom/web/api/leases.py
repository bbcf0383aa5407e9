"""Leases over HTTP: every call names its lease."""

from typing import Annotated

from fastapi import APIRouter, Body

from warploom.domain.breaker import read_job_failure
from warploom.domain.identifiers import parse_lease
from warploom.domain.leases import ForcedAnswer, LeaseAnswer
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
    lease: str,
    app: TheApp,
    actor: TheActor,
    keep_place: Annotated[bool, Body()] = False,
    error: Annotated[str | None, Body()] = None,
    failure: Annotated[str | None, Body()] = None,
) -> LeaseAnswer:
    """Give the cards back, with the error where the job failed, or keeping a place behind the first who waits; twice is success."""
    failed = read_job_failure(error, failure)
    return await app.leases.release(actor, parse_lease(lease), failed, keeps_place=keep_place)


@router.post("/{lease}/force-release")
async def force_release(
    lease: str,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str, Body()],
    preview: Annotated[bool, Body()] = False,
) -> ForcedAnswer:
    """End the record of somebody's lease as an operator; with `preview` only say what would happen."""
    return await app.releases.force(actor, parse_lease(lease), reason, preview=preview)
