"""Draining and undraining a card: a page that says what would follow, then the change itself."""

from dataclasses import dataclass
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from fasthx.jinja import Jinja

from warploom.domain.cards import ServiceAnswer
from warploom.domain.errors import MalformedInput
from warploom.domain.texts import REASON_LIMIT
from warploom.web.callers import role_of
from warploom.web.pages.guards import is_part
from warploom.web.pages.sources import ChangeService, PageSources

_LARGEST_FORM = 16_384


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change would do. `verb` is drain or undrain."""

    verb: str
    answer: ServiceAnswer
    reason_limit: int = REASON_LIMIT


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change did."""

    answer: ServiceAnswer


@dataclass(frozen=True, slots=True)
class PageOrPart:
    """Chooses the whole page for a plain request, and its part for one of the page's own script."""

    page: str
    part: str

    def get_component(self, request: Request, error: Exception | None) -> str:
        """Return the template's name; errors are shown by the guard."""
        if error is not None:
            raise error
        return self.part if is_part(request) else self.page


def add_card_pages(router: APIRouter, jinja: Jinja, sources: PageSources) -> None:
    """Add a preview and a change for each of draining and undraining."""
    for verb, change in (("drain", sources.drain), ("undrain", sources.undrain)):
        _add_change(router, jinja, verb, change)


def _add_change(router: APIRouter, jinja: Jinja, verb: str, change: ChangeService) -> None:
    address = f"/cards/{{host}}/{{index}}/{verb}"

    @router.get(address, name=f"preview_{verb}")
    @jinja.page(PageOrPart("pages/confirmation.html", "parts/confirmation.html"))
    async def preview(request: Request, host: str, index: str) -> Preview:
        return Preview(verb, await change(f"{host}/{index}", None, role=role_of(request), preview=True))

    @router.post(address, name=verb)
    @jinja.page("parts/outcome.html")
    async def confirm(request: Request, host: str, index: str) -> Outcome | Response:
        reason = await _reason(request)
        answer = await change(f"{host}/{index}", reason, role=role_of(request), preview=False)
        return Outcome(answer) if is_part(request) else _back_to(answer.card)

    _ = preview, confirm


async def _reason(request: Request) -> str | None:
    try:
        fields = parse_qs((await _form(request)).decode(), errors="strict", max_num_fields=20)
    except ValueError:
        raise MalformedInput("The form could not be read.", "Open the rack and try again.") from None
    return next((text for text in fields.get("reason", []) if text.strip()), None)


async def _form(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_FORM:
            raise MalformedInput("The reason is too long.", f"Use at most {REASON_LIMIT} characters.")
    return body


def _back_to(card: str) -> Response:
    return RedirectResponse(f"/dashboard#card-{quote(card, safe='/')}", status_code=303)
