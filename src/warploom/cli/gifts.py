"""The three things `warploom init` puts into a project. Each is planned first, so that a refusal leaves all as it was."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, cast

from warploom.assets import asset_dir
from warploom.domain.errors import MalformedInput

BEGIN: Final = "<!-- warploom:begin -->"
END: Final = "<!-- warploom:end -->"
_SECTION: Final = """\
## GPUs and tasks

GPUs here are shared through Warploom. Before you run anything on one, ask for the card with the `gpu_request` tool and
use only the variables it gives you; a busy card means a place in its queue, not another card. When you are queued, run
`warploom wait T-17` (your ticket) in the background and end your turn: it exits when the card is yours. Call
`gpu_release` as soon as the job ends. Never stop other people's processes. For a single command,
`warploom run --card 0 -- python eval.py` does all of it.

Planned work stands in Warploom's graph of tasks: take the next one with `loom_claim`, say how far you are with
`loom_heartbeat`, and end it with `loom_done`, `loom_fail` or `loom_escalate`, naming its lease. A task that needs a card
is claimed together with it. The `warploom` skill has the details.
"""
_AGAIN: Final = "Mend it, then run `warploom init` again; it was left as it is."


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done to one file, decided but not done."""

    did: str
    act: Callable[[], object] | None = None

    def apply(self) -> str:
        """Do it and return the word for it."""
        if self.act is not None:
            self.act()
        return self.did


UNCHANGED: Final = Plan("unchanged")


class Gift(Protocol):
    """One thing for a project."""

    @property
    def name(self) -> str:
        """Its path inside the project."""
        ...

    @property
    def meaning(self) -> str:
        """What it is for, in a few words."""
        ...

    def plan(self) -> Plan:
        """Decide what to do; raises MalformedInput when what is there cannot be added to."""
        ...


class McpEntry:
    """The entry of .mcp.json with which an agent's client starts `warploom mcp`."""

    name = ".mcp.json"
    meaning = "your agent's client starts `warploom mcp`"

    def __init__(self, folder: Path) -> None:
        self._path = folder / self.name

    def plan(self) -> Plan:
        """Add the server beside those that are there; an entry that already names a command stays."""
        text = _read(self._path)
        table = {} if text is None or not text.strip() else self._parse(text)
        servers = self._object(table.setdefault("mcpServers", {}), "mcpServers")
        entry = self._object(servers.setdefault("warploom", {}), "mcpServers.warploom")
        if entry.get("command") or entry.get("url"):
            return UNCHANGED
        # Unbuffered, a chatty sitecustomize would reach the client before any of our code can run.
        entry |= {"command": _command(), "args": ["mcp"], "env": {"PYTHONUNBUFFERED": ""}}
        content = json.dumps(table, indent=2, ensure_ascii=False) + "\n"
        return Plan("created" if text is None else "updated", lambda: _write(self._path, content))

    def _parse(self, text: str) -> dict[str, Any]:
        try:
            return self._object(json.loads(text), "its top level")
        except (ValueError, RecursionError) as error:
            raise MalformedInput(f"{self._path} is not valid JSON: {error}.", _AGAIN) from error

    def _object(self, value: object, what: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise MalformedInput(f"{self._path} is not as a client expects it: {what} is no object.", _AGAIN)
        return cast("dict[str, Any]", value)


class AgentsSection:
    """A section of AGENTS.md, between markers; everything outside them is somebody else's."""

    name = "AGENTS.md"
    meaning = "a section that tells agents to ask for cards"

    def __init__(self, folder: Path) -> None:
        self._path = folder / self.name

    def plan(self) -> Plan:
        """Put the section at the end, or renew the one that is there."""
        text = _read(self._path)
        section = f"{BEGIN}\n{_SECTION}{END}\n"
        if text is None:
            return Plan("created", lambda: _write(self._path, section))
        content = self._merge(text, section.replace("\n", "\r\n") if "\r\n" in text else section)
        return UNCHANGED if content == text else Plan("updated", lambda: _write(self._path, content))

    def _merge(self, text: str, section: str) -> str:
        before, begin, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin and END not in text:
            gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
            return text + gap + section
        if not begin or not end or BEGIN in after:
            raise MalformedInput(f"{self._path} has a Warploom section whose markers do not match.", _AGAIN)
        return before + section.rstrip() + after


class SkillLink:
    """The skill, linked so that it is renewed along with Warploom; copied where links are impossible."""

    name = ".claude/skills/warploom"
    meaning = "the skill that teaches agents the loop"

    def __init__(self, folder: Path) -> None:
        self._path = folder / self.name
        self._target = asset_dir("skills") / "warploom"

    def plan(self) -> Plan:
        """Link it; a link of ours is renewed, a folder of ours is copied anew, anything else is left alone."""
        if self._path.is_symlink():
            if self._path.resolve() == self._target.resolve():
                return UNCHANGED
            return Plan("updated", self._relink)
        if not self._path.exists():
            return Plan("created", self._link)
        if not (self._path / "SKILL.md").is_file():
            raise MalformedInput(
                f"{self._path} is there already and is not the skill.", "Move it away, then run `warploom init` again."
            )
        return UNCHANGED if self._is_same_copy() else Plan("updated", self._copy)

    def _link(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._path.symlink_to(self._target, target_is_directory=True)
        except (OSError, NotImplementedError):
            self._copy()

    def _relink(self) -> None:
        self._path.unlink()
        self._link()

    def _copy(self) -> None:
        shutil.copytree(self._target, self._path, dirs_exist_ok=True)

    def _is_same_copy(self) -> bool:
        files = [file for file in self._target.rglob("*") if file.is_file()]
        return all(_bytes(self._path / file.relative_to(self._target)) == file.read_bytes() for file in files)


def _command() -> str:
    """Name the program as a client can find it: by name where the path has it, otherwise in full."""
    beside = Path(sys.executable).with_name("warploom")
    return "warploom" if shutil.which("warploom") or not beside.exists() else str(beside)


def _read(path: Path) -> str | None:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise MalformedInput(f"{path} is not UTF-8 text.", _AGAIN) from error


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _write(path: Path, content: str) -> None:
    """Write a file whole, through a link where it is one, so that a reader never sees half of it."""
    place = path.resolve()
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        fresh.write_bytes(content.encode())
        if place.exists():
            fresh.chmod(place.stat().st_mode & 0o777)
        fresh.replace(place)
    finally:
        fresh.unlink(missing_ok=True)
