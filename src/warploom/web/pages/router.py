"""Joins the pages into one router under /dashboard."""

from pathlib import Path

from fastapi import APIRouter, Request, Response
from fasthx.jinja import Jinja

from warploom.assets import asset_dir
from warploom.web.pages.cards import add_card_pages
from warploom.web.pages.guards import guarded_route
from warploom.web.pages.rack import add_rack_pages
from warploom.web.pages.sources import PageSources
from warploom.web.pages.static import StaticFiles
from warploom.web.pages.templates import make_templates


def pages_router(sources: PageSources, folder: Path | None = None) -> APIRouter:
    """Make the router of every page; `folder` holds templates/ and static/ (by default the packaged ones)."""
    dashboard = folder or asset_dir("dashboard")
    static = StaticFiles(dashboard / "static")
    templates = make_templates(dashboard / "templates", static)
    router = APIRouter(prefix="/dashboard", route_class=guarded_route(templates), include_in_schema=False)
    jinja = Jinja(templates)
    add_rack_pages(router, jinja, sources)
    add_card_pages(router, jinja, sources)

    @router.get("/static/{name:path}", name="static_file")
    async def static_file(request: Request, name: str) -> Response:
        return static.answer(request, name)

    _ = static_file
    return router
