"""Lets a process use a fake card as a training script uses a real one: it shows up there until it ends.

Standard library only, so that a script that imports it starts fast.
"""

import contextlib
import os
from pathlib import Path
from types import TracebackType

from warploom.host.fake_files import fake_folder, fake_uuid, rack_seed, read_json, write_json


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
    `utilisation` in percent is that of a busy card when left out. Raises RuntimeError when no such device is visible.
    """
    folder = fake_folder(os.environ.get("WARPLOOM_HOME") or "~/.warploom")
    uuid = _visible(folder, device)
    pid = os.getpid()
    path = folder / "contexts" / f"{pid}-{device}.json"
    content = {"pid": pid, "started": _started(), "uuid": uuid, "memory_mib": memory_mib, "utilisation": utilisation}
    write_json(path, content)
    return FakeContext(uuid, path)


def _visible(folder: Path, device: int) -> str:
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = _cards(folder)
    visible = cards if mask is None else _masked(cards, mask)
    if not 0 <= device < len(visible):
        shown = "is not set" if mask is None else f"is {mask!r}"
        raise RuntimeError(
            f"no fake card {device} is visible: {folder} has {len(cards)}, and CUDA_VISIBLE_DEVICES {shown}"
        )
    return visible[device]


def _cards(folder: Path) -> list[str]:
    """Return the UUIDs of the cards by index, which a script of the provider may have shuffled."""
    rack = read_json(folder / "rack.json") or {}
    seed, count = rack_seed(folder), int(rack.get("cards") or 0)
    scripts = [read_json(folder / "cards" / f"{card}.json") or {} for card in range(count)]
    places = [card if script.get("index") is None else script["index"] for card, script in enumerate(scripts)]
    return [fake_uuid(seed, card) for card in sorted(range(count), key=lambda card: places[card])]


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
