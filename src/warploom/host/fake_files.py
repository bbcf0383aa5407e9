"""The files of the fake cards of one home: where they are, and how they are read and replaced whole.

Training scripts use this through `fake_context`, so it needs nothing but the standard library.
"""

import json
import os
import zlib
from pathlib import Path
from typing import Any, cast

_FOLDER = "fake"


def fake_folder(home: Path | str) -> Path:
    """Return the folder of a home's fake cards."""
    return Path(home).expanduser().absolute() / _FOLDER


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a file; None when there is no file. Raises ValueError when it holds anything else."""
    try:
        content: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    if not isinstance(content, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    return cast(dict[str, Any], content)


def write_json(path: Path, content: object) -> None:
    """Replace a file in one step, so that a reader sees the old or the new content and never half of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{id(content):x}")
    fresh.write_text(json.dumps(content), encoding="utf-8")
    fresh.replace(path)


def rack_seed(folder: Path) -> str:
    """Return what makes this home's UUIDs its own; it is written down once, so that they outlast a move."""
    rack = folder / "rack.json"
    known = read_json(rack)
    if known is not None and isinstance(known.get("seed"), str):
        return known["seed"]
    seed = f"{zlib.crc32(os.uname().nodename.encode()):08x}{zlib.crc32(os.fsencode(folder)):08x}"
    write_json(rack, (known or {}) | {"seed": seed})
    return seed


def fake_uuid(seed: str, card: int) -> str:
    """Return the UUID of the card with this number, in the form of a real one."""
    return _uuid(f"GPU-fake{card:04x}", seed, f"{card}")


def fake_instance_uuid(seed: str, card: int, number: int) -> str:
    """Return the UUID of one of a card's MIG instances."""
    return _uuid(f"MIG-fa{card:04x}{number:02x}", seed, f"{card}/{number}")


def _uuid(beginning: str, seed: str, name: str) -> str:
    tail = zlib.crc32(f"{seed}/{name}".encode())
    return f"{beginning}-{seed[:4]}-{seed[4:8]}-{seed[8:12]}-{seed[12:16]}{tail:08x}"
