"""Lets a process use a fake card as a training script uses a real one: it shows up there until it ends.

Standard library only, so that a script that imports it starts fast.
"""

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from warploom.host.fake_files import fake_folder, fake_instance_uuid, fake_uuid, rack_seed, read_json, write_json


class FakeContext:
    """A process's hold on a fake card; it ends by itself with the process."""

    def __init__(self, uuid: str, path: Path) -> None:
        self.uuid = uuid
        self._path = path

    def vacate(self) -> None:
        """Give the card's memory back before the process ends; doing it twice is fine."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def __enter__(self) -> "FakeContext":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.vacate()


def occupy(memory_mib: int, utilisation: int | None = None, device: int = 0) -> FakeContext:
    """Use a fake card of WARPLOOM_HOME from this process, from now until it ends.

    `device` counts within CUDA_VISIBLE_DEVICES, as CUDA does; calling again for the same device replaces the use.
    `utilisation` in percent is that of a busy card when left out. Raises RuntimeError when no such device is visible, and
    in CUDA's words when the card has memory errors.
    """
    folder = fake_folder(os.environ.get("WARPLOOM_HOME") or "~/.warploom")
    uuid, script = _visible(folder, device)
    if script.get("ecc_errors"):
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
    pid = os.getpid()
    path = folder / "contexts" / f"{pid}-{device}.json"
    content = {"pid": pid, "started": _started(), "uuid": uuid, "memory_mib": memory_mib, "utilisation": utilisation}
    write_json(path, content)
    return FakeContext(uuid, path)


def _visible(folder: Path, device: int) -> tuple[str, dict[str, Any]]:
    """Return the UUID of a visible device, and the script of the card that it is or is a part of."""
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = _cards(folder)
    visible = list(cards) if mask is None else _masked(list(cards), mask)
    if not 0 <= device < len(visible):
        shown = "is not set" if mask is None else f"is {mask!r}"
        raise RuntimeError(
            f"no fake card {device} is visible: {folder} has {len(cards)}, and CUDA_VISIBLE_DEVICES {shown}"
        )
    return visible[device], cards[visible[device]]


def _cards(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the scripts of the cards, or of their MIG instances, by UUID; in the order of the bus, which may be shuffled."""
    rack = read_json(folder / "rack.json") or {}
    seed, count = rack_seed(folder), int(rack.get("cards") or 0)
    scripts = [read_json(folder / "cards" / f"{card}.json") or {} for card in range(count)]
    places = [card if script.get("index") is None else script["index"] for card, script in enumerate(scripts)]
    order = sorted(range(count), key=lambda card: places[card])
    return {
        uuid: scripts[card] for card in order for uuid in _uuids(seed, card, int(scripts[card].get("instances") or 0))
    }


def _uuids(seed: str, card: int, instances: int) -> list[str]:
    return [fake_instance_uuid(seed, card, number) for number in range(instances)] or [fake_uuid(seed, card)]


def _masked(cards: list[str], mask: str) -> list[str]:
    """Apply a mask as CUDA does: by number or by UUID (its beginning will do); the first wrong entry ends it."""
    chosen: list[str] = []
    for entry in (part.strip() for part in mask.split(",")):
        named = [uuid for uuid in cards if entry and uuid.startswith(entry)]
        found = cards[int(entry) : int(entry) + 1] if entry.isdecimal() else named
        if len(found) != 1 or found[0] in chosen:
            break
        chosen += found
    return chosen


def _started() -> int | None:
    """Return this process's start in clock ticks since boot; None where there is no /proc to ask."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(fields[fields.rindex(")") + 2 :].split()[19])
