"""The reference has an entry for every setting, error, event, command, exit code and tool."""

import inspect
from typing import Any, cast

import pytest
from checkout import DOCS, text_of

from warploom.cli.exits import Exit
from warploom.cli.main import COMMANDS, app
from warploom.config import PREFIX, SETTINGS
from warploom.domain.errors import every_error
from warploom.domain.events import EventKind
from warploom.mcp.callers import Desk
from warploom.mcp.door import every_tool

REFERENCE = "\n".join(text_of(path) for path in sorted((DOCS / "reference").rglob("*.md")))


def tools() -> list[str]:
    """Name the tools that a server offers."""
    return [tool.__name__ for tool in every_tool(Desk(cast(Any, None), cast(Any, None)))]


def test_every_setting_has_its_entry() -> None:
    assert [name for setting in SETTINGS if (name := PREFIX + setting.name.upper()) not in REFERENCE] == []


def test_every_error_has_its_entry() -> None:
    assert [error.code for error in every_error() if f"`{error.code}`" not in REFERENCE] == []


def test_every_event_has_its_entry() -> None:
    assert [kind.value for kind in EventKind if f"`{kind.value}`" not in REFERENCE] == []


def test_every_command_has_its_entry() -> None:
    assert [name for name in COMMANDS if f"warploom {name}" not in REFERENCE] == []


def test_every_exit_code_has_its_entry() -> None:
    assert [
        code.value for code in Exit if f"| {code.value} |" not in REFERENCE and f"`{code.value}`" not in REFERENCE
    ] == []


def test_every_tool_has_its_entry() -> None:
    assert [name for name in tools() if f"`{name}" not in REFERENCE and f"{name}(" not in REFERENCE] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_is_a_coroutine_that_nobody_would_await(name: str) -> None:
    from typer.main import get_command

    group = cast(Any, get_command(app))
    command = group.get_command(cast(Any, None), name)
    callbacks = [command.callback, *(each.callback for each in getattr(command, "commands", {}).values())]
    assert not any(inspect.iscoroutinefunction(inspect.unwrap(callback)) for callback in callbacks if callback)
