"""Writes the reference pages of docs/ from the code itself: `python -m warploom.cli.reference [--check] docs/reference`."""

import inspect
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from typer import Context
from typer.main import get_command

from warploom.cli.exits import MEANINGS, exit_for
from warploom.cli.main import COMMANDS, app
from warploom.config import CARD_SETTINGS, PREFIX, SETTINGS
from warploom.domain.errors import every_error
from warploom.domain.events import SENTENCES
from warploom.domain.toolsets import HEADER, USUAL
from warploom.domain.toolsets import MEANINGS as TOOLSETS

_WIDTH: Final = 96
_NOTE: Final = (
    "<!-- Written by `python -m warploom.cli.reference docs/reference`; change the code instead of this page. -->"
)


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    return {
        "cli.md": _cli(),
        "settings.md": _settings(),
        "errors.md": _errors(),
        "events.md": _events(),
        "tools.md": _tools(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages; with --check write nothing and return 1 when one of them is stale, naming it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_check = "--check" in given
    folders = [Path(argument) for argument in given if argument != "--check"]
    if len(folders) != 1:
        sys.stderr.write("Name the folder of the pages. For example: python -m warploom.cli.reference docs/reference\n")
        return 2
    stale = [name for name, text in pages().items() if _read(folders[0] / name) != text]
    if not is_check:
        folders[0].mkdir(parents=True, exist_ok=True)
        for name in stale:
            (folders[0] / name).write_text(pages()[name], encoding="utf-8")
            print(f"wrote {folders[0] / name}")
        return 0
    for name in stale:
        print(f"{folders[0] / name} is stale; run: python -m warploom.cli.reference {folders[0]}")
    return 1 if stale else 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _page(title: str, lead: str, parts: Iterable[str]) -> str:
    return "\n\n".join([f"# {title}", _NOTE, lead, *parts]) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', '&#124;') for cell in line)} |" for line in lines)


def _cli() -> str:
    lead = "Every command takes `--help`. Answers go to stdout, remarks and errors to stderr."
    codes = _table(["code", "meaning"], [(code.value, meaning) for code, meaning in MEANINGS.items()])
    group = cast(Any, get_command(app))
    helps = [part for name in COMMANDS for part in _command(group.get_command(None, name), f"warploom {name}")]
    return _page("Commands", lead, ["## Exit codes", codes, *helps])


def _command(command: Any, path: str) -> list[str]:
    """Show a command's help, and for a group of commands that of each."""
    context = Context(
        command,
        info_name=path,
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        help_option_names=["-h", "--help"],
    )
    text = "\n".join(line.rstrip() for line in command.get_help(context).strip().splitlines())
    parts = [f"## {path}", f"```text\n{text}\n```"]
    for name, inner in getattr(command, "commands", {}).items():
        parts.extend(_command(inner, f"{path} {name}"))
    return parts


def _settings() -> str:
    lead = "The environment wins over `$WARPLOOM_HOME/config.toml`, where each has the name of the second column."
    rows = [
        (
            f"`{PREFIX}{setting.name.upper()}`",
            f"`{setting.name}`",
            f"`{setting.default}`" if setting.default else "",
            setting.meaning,
        )
        for setting in SETTINGS
    ]
    head = ["variable", "in config.toml", "default", "meaning"]
    return _page("Settings", lead, [_table(head, rows), "## Cards", *_cards()])


def _cards() -> list[str]:
    lead = (
        "`config.toml` may end with a table for each card of the machine it lies on: by index, by the beginning of its UUID, "
        "or for every card. The weight of the nearest table counts (UUID, then index, then `*`); what is to be ignored adds "
        "up. Its host agent reads the file again at the next look after it was changed."
    )
    example = """\
```toml
[cards.0]
weight = 2.0
ignore = ["user:root", "command:Xorg*"]

[cards.GPU-1a2b3c4d]
weight = 0.5

[cards."*"]
ignore = ["dcgm-exporter"]
```"""
    rows = [(f"`{setting.name}`", f"`{setting.default}`", setting.meaning) for setting in CARD_SETTINGS]
    return [lead, example, _table(["in the table of a card", "default", "meaning"], rows)]


def _errors() -> str:
    lead = (
        "Every refusal has a code, one sentence of cause and one of what to do next: over HTTP as "
        '`{"error": {"code", "cause", "next"}}`, from a command on stderr (on stdout with `--json`).'
    )
    rows = [
        (f"`{error.code}`", error.status, exit_for(error("", "")).value, inspect.cleandoc(error.__doc__ or ""))
        for error in every_error()
    ]
    return _page("Errors", lead, [_table(["code", "HTTP status", "exit code", "meaning"], rows)])


def _events() -> str:
    lead = "Each change writes its event in the same transaction. `warploom events` and `/events` show these sentences."
    rows = [(f"`{kind.value}`", sentence) for kind, sentence in SENTENCES.items()]
    return _page("Events", lead, [_table(["kind", "sentence"], rows)])


def _tools() -> str:
    from warploom.mcp.callers import Desk
    from warploom.mcp.door import tools_of

    lead = (
        "What an agent's client offers to its model, word for word. A connection sees the toolsets it asks for: with "
        f"`?toolsets=gpu,graph,admin` (or `all`) on the address, the header `{HEADER}`, or `WARPLOOM_TOOLSETS` where "
        f"its client starts `warploom mcp`; otherwise {' and '.join(USUAL)}. `loom_me` is in each."
    )
    parts: list[str] = []
    for toolset, tools in tools_of(Desk(cast(Any, None), cast(Any, None))).items():
        parts += [f"## Toolset {toolset}", TOOLSETS[toolset], *(part for tool in tools for part in _tool(tool))]
    return _page("Tools", lead, parts)


def _tool(tool: Any) -> list[str]:
    signature = ", ".join(_parameter(parameter) for parameter in inspect.signature(tool).parameters.values())
    return [f"### `{tool.__name__}({signature})`", f"```text\n{inspect.getdoc(tool)}\n```"]


def _parameter(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
    return f"{parameter.name}: {inspect.formatannotation(parameter.annotation)}{default}"


if __name__ == "__main__":
    sys.exit(main())
