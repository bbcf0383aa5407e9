"""`warploom config`: every setting, its value here, where that comes from and what it means; and setting one."""

import json
import os
from dataclasses import dataclass
from typing import Annotated

import typer

from warploom.cli.options import Json
from warploom.cli.output import note, present
from warploom.cli.settings_file import SECRETS, setting_name, write_setting
from warploom.config import CARD_SETTINGS, PREFIX, SETTINGS, Setting, Settings
from warploom.domain.card_rules import EVERY_CARD, CardTables

app = typer.Typer(rich_markup_mode=None)
config = typer.Typer(
    rich_markup_mode=None,
    invoke_without_command=True,
    epilog="Example: warploom config set lease_minutes 20",
    help="Show every setting, or set one.",
)
app.add_typer(config, name="config")


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting as it is in force here; secrets are not shown. What is said of a card has no variable."""

    name: str
    variable: str | None
    value: str
    source: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Written:
    """One setting as it was written."""

    name: str
    value: str
    file: str
    next: str


@config.callback()
def either(context: typer.Context, as_json: Json = False) -> None:
    """Show every setting, or set one."""
    if context.invoked_subcommand is None:
        _show_all(as_json=as_json)


@config.command(epilog="Example: warploom config show")
def show(as_json: Json = False) -> None:
    """List every setting, its value and its source."""
    _show_all(as_json=as_json)


@config.command("set", epilog="Example: warploom config set lease_minutes 20")
def set_one(
    name: Annotated[str, typer.Argument(help="A setting, such as lease_minutes.", metavar="KEY")],
    value: Annotated[str, typer.Argument(help='Its value; "" for none.', metavar="VALUE")],
    as_json: Json = False,
) -> None:
    """Write one setting to config.toml.

    All other lines and comments stay as they are. What runs reads it at its next start.
    """
    setting = setting_name(name)
    path = write_setting(Settings.home_of(os.environ), setting, value)
    written = Written(setting, _hidden(setting, value), str(path), "What runs reads it at its next start.")
    present(written, [f"{setting} = {written.value or '(none)'}  [{path}]", written.next], as_json=as_json)
    note_override(setting)


def note_override(setting: str) -> None:
    """Say so where the environment of this shell wins over what the file says."""
    variable = PREFIX + setting.upper()
    if os.environ.get(variable):
        note(f"{variable} is set in this shell and wins over the file.")


def _show_all(*, as_json: bool) -> None:
    settings = Settings.load()
    shown = [*(_show(setting, settings) for setting in SETTINGS), *_show_cards(settings.cards)]
    present(shown, [line for entry in shown for line in _lines(entry)], as_json=as_json)


def _show(setting: Setting, settings: Settings) -> Shown:
    variable = PREFIX + setting.name.upper()
    value = str(settings.home) if setting.name == "home" else settings.source[setting.name]
    if os.environ.get(variable):
        source = "environment"
    else:
        source = "default" if setting.name == "home" or value == setting.default else "config.toml"
    return Shown(setting.name, variable, _hidden(setting.name, value), source, setting.meaning)


def _show_cards(tables: CardTables) -> list[Shown]:
    """Show what each table of a card says, and the defaults where there is no table."""
    if not tables.entries:
        return [_show_card(EVERY_CARD, setting, None) for setting in CARD_SETTINGS]
    said = {
        (key, setting): getattr(table, setting.name)
        for key, table in tables.entries.items()
        for setting in CARD_SETTINGS
    }
    return [_show_card(key, setting, value) for (key, setting), value in said.items() if value is not None]


def _show_card(key: str, setting: Setting, value: float | tuple[str, ...] | None) -> Shown:
    told = json.dumps(value) if isinstance(value, tuple) else setting.default if value is None else f"{value:g}"
    source = "default" if value is None else "config.toml"
    return Shown(f"cards.{key}.{setting.name}", None, told, source, setting.meaning)


def _hidden(name: str, value: str) -> str:
    return "(set, not shown)" if value and name in SECRETS else value


def _lines(entry: Shown) -> list[str]:
    return [f"{entry.variable or entry.name} = {entry.value or '(none)'}  [{entry.source}]", f"    {entry.meaning}"]
