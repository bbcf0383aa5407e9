"""Errands over HTTP: asked for by operators, answered by hosts, waited for by whoever asked."""

from typing import Annotated

from fastapi import APIRouter, Body, Query

from warploom.domain.errands import USUAL_GRACE_SECONDS, ErrandAnswer, ErrandView, KillWish, Outcome
from warploom.domain.identifiers import parse_errand, parse_lease
from warploom.web.api.cards import TheCard
from warploom.web.callers import TheActor, TheApp

router = APIRouter(tags=["errands"])

Preview = Annotated[bool, Body()]


@router.post("/leases/{lease}/kill")
async def kill(
    lease: str,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str, Body()],
    grace_seconds: Annotated[float, Body()] = USUAL_GRACE_SECONDS,
    preview: Preview = False,
) -> ErrandAnswer:
    """Have its host end all processes of a lease, live or ended; with `preview` only say what would happen."""
    return await app.errands.kill(actor, parse_lease(lease), KillWish(reason, grace_seconds), preview=preview)


@router.post("/cards/{host}/{index}/probe")
async def probe(
    card: TheCard,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str | None, Body()] = None,
    preview: Preview = False,
) -> ErrandAnswer:
    """Have its host use a card a little to see whether it works; with `preview` only say what would happen."""
    return await app.errands.probe(actor, card, reason, preview=preview)


@router.get("/errands/{errand}")
async def wait(errand: str, app: TheApp, seconds: Annotated[float, Query(ge=0, le=55)] = 0) -> ErrandView:
    """Answer as soon as an errand is answered or has lapsed, or after `seconds` with how far it is."""
    return await app.errands.wait(parse_errand(errand), seconds)


@router.post("/hosts/{host}/errands/{errand}")
async def answer(host: str, errand: str, outcome: Outcome, app: TheApp) -> ErrandView:
    """Say what came of an errand; saying it twice is success."""
    return await app.errands.answer(host, parse_errand(errand), outcome)
