"""Reservations over HTTP: promise a card for a window, list what is promised, give it up."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request

from warploom.domain.identifiers import parse_reservation
from warploom.domain.reservations import ReservationAnswer, ReservationView, ReservationWish
from warploom.web.callers import TheActor, TheApp, read_caller, role_of

router = APIRouter(prefix="/reservations", tags=["reservations"])


@router.get("")
async def reservations(app: TheApp) -> list[ReservationView]:
    """List the reservations of all cards that are current or still to come, in order of time."""
    return await app.reservations.upcoming()


@router.post("")
async def reserve(wish: ReservationWish, request: Request, app: TheApp, actor: TheActor) -> ReservationAnswer:
    """Reserve a named card for the caller's agent; answers what that means for who runs and waits there."""
    home = read_caller(request.headers, role_of(request)).host
    answer = await app.reservations.reserve(actor, wish, home)
    return replace(answer, notices=await app.sessions.take_notices(actor))


@router.delete("/{reservation}")
async def give_up(
    reservation: str, app: TheApp, actor: TheActor, preview: Annotated[bool, Query()] = False
) -> ReservationAnswer:
    """Give a reservation up, one's own or, for operators, anybody's; with `preview` only say what would happen."""
    return await app.reservations.give_up(actor, parse_reservation(reservation), preview=preview)
