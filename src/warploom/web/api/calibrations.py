"""Calibration over HTTP."""

from fastapi import APIRouter

from warploom.domain.calibrations import Calibration
from warploom.web.callers import TheApp

router = APIRouter(tags=["calibration"])


@router.get("/calibration")
async def calibration(app: TheApp) -> Calibration:
    """Say how well each source of estimates has done: what was first promised against what came, of the last 30 days."""
    return await app.calibrations.read()
