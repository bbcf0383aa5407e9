"""Guards every page: a strict content policy, no write from another site, and refusals that say what to do."""

from collections.abc import Callable, Coroutine
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import Request, Response
from fastapi.routing import APIRoute
from fastapi.templating import Jinja2Templates

from warploom.domain.errors import NotAllowed, WarploomError

CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    # Not no-referrer: under it browsers send `Origin: null` with our own forms, and the check below needs the origin.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def guarded_route(templates: Jinja2Templates) -> type[APIRoute]:
    """Make the route class of the pages; it shows refusals with `templates`."""

    class GuardedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def guarded(request: Request) -> Response:
                try:
                    refuse_other_origins(request)
                    response = await handle(request)
                except WarploomError as error:
                    response = _show_refusal(templates, request, error)
                response.headers.update(HEADERS)
                response.headers.setdefault("cache-control", "no-store")
                return response

            return guarded

    return GuardedRoute


def is_part(request: Request) -> bool:
    """Say whether the page's own script asks, for a part of a page to swap in."""
    return request.headers.get("hx-request") == "true"


def refuse_other_origins(request: Request) -> None:
    """Raise NotAllowed for a write that a page of another site sent, or one whose origin cannot be told."""
    if request.method in _SAFE:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if not (_names_host(origin, request) if site is None else site == "same-origin"):
        raise NotAllowed(
            "This change came from another site, or its origin cannot be told, so nothing was done.",
            "Open the dashboard itself and try again; scripts use the HTTP API.",
        )


def _names_host(origin: str | None, request: Request) -> bool:
    """Compare the host alone, since behind a proxy the scheme differs."""
    return bool(origin) and urlsplit(origin).netloc == request.headers.get("host")


def _show_refusal(templates: Jinja2Templates, request: Request, error: WarploomError) -> Response:
    name = "parts/refusal.html" if is_part(request) else "pages/refusal.html"
    return templates.TemplateResponse(request, name, {"error": error}, status_code=error.status)
