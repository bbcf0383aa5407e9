"""The `warploom` command: finds the command asked for, loads only that, and turns errors into exit codes."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_group

from warploom.cli.exits import Exit, exit_for
from warploom.cli.output import refuse
from warploom.domain.errors import MalformedInput, WarploomError
from warploom.loading import undisturbed

COMMANDS: dict[str, str] = {
    "up": "stack",
    "down": "stack",
    "daemon": "stack",
    "status": "status",
    "doctor": "doctor",
    "init": "init",
    "demo": "demo",
    "request": "tickets",
    "wait": "wait",
    "run": "run",
    "create": "tasks",
    "ready": "tasks",
    "claim": "claims",
    "heartbeat": "claims",
    "done": "claims",
    "fail": "claims",
    "escalate": "claims",
    "tasks": "tasks",
    "update": "tasks",
    "comment": "tasks",
    "graph": "graphs",
    "idea": "ideas",
    "ideas": "ideas",
    "explain": "tickets",
    "leave": "tickets",
    "release": "leases",
    "extend": "leases",
    "report": "leases",
    "me": "sessions",
    "message": "messages",
    "messages": "messages",
    "propose": "proposals",
    "proposals": "proposals",
    "accept": "proposals",
    "decline": "proposals",
    "withdraw": "proposals",
    "events": "events",
    "monitor": "monitor",
    "logs": "logs",
    "project": "projects",
    "agent": "agents",
    "escalations": "repairs",
    "answer": "repairs",
    "reset": "repairs",
    "cancel": "repairs",
    "dead-letter": "repairs",
    "batch-done": "repairs",
    "recover": "recovery",
    "scan": "recovery",
    "drain": "cards",
    "undrain": "cards",
    "quarantine": "cards",
    "clear": "cards",
    "reserve": "reservations",
    "reservations": "reservations",
    "unreserve": "reservations",
    "force-release": "releases",
    "kill": "errands",
    "probe": "errands",
    "serve": "serve",
    "orchestrate": "orchestrate",
    "host": "host",
    "mcp": "mcp",
    "fake": "fake",
    "db": "db",
    "config": "config",
    "version": "version",
}
"""Each command and the module of this package that holds it, in the order `--help` lists them."""


class LazyGroup(TyperGroup):
    """A group that imports a command's module when the command is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        cast("dict[str, Any]", self.commands).update(dict.fromkeys(COMMANDS))  # the names, for suggestions

    def list_commands(self, ctx: Any) -> list[str]:
        """List every command without loading any."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load one command; None when there is none of that name."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        with undisturbed():
            loaded = importlib.import_module(f"warploom.cli.{module}")
        return get_group(loaded.app).commands[cmd_name]


app = typer.Typer(
    name="warploom",
    cls=LazyGroup,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(epilog="Start with: warploom up, then warploom status")
def warploom() -> None:
    """Share GPUs between coding agents and people."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in (given[: given.index("--")] if "--" in given else given)
    _tolerate_narrow_encodings()
    try:
        return _code(typer.main.get_command(app).main(given, prog_name="warploom", standalone_mode=False))
    except WarploomError as error:
        refuse(error, as_json=as_json)
        return exit_for(error)
    except typer.TyperException as error:
        if error.message.startswith("Usage:"):  # a group without a command
            print(error.message)
            return Exit.USAGE
        refuse(MalformedInput(_sentence(error.format_message()), _usage(error)), as_json=as_json)
        return Exit.USAGE
    except (typer.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BAD
    except OSError as error:
        refuse(
            MalformedInput(f"A file that is needed cannot be used: {error}.", "Mend that and try again."),
            as_json=as_json,
        )
        return Exit.BAD


def _code(result: object) -> int:
    return result if isinstance(result, int) else Exit.DONE


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _usage(error: Exception) -> str:
    path = getattr(getattr(error, "ctx", None), "command_path", "warploom")
    return f"`{path} --help` shows how."


def _tolerate_narrow_encodings() -> None:
    """Print a question mark for a character that the terminal's encoding lacks, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and (stream.encoding or "").lower() not in ("utf-8", "utf8"):
            reconfigure(errors="replace")
