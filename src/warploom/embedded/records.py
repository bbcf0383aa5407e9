"""What runs: one small file a process under `run/`, so that others find it and a new supervisor takes it over."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from warploom.client.processes import is_alive
from warploom.domain.processes import ProcessIdentity
from warploom.embedded.homes import Home


@dataclass(frozen=True, slots=True)
class Record:
    """A process of the stack and what its starter says of it."""

    process: ProcessIdentity
    details: Mapping[str, Any]


def write_record(home: Home, name: str, process: ProcessIdentity, details: Mapping[str, object]) -> None:
    """Write a record whole: a reader sees the old one or the new one."""
    file = home.record(name)
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    fresh.write_text(json.dumps({"pid": process.pid, "started": process.started, **details}), encoding="utf-8")
    fresh.replace(file)


def read_record(home: Home, name: str) -> Record | None:
    """Return a record, whether or not its process still lives; None when there is none that can be read."""
    try:
        table = json.loads(home.record(name).read_text(encoding="utf-8"))
        return Record(ProcessIdentity(table.pop("pid"), table.pop("started")), cast("dict[str, Any]", table))
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def living(home: Home, name: str) -> Record | None:
    """Return the record of a process that still lives, or None."""
    record = read_record(home, name)
    return record if record is not None and is_alive(record.process) else None


def forget(home: Home, name: str) -> None:
    """Remove a record."""
    home.record(name).unlink(missing_ok=True)
