"""Health over HTTP: is it up, and is all well."""

from importlib.metadata import version
from typing import Final

from fastapi import APIRouter

from warploom.domain.health import Check, Health
from warploom.web.callers import TheApp

_VERSION: Final = version("warploom")  # read once: the package's metadata are a letter that has to be parsed

router = APIRouter(tags=["health"])
open_router = APIRouter(tags=["health"])


@open_router.get("/health")
async def health(app: TheApp) -> Health:
    """Say that the server and its database answer; 503 while the database is away."""
    return Health("ok", _VERSION, await app.health.schema())


@router.get("/doctor")
async def doctor(app: TheApp) -> list[Check]:
    """Run every check the server can make."""
    return await app.health.doctor()
