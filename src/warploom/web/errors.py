"""Turns every error into the one form that clients read."""

from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from warploom.domain.errors import MalformedInput, NotFound, WarploomError
from warploom.telemetry.logs import get_logger
from warploom.web.guard import error_body

_log = get_logger("web")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was refused: a code to tell refusals apart, one sentence of cause, one of what to do next."""

    code: str
    cause: str
    next: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The body of every answer that is no success."""

    error: Reason


REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": Refusal, "description": "Refused; nothing was changed."},
    "5XX": {"model": Refusal, "description": "Busy, or the database is away; asking again shortly is right."},
}
"""How every route describes its refusals."""


def add_error_handlers(app: FastAPI) -> None:
    """Answer refusals, invalid bodies, unknown paths and faults in the same form."""

    async def refuse(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, WarploomError)
        headers = {"Retry-After": "2"} if error.status in (429, 503) else None
        return JSONResponse(error_body(error), error.status, headers)

    async def invalid(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
        cause = f"{field or 'The body'}: {str(first['msg'])[:200]}."
        return JSONResponse(error_body(MalformedInput(cause, "See /openapi.json for what this takes.")), 422)

    async def other(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        if error.status_code == 400:
            unreadable = MalformedInput("The body could not be read as JSON.", "Send one JSON object in UTF-8.")
            return JSONResponse(error_body(unreadable), 422)
        missing = NotFound(
            f"{request.method} {request.url.path[:80]} does not exist here.", "See /openapi.json for what does."
        )
        return JSONResponse(error_body(missing), error.status_code)

    async def fault(request: Request, error: Exception) -> JSONResponse:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        told = WarploomError(
            "Something went wrong inside the server.", "Nothing was changed; the server's log has the details."
        )
        return JSONResponse(error_body(told), 500)

    app.add_exception_handler(WarploomError, refuse)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, other)
    app.add_exception_handler(Exception, fault)
