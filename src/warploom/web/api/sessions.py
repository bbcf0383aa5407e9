"""Sessions over HTTP: who am I, who else is there, and a sign of life."""

from typing import Annotated

from fastapi import APIRouter, Body

from warploom.domain.deliveries import DeliveryWay
from warploom.domain.sessions import AgentView
from warploom.domain.tickets import Heartbeat, Me
from warploom.web.callers import TheActor, TheApp

router = APIRouter(tags=["sessions"])


@router.get("/me")
async def me(app: TheApp, actor: TheActor) -> Me:
    """Return what the caller holds, waits for and has not read."""
    return await app.tickets.me(actor, await app.sessions.take_notices(actor))


@router.get("/agents")
async def agents(app: TheApp) -> list[AgentView]:
    """Return the agents heard last, with their sessions, what each holds and what it waits for."""
    return await app.sessions.agents()


@router.post("/heartbeat")
async def heartbeat(
    app: TheApp, actor: TheActor, push: Annotated[DeliveryWay | None, Body(embed=True)] = None
) -> Heartbeat:
    """Push the session's leases out, and tell it what it is offered and was written; with `push` what is to be pushed, once."""
    return await app.deliveries.news(actor, push)
