"""Tells a model in one sentence what was wrong with the call of a tool."""

import logging
from typing import Any

from fastmcp.exceptions import NotFoundError, ToolError, ValidationError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from pydantic import ValidationError as FieldErrors

from warploom.domain.errors import MalformedInput, NotFound
from warploom.mcp.callers import tell_error

# Refusals are answers, not incidents: the framework would log each with a traceback. Faults are logged by the door itself.
logging.getLogger("fastmcp").setLevel(logging.CRITICAL)


class ArgumentCheck(Middleware):
    """Turns the framework's own errors into refusals like all others."""

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Call the tool; raise ToolError naming the tool that does not exist or the first argument that does not fit."""
        try:
            return await call_next(context)
        except ValidationError as error:
            refusal = MalformedInput(_first_fault(error.__cause__), "The tool's description says what it takes.")
            raise ToolError(tell_error(refusal)) from error
        except NotFoundError as error:
            refusal = NotFound(
                f"There is no tool {context.message.name[:60]!r}.", "List the tools to see what there is."
            )
            raise ToolError(tell_error(refusal)) from error


def _first_fault(cause: BaseException | None) -> str:
    if not isinstance(cause, FieldErrors):
        return "The arguments do not fit."
    first = cause.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'arguments'}: {first['msg'][:200]}."
