"""Tickets over HTTP: ask, look, wait, leave."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request

from warploom.domain.identifiers import parse_ticket
from warploom.domain.standings import TicketAnswer, Wish
from warploom.domain.tickets import read_wish
from warploom.web.callers import TheActor, TheApp, read_caller, role_of

router = APIRouter(prefix="/tickets", tags=["tickets"])


@router.post("")
async def request_cards(wish: Wish, request: Request, app: TheApp, actor: TheActor) -> TicketAnswer:
    """Ask for cards: a lease, or a place in the queue with one reason and an estimate. Never waits."""
    home = read_caller(request.headers, role_of(request)).host
    answer = await app.tickets.request(actor, read_wish(wish), home)
    return replace(answer, notices=await app.sessions.take_notices(actor))


@router.get("/{ticket}")
async def explain(ticket: str, app: TheApp, actor: TheActor) -> TicketAnswer:
    """Say where a ticket stands and why."""
    return await app.tickets.explain(actor, parse_ticket(ticket))


@router.get("/{ticket}/wait")
async def wait(
    ticket: str, app: TheApp, actor: TheActor, seconds: Annotated[float, Query(ge=0, le=55)] = 25
) -> TicketAnswer:
    """Answer as soon as the ticket is no longer queued, or after `seconds` with its standing."""
    return await app.tickets.wait(actor, parse_ticket(ticket), seconds)


@router.delete("/{ticket}")
async def leave(ticket: str, app: TheApp, actor: TheActor) -> TicketAnswer:
    """Leave the queue, or give an offer back; leaving twice is success."""
    return await app.tickets.leave(actor, parse_ticket(ticket))
