"""One ASGI app: the API, the events, the pages and the MCP door, with the orchestrator's duties beside them."""

import asyncio
import importlib
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from types import FrameType

import uvicorn
from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from starlette.applications import Starlette
from starlette.routing import Route

from warploom.app import App, build_app
from warploom.config import Settings
from warploom.domain.callers import Caller, Role
from warploom.domain.cards import Rack, ServiceAnswer
from warploom.domain.errors import WarploomError
from warploom.domain.events import EventView
from warploom.domain.sessions import Actor
from warploom.loading import undisturbed
from warploom.orchestrator.duties import Orchestrator
from warploom.telemetry.logs import start_logging
from warploom.web.api import (
    calibrations,
    cards,
    claims,
    errands,
    events,
    graphs,
    health,
    hosts,
    leases,
    messages,
    projects,
    proposals,
    repairs,
    reservations,
    sessions,
    tasks,
    tickets,
)
from warploom.web.callers import read_caller
from warploom.web.errors import REFUSALS, add_error_handlers
from warploom.web.guard import Guard, require_keys
from warploom.web.latecomer import Latecomer
from warploom.web.pages.router import pages_router
from warploom.web.pages.sources import PageSources

_NOUNS = (
    hosts,
    leases,
    tickets,
    sessions,
    claims,
    tasks,
    cards,
    errands,
    events,
    health,
    messages,
    proposals,
    graphs,
    repairs,
    reservations,
    projects,
    calibrations,
)
"""Those that are called most come first: a request is compared with one route after the other."""

_DESCRIPTION = """\
Shares GPUs between coding agents and people, and drives a graph of tasks that may need them to done.

Callers say who they are in headers, all optional and percent-encoded: `X-Warploom-Session`, `X-Warploom-Agent`,
`X-Warploom-Project`, `X-Warploom-Client`, `X-Warploom-Directory`, `X-Warploom-Host`, `X-Warploom-Process` (pid:started) and
`X-Warploom-Ancestors`. Where keys are set, `Authorization: Bearer KEY` says what they may do.
"""


def build_server(app: App) -> FastAPI:
    """Compose the ASGI app. Its lifespan starts the App and the orchestrator, and stops them again."""
    door = Latecomer(lambda: _build_door(app))

    @asynccontextmanager
    async def lifespan(_server: FastAPI) -> AsyncGenerator[None]:
        running: list[asyncio.Task[None]] = []
        try:
            await app.start()
            running.append(asyncio.create_task(Orchestrator(app.duties).run_forever()))
            running.append(asyncio.create_task(door.run()))
            yield
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await app.stop()

    server = FastAPI(
        title="Warploom",
        version=version("warploom"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from elsewhere; /openapi.json is all a client needs
        redoc_url=None,
    )
    server.state.warploom = app
    add_error_handlers(server)
    for noun in _NOUNS:
        server.include_router(noun.router, prefix="/api/v1", responses=REFUSALS)
    for router in (events.stream_router, health.open_router):
        server.include_router(router, responses=REFUSALS)
    server.include_router(pages_router(_sources(app)))
    server.add_api_route("/", _to_dashboard, include_in_schema=False)
    server.router.routes.append(Route("/mcp", endpoint=door))
    server.add_middleware(Guard, settings=app.settings)
    return server


def _build_door(app: App) -> Starlette:
    """Build the MCP door; its framework takes longer to import than all the rest of the server."""
    with undisturbed():
        module = importlib.import_module("warploom.mcp.door")
    door: Starlette = module.build_mcp(app, read_caller, version("warploom")).http_app(path="/mcp", stateless_http=True)
    return door


async def _to_dashboard() -> RedirectResponse:
    return RedirectResponse("/dashboard")


def _sources(app: App) -> PageSources:
    async def visitor(role: Role) -> Actor:
        return await app.sessions.identify(Caller(role=role, session_key="dashboard", agent="operator"))

    async def rack() -> Rack:
        return await app.cards.survey()

    async def drain(card: str, reason: str | None, *, role: Role, preview: bool) -> ServiceAnswer:
        return await app.cards.drain(await visitor(role), card, reason, preview=preview)

    async def undrain(card: str, reason: str | None, *, role: Role, preview: bool) -> ServiceAnswer:
        _ = reason
        return await app.cards.undrain(await visitor(role), card, preview=preview)

    async def latest(limit: int) -> list[EventView]:
        return (await app.events.page(None, limit))[0]

    return PageSources(read_rack=rack, latest_events=latest, drain=drain, undrain=undrain)


def main() -> int:
    """Serve until stopped; settings come from the environment. Returns the exit status."""
    try:
        settings = Settings.load()
        require_keys(settings)
        app = build_app(settings, settings.url or f"http://{settings.bind}:{settings.port}")
        server = build_server(app)
    except WarploomError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    start_logging()
    config = uvicorn.Config(
        server,
        host=settings.bind,
        port=settings.port,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=2,
        timeout_keep_alive=75,
    )
    _Server(config, app).run()
    return 0


class _Server(uvicorn.Server):
    """Lets open waits and streams go as soon as it is asked to stop, so that a restart takes no longer than it must."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Answer every open wait, then stop as uvicorn does."""
        self._app.bus.hang_up()
        super().handle_exit(sig, frame)


if __name__ == "__main__":
    sys.exit(main())
