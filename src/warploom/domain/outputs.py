"""Outputs: the JSON that tasks leave behind, made fit to be kept."""

import json
import math
from typing import Any, Final, cast

from warploom.domain.errors import MalformedInput

Output = dict[str, Any] | list[Any] | str | int | float | bool | None
"""What a task leaves behind: any JSON."""

OUTPUT_LIMIT: Final = 100_000
DEEPEST: Final = 64
LARGEST: Final = 10**30


def read_output(output: Any) -> Output:
    """Return an output as it can be kept: in its texts NUL and halves of characters become spaces.

    Raises MalformedInput for what is no JSON (NaN, infinities), for whole numbers beyond `LARGEST`, for what is nested more
    than `DEEPEST` deep, and for more than `OUTPUT_LIMIT` bytes.
    """
    kept = _clean(output, 0)
    size = 0 if kept is None else len(json.dumps(kept))
    if size > OUTPUT_LIMIT:
        raise MalformedInput(
            f"The output has {size:,} bytes.", f"Use at most {OUTPUT_LIMIT:,}; put files elsewhere and name them."
        )
    return kept


def _clean(value: Any, depth: int) -> Any:
    if depth >= DEEPEST and isinstance(value, dict | list):
        raise MalformedInput(f"The output is nested more than {DEEPEST} deep.", "Flatten it, or give it as a text.")
    if isinstance(value, str):
        return "".join(mark if mark != "\0" and not "\ud800" <= mark <= "\udfff" else " " for mark in value)
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        return {_clean(str(key), depth): _clean(inner, depth + 1) for key, inner in entries.items()}
    if isinstance(value, list):
        return [_clean(inner, depth + 1) for inner in cast("list[Any]", value)]
    if value is None or (isinstance(value, int) and abs(value) <= LARGEST):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise MalformedInput("The output is not JSON that can be kept.", "Give objects, lists, texts and usual numbers.")
