"""The plugin for Claude Code says what the product says, in the form that its reference documents."""

import json
import shlex
import tomllib
from typing import Any

import pytest
from checkout import CHECKOUT

from warploom.cli.main import COMMANDS

MANIFEST: dict[str, Any] = json.loads((CHECKOUT / ".claude-plugin" / "plugin.json").read_text(encoding="utf-8"))
MARKETPLACE: dict[str, Any] = json.loads((CHECKOUT / ".claude-plugin" / "marketplace.json").read_text(encoding="utf-8"))
MONITORS: list[dict[str, str]] = json.loads((CHECKOUT / "monitors" / "monitors.json").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FIELDS = {"name", "version", "description", "license", "keywords", "mcpServers", "channels"}


def test_the_manifest_is_of_this_version_and_has_only_fields_that_are_documented() -> None:
    assert set(MANIFEST) <= FIELDS
    assert (MANIFEST["name"], MANIFEST["version"]) == (PROJECT["name"], PROJECT["version"])
    assert MANIFEST["license"] == PROJECT["license"]


def test_its_server_and_its_channel_are_the_one_that_init_writes() -> None:
    assert MANIFEST["mcpServers"] == {"warploom": {"command": "warploom", "args": ["mcp"]}}
    assert [channel["server"] for channel in MANIFEST["channels"]] == list(MANIFEST["mcpServers"])


@pytest.mark.parametrize("monitor", MONITORS, ids=lambda monitor: monitor["name"])
def test_a_monitor_runs_a_command_that_exists(monitor: dict[str, str]) -> None:
    assert set(monitor) == {"name", "command", "description", "when"}
    assert monitor["when"] == "always"
    program, command = shlex.split(monitor["command"])
    assert program == "warploom"
    assert command in COMMANDS


def test_the_skill_lies_where_a_plugin_s_skills_are_looked_for() -> None:
    assert (CHECKOUT / "skills" / "warploom" / "SKILL.md").is_file()


def test_the_marketplace_offers_this_very_plugin() -> None:
    assert [(plugin["name"], plugin["source"]) for plugin in MARKETPLACE["plugins"]] == [(MANIFEST["name"], "./")]
    assert MARKETPLACE["owner"]["name"]
