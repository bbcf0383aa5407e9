"""Changes one setting in `$WARPLOOM_HOME/config.toml` and leaves every other line of it alone."""

import difflib
import fcntl
import json
import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from warploom.config import PREFIX, SETTINGS, Settings, SettingsFile, read_file
from warploom.domain.errors import MalformedInput
from warploom.domain.texts import spoken_list

SECRETS = ("key", "operator_key", "database_url", "redis_url")
"""Settings whose values are never shown."""
_NAMES = tuple(setting.name for setting in SETTINGS)
_LONGEST = 1_000
_FIRST_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_VALUE = r"""(?:"(?:[^"\\\r\n]|\\[^\r\n])*"|'[^'\r\n]*'|[^\s"'#\[{][^\r\n#]*?)"""


def setting_name(text: str) -> str:
    """Read the name of a setting, as in the file or as in the environment; raise MalformedInput with the nearest names."""
    name = text.strip().lower().replace("-", "_").removeprefix(PREFIX.lower())
    if name == "home":
        raise MalformedInput(
            "The home cannot be set in the file that lies in it.", "Set WARPLOOM_HOME in the environment."
        )
    if name.partition(".")[0] == "cards":
        raise MalformedInput(
            "What is said of cards is written by hand.",
            "Put [cards.0] at the end of config.toml, with weight and ignore below it; `warploom config` shows it.",
        )
    if name not in _NAMES:
        near = difflib.get_close_matches(name, _NAMES)
        hint = f"Did you mean {spoken_list(near)}? " if near else ""
        raise MalformedInput(f"{text[:40]!r} is no setting.", f"{hint}`warploom config show` lists every setting.")
    return name


def write_setting(home: Path, name: str, value: str) -> Path:
    """Set one setting of a home, and return the file. Readers see the old file or the new one, each whole.

    Raises MalformedInput for a value that the settings would refuse; then nothing is changed.
    """
    from warploom.embedded.homes import Home

    if len(value) > _LONGEST or not value.isprintable():
        raise MalformedInput(f"{name} cannot have that value.", f"Use one line of at most {_LONGEST:,} characters.")
    place = Home.at(home)
    place.prepare()
    path = (place.path / "config.toml").resolve()
    with _locked(place.path):
        old = _text(path)
        new = with_setting(old, name, value, path)
        Settings.of_file(new, path)
        if new != old:
            _replace(path, new)
    return path


def with_setting(text: str, name: str, value: str, path: Path) -> str:
    """Return the text of a file with one setting changed, or added; raise MalformedInput where that is not safe.

    What follows the head of a table belongs to that table, so a setting is added before the first one.
    """
    before = read_file(text, path)
    expected = SettingsFile(before.values | {name: value}, before.cards)
    line = re.compile(rf"""^([ \t]*["']?{name}["']?[ \t]*=[ \t]*){_VALUE}([ \t]*(?:#[^\r\n]*)?\r?)$""", re.MULTILINE)
    written = _written(value)
    if line.search(text):
        changed = line.sub(lambda found: f"{found[1]}{written}{found[2]}", text, count=1)
    else:
        end = "\r\n" if "\r\n" in text else "\n"
        table = _FIRST_TABLE.search(text)
        own, tables = (text, "") if table is None else (text[: table.start()], text[table.start() :])
        changed = f"{own}{'' if not own or own.endswith(end) else end}{name} = {written}{end}{tables}"
    if not _says(changed, expected, path):
        raise MalformedInput(f"{path} says {name} in a way that cannot be changed safely.", "Change that line by hand.")
    return changed


def _says(text: str, expected: SettingsFile, path: Path) -> bool:
    try:
        return read_file(text, path) == expected
    except MalformedInput:
        return False


def _written(value: str) -> str:
    return value if _WHOLE_NUMBER.fullmatch(value) else json.dumps(value, ensure_ascii=False)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Keep other writers of this home's file away; each holds it for a moment, and the kernel lets go of a dead one's."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise MalformedInput(f"{path} is not UTF-8 text.", "Mend it and try again.") from error


def _replace(path: Path, text: str) -> None:
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.chmod(mode)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
