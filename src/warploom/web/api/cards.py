"""Cards over HTTP: the rack, and taking a card out of service and back."""

from typing import Annotated

from fastapi import APIRouter, Body

from warploom.domain.cards import Rack, ServiceAnswer
from warploom.web.callers import TheActor, TheApp

router = APIRouter(tags=["cards"])


@router.get("/rack")
async def rack(app: TheApp) -> Rack:
    """Return every host and card: state, holder, progress, estimate, and the first places of its queue."""
    return await app.cards.survey()


@router.post("/cards/{host}/{index}/drain")
async def drain(
    host: str,
    index: str,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str | None, Body()] = None,
    preview: Annotated[bool, Body()] = False,
) -> ServiceAnswer:
    """Grant nothing more on a card; with `preview` only say what would happen."""
    return await app.cards.drain(actor, f"{host}/{index}", reason, preview=preview)


@router.post("/cards/{host}/{index}/undrain")
async def undrain(
    host: str,
    index: str,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str | None, Body()] = None,
    preview: Annotated[bool, Body()] = False,
) -> ServiceAnswer:
    """Put a card back in service; with `preview` only say what would happen."""
    _ = reason
    return await app.cards.undrain(actor, f"{host}/{index}", preview=preview)


@router.post("/cards/{host}/{index}/quarantine")
async def quarantine(
    host: str,
    index: str,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str, Body()],
    preview: Annotated[bool, Body()] = False,
) -> ServiceAnswer:
    """Take a card out of service because of its faults; with `preview` only say what would happen."""
    return await app.cards.quarantine(actor, f"{host}/{index}", reason, preview=preview)


@router.post("/cards/{host}/{index}/clear")
async def clear(
    host: str,
    index: str,
    app: TheApp,
    actor: TheActor,
    reason: Annotated[str | None, Body()] = None,
    preview: Annotated[bool, Body()] = False,
) -> ServiceAnswer:
    """Put a quarantined card back in service; with `preview` only say what would happen."""
    _ = reason
    return await app.cards.clear(actor, f"{host}/{index}", preview=preview)
