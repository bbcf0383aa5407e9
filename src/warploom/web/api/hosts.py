"""Host agents over HTTP: they report surveys and wait for orders."""

from typing import Annotated

from fastapi import APIRouter, Query

from warploom.domain.hosts import Orders, Survey, SurveyAnswer
from warploom.domain.identifiers import parse_errand
from warploom.web.callers import TheApp

router = APIRouter(prefix="/hosts", tags=["hosts"])


@router.post("/{host}/survey")
async def record_survey(host: str, survey: Survey, app: TheApp) -> SurveyAnswer:
    """Judge every card by one survey and grant what became possible."""
    return await app.hosts.record_survey(host, survey)


@router.get("/{host}/orders")
async def orders(
    host: str,
    app: TheApp,
    seconds: Annotated[float, Query(ge=0, le=55)] = 25,
    having: Annotated[str, Query(max_length=500)] = "",
) -> Orders:
    """Wait until a look at the cards is wanted or an errand waits that the host is not `having` yet (E-5,E-6)."""
    in_hand = [parse_errand(each) for each in having.split(",") if each.strip()]
    return await app.hosts.orders(host, seconds, in_hand)
