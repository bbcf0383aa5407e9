"""Reads who calls from a request's headers; the guard has already settled the role."""

import re
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Request
from starlette.datastructures import Headers

from warploom.app import App
from warploom.domain.callers import Caller, Role
from warploom.domain.errors import MalformedInput
from warploom.domain.processes import ProcessIdentity
from warploom.domain.readings import LARGEST_NUMBER, LARGEST_PID, MOST_ANCESTORS
from warploom.domain.sessions import Actor

_PROCESS = re.compile(r"([1-9][0-9]{0,9}):([0-9]{1,19})", re.ASCII)


def read_caller(headers: Headers | dict[str, str], role: Role) -> Caller:
    """Build a caller from the X-Warploom-* headers, whose values are percent-encoded UTF-8."""

    def text(name: str) -> str | None:
        value = headers.get(f"x-warploom-{name}")
        return unquote(value).strip() or None if value else None

    process = text("process")
    ancestors = (text("ancestors") or "").split(",")
    return Caller(
        role=role,
        session_key=text("session"),
        agent=text("agent"),
        project=text("project"),
        client=text("client"),
        directory=text("directory"),
        host=text("host"),
        process=_identity(process) if process else None,
        ancestors=[_identity(step) for step in ancestors[:MOST_ANCESTORS] if step.strip()],
    )


def _identity(text: str) -> ProcessIdentity:
    found = _PROCESS.fullmatch(text.strip())
    if found is None or int(found[1]) > LARGEST_PID or int(found[2]) > LARGEST_NUMBER:
        raise MalformedInput(f"{text[:40]!r} is not a process.", "Send pid:started, as Warploom's own clients do.")
    return ProcessIdentity(int(found[1]), int(found[2]))


def app_of(request: Request) -> App:
    """Return the App that serves this request."""
    app: App = request.app.state.warploom
    return app


def role_of(request: Request) -> Role:
    """Return the role that the guard settled for this request."""
    return request.scope.get("warploom.role", Role.AGENT)


async def actor_of(request: Request) -> Actor:
    """Identify the caller; a sign of life for its session."""
    return await app_of(request).sessions.identify(read_caller(request.headers, role_of(request)))


async def actor_if_named(request: Request) -> Actor | None:
    """Identify a caller that says who it is; None for one that does not, such as a training process."""
    if not any(name.startswith("x-warploom-") for name in request.headers):
        return None
    return await actor_of(request)


async def the_app(request: Request) -> App:
    """Return the App; a coroutine, because the framework sends plain functions through a thread."""
    return app_of(request)


TheApp = Annotated[App, Depends(the_app)]
TheActor = Annotated[Actor, Depends(actor_of)]
NamedActor = Annotated[Actor | None, Depends(actor_if_named)]
