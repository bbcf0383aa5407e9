"""Turns every error into the one form that clients read."""

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from warploom.domain.errors import MalformedInput, NotFound, WarploomError
from warploom.telemetry.logs import get_logger
from warploom.web.guard import error_body

_log = get_logger("web")


def add_error_handlers(app: FastAPI) -> None:
    """Answer refusals, invalid bodies, unknown paths and faults in the same form."""

    async def refuse(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, WarploomError)
        headers = {"Retry-After": "2"} if error.status == 503 else None
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
