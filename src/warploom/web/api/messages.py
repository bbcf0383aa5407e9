"""Messages over HTTP: send one, look at what is unread."""

from typing import Annotated

from fastapi import APIRouter, Body, Query

from warploom.domain.identifiers import parse_task
from warploom.domain.messages import MessageView, SentAnswer
from warploom.web.callers import TheActor, TheApp
from warploom.web.notices import told

router = APIRouter(prefix="/messages", tags=["messages"])


@router.post("")
async def send(
    app: TheApp,
    actor: TheActor,
    to: Annotated[str, Body()],
    text: Annotated[str, Body()],
    task: Annotated[str | None, Body()] = None,
) -> SentAnswer:
    """Send a message to an agent's name, a session such as S-3, or `all`."""
    about = parse_task(task) if task else None
    return await told(app, actor, await app.messages.send(actor, to, text, about))


@router.get("")
async def unread(app: TheApp, actor: TheActor, limit: Annotated[int, Query(ge=1, le=200)] = 20) -> list[MessageView]:
    """Return what the caller has not been told yet, oldest first; looking marks nothing read, `/me` does."""
    return await app.messages.unread(actor, limit)
