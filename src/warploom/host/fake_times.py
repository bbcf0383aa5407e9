"""Times as people write them in scenarios and on the command line: `2s`, `1.5 min`, or a number of seconds."""

import re
from datetime import timedelta
from typing import Any, Final

_WRITTEN: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+) *(ms|s|m|min|h)?", re.ASCII)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LONGEST: Final = timedelta(days=7).total_seconds()


class Seconds(float):
    """A time in seconds, where `msgspec` is to read one as people write it."""


def read_seconds(written: object) -> float:
    """Read a time of up to a week, in seconds; raise ValueError for anything else."""
    found = _WRITTEN.fullmatch(str(written).strip()) if isinstance(written, str | int | float) else None
    if found is None or isinstance(written, bool):
        raise ValueError("a time is written as 2s, 500ms, 1.5min, 1h or a number of seconds")
    seconds = float(found[1]) * _UNITS[found[2] or "s"]
    if seconds > _LONGEST:
        raise ValueError("a time is at most 7 days")
    return seconds


def decode_seconds(kind: type, written: Any) -> Any:
    """Read a time where `msgspec` expects one."""
    if kind is Seconds:
        return Seconds(read_seconds(written))
    raise NotImplementedError(kind)
