"""Runs a tool for its caller: identified by headers, refusals as tool errors, unread notices added."""

from collections.abc import Awaitable, Callable
from typing import Final

from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_http_headers, get_http_request

from warploom.app import App
from warploom.domain.callers import Caller, Role
from warploom.domain.errors import WarploomError
from warploom.domain.sessions import Actor
from warploom.mcp.answers import Answer
from warploom.telemetry.logs import get_logger

Reader = Callable[[dict[str, str], Role], Caller]
FAULT: Final = "error: Something went wrong inside the server. Nothing was changed; its log has the details."

_log = get_logger("mcp")


def tell_error(error: WarploomError) -> str:
    """Write a refusal as tools show it: code, cause, next step."""
    return f"{error.code}: {error.cause} {error.next_step}"


class Desk:
    """What every tool needs: the App, and how to read a caller."""

    def __init__(self, app: App, read: Reader) -> None:
        self.app = app
        self._read = read

    def caller(self) -> Caller:
        """Return who calls; an agent, whichever key it has."""
        return self._read(get_http_headers(), Role.AGENT)

    async def serve(self, work: Callable[[Actor], Awaitable[Answer]]) -> Answer:
        """Identify the caller, do the work, add what the session has not been told yet.

        Raises ToolError with code, cause and next step for every refusal.
        """
        return await self._serve(work, Role.AGENT)

    async def operate(self, work: Callable[[Actor], Awaitable[Answer]]) -> Answer:
        """Serve a caller with the role that its key gives it: without keys, everybody's is the operator's."""
        return await self._serve(work, get_http_request().scope.get("warploom.role", Role.AGENT))

    async def _serve(self, work: Callable[[Actor], Awaitable[Answer]], role: Role) -> Answer:
        try:
            actor = await self.app.sessions.identify(self._read(get_http_headers(), role))
            answer = await work(actor)
            notices = await self.app.sessions.take_notices(actor)
        except WarploomError as error:
            raise ToolError(tell_error(error)) from error
        except Exception as error:
            _log.error("a tool failed", exc_info=error)
            raise ToolError(FAULT) from error
        return answer | ({"notices": notices} if notices else {})
