"""`warploom config`: every setting, its value here, where that comes from and what it means."""

import os
from dataclasses import dataclass

import typer

from warploom.cli.options import Json
from warploom.cli.output import present
from warploom.config import PREFIX, SETTINGS, Setting, Settings

app = typer.Typer(rich_markup_mode=None)

_SECRET = ("key", "operator_key", "database_url", "redis_url")


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting as it is in force here; secrets are not shown."""

    name: str
    variable: str
    value: str
    source: str
    meaning: str


@app.command(epilog="Example: warploom config")
def config(as_json: Json = False) -> None:
    """List every setting, its value and its source."""
    settings = Settings.load()
    shown = [_show(setting, settings) for setting in SETTINGS]
    present(shown, [line for entry in shown for line in _lines(entry)], as_json=as_json)


def _show(setting: Setting, settings: Settings) -> Shown:
    variable = PREFIX + setting.name.upper()
    value = str(settings.home) if setting.name == "home" else settings.source[setting.name]
    if os.environ.get(variable):
        source = "environment"
    else:
        source = "default" if setting.name == "home" or value == setting.default else "config.toml"
    hidden = "(set, not shown)" if value and setting.name in _SECRET else value
    return Shown(setting.name, variable, hidden, source, setting.meaning)


def _lines(entry: Shown) -> list[str]:
    return [f"{entry.variable} = {entry.value or '(none)'}  [{entry.source}]", f"    {entry.meaning}"]
