"""Sessions over HTTP: who am I, and a sign of life."""

from dataclasses import dataclass

from fastapi import APIRouter

from warploom.domain.tickets import Me, TicketAnswer
from warploom.web.callers import TheActor, TheApp

router = APIRouter(tags=["sessions"])


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a session is told when it shows a sign of life: unread notices, and offers it has not accepted."""

    notices: list[str]
    grants: list[TicketAnswer]


@router.get("/me")
async def me(app: TheApp, actor: TheActor) -> Me:
    """Return what the caller holds, waits for and has not read."""
    return await app.tickets.me(actor, await app.sessions.take_notices(actor))


@router.post("/heartbeat")
async def heartbeat(app: TheApp, actor: TheActor) -> Heartbeat:
    """Push the session's leases out, and tell it what it has missed and what it is offered."""
    return Heartbeat(await app.sessions.take_notices(actor), await app.tickets.offers(actor))
