"""Plans in files: JSON or YAML, read with limits, written whole."""

import json
import sys
from pathlib import Path
from typing import Any, Final, cast

import yaml

from warploom.domain.errors import MalformedInput

_LARGEST: Final = 32 * 1024 * 1024
_MOST_VALUES: Final = 2_000_000
_YAML: Final = (".yaml", ".yml")
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C where libyaml is there, since a plan may have ten thousand tasks; the other reads the same."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they read."""


def _written(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return cast("Any", dumper).represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _written)


def read_plan_file(name: str) -> dict[str, Any]:
    """Read a plan from a file, or from standard input for `-`; raise MalformedInput where it is none.

    YAML is read without tags that make objects, and refused where its aliases would grow beyond all bounds.
    """
    text = _text(name)
    plan = _json(text) if text.lstrip()[:1] == "{" else None
    if plan is None:
        plan = _yaml(name, text)
    if not isinstance(plan, dict):
        raise MalformedInput(f"{name} holds no plan.", 'A plan is an object with a list of tasks: {"tasks": [...]}.')
    return cast("dict[str, Any]", _plain(plan))


def write_plan_file(name: str, plan: dict[str, Any]) -> None:
    """Write a plan to a file, as YAML where its name says so."""
    text = plan_text(plan, as_yaml=name.lower().endswith(_YAML))
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise MalformedInput(
            f"{name} cannot be written: {error.strerror}.", "Name a file in a folder of yours."
        ) from None


def plan_text(plan: dict[str, Any], *, as_yaml: bool) -> str:
    """Write a plan as JSON or YAML."""
    if as_yaml:
        return yaml.dump(plan, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100)
    return json.dumps(plan, ensure_ascii=False, indent=2) + "\n"


def _text(name: str) -> str:
    try:
        if name == "-":
            content = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(_LARGEST + 1)
    except OSError as error:
        raise MalformedInput(f"{name} cannot be read: {error.strerror}.", "Name a file with a plan.") from None
    if len(content) > _LARGEST:
        raise MalformedInput(f"{name} is larger than {_LARGEST >> 20} MiB.", "Split the plan.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MalformedInput(f"{name} is not UTF-8.", "Write the plan as UTF-8.") from None


def _json(text: str) -> Any:
    """Read JSON; None where it is none, since YAML may begin with the same mark."""
    try:
        return json.loads(text)
    except ValueError:
        return None
    except RecursionError:
        raise MalformedInput("The plan is nested too deeply.", "A plan is a list of tasks.") from None


def _yaml(name: str, text: str) -> Any:
    try:
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - one of the safe loaders
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise MalformedInput(
            f"{name} is neither JSON nor YAML: {where}{error.problem or error.context}.", "Mend that line."
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        raise MalformedInput(f"{name} is neither JSON nor YAML: {error}.", "Mend it and try again.") from None
    except RecursionError:
        raise MalformedInput(f"{name} is nested too deeply.", "A plan is a list of tasks.") from None


def _plain(plan: Any) -> Any:
    """Return what JSON can say: dates as texts, keys as texts; raise MalformedInput where there is too much."""
    left = _MOST_VALUES

    def plain(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > 50:
            raise MalformedInput("The plan holds more than a plan may.", "Write it without nesting or many aliases.")
        if isinstance(value, dict):
            return {str(name): plain(each, depth + 1) for name, each in cast("dict[Any, Any]", value).items()}
        if isinstance(value, list | tuple | set):
            return [plain(each, depth + 1) for each in cast("list[Any]", value)]
        return value if isinstance(value, str | int | float | bool | None) else _moment(value)

    return plain(plan, 0)


def _moment(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
