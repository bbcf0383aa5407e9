"""Cards over HTTP: the rack, and taking a card out of service and back."""

from typing import Annotated

from fastapi import APIRouter, Body, Depends

from warploom.domain.cards import Rack, ServiceAnswer
from warploom.web.callers import TheActor, TheApp

router = APIRouter(tags=["cards"])


def _card(host: str, index: str) -> str:
    return f"{host}/{index}"


TheCard = Annotated[str, Depends(_card)]
Reason = Annotated[str | None, Body()]
Preview = Annotated[bool, Body()]


@router.get("/rack")
async def rack(app: TheApp) -> Rack:
    """Return every host and card: state, holder, progress, estimate, and the first places of its queue."""
    return await app.cards.survey()


@router.post("/cards/{host}/{index}/drain")
async def drain(
    card: TheCard,
    app: TheApp,
    actor: TheActor,
    reason: Reason = None,
    preview: Preview = False,
) -> ServiceAnswer:
    """Grant nothing more on a card; with `preview` only say what would happen."""
    return await app.cards.drain(actor, card, reason, preview=preview)


@router.post("/cards/{host}/{index}/undrain")
async def undrain(
    card: TheCard,
    app: TheApp,
    actor: TheActor,
    reason: Reason = None,
    preview: Preview = False,
) -> ServiceAnswer:
    """Put a card back in service; with `preview` only say what would happen."""
    _ = reason
    return await app.cards.undrain(actor, card, preview=preview)


@router.post("/cards/{host}/{index}/quarantine")
async def quarantine(
    card: TheCard,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str, Body()],
    preview: Preview = False,
) -> ServiceAnswer:
    """Take a card out of service because of its faults; with `preview` only say what would happen."""
    return await app.cards.quarantine(actor, card, reason, preview=preview)


@router.post("/cards/{host}/{index}/clear")
async def clear(
    card: TheCard,
    app: TheApp,
    actor: TheActor,
    reason: Reason = None,
    preview: Preview = False,
) -> ServiceAnswer:
    """Put a quarantined card back in service; with `preview` only say what would happen."""
    _ = reason
    return await app.cards.clear(actor, card, preview=preview)
