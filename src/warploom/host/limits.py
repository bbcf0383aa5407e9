"""Finds out once what a host agent cannot know on the machine that it runs on."""

import os
import sys
from pathlib import Path
from typing import Final

from warploom.domain.limits import Limit

_HOSTS_NUMBERS: Final = "pid:[4026531836]"
"""The name that Linux gives to the first namespace of process numbers, and to no other."""
_MARKS: Final = (".dockerenv", "run/.containerenv")
_GROUPS: Final = ("docker", "kubepods", "containerd", "libpod", "lxc")
_TRACE: Final = 1 << 19
_EVERY_USER: Final = ["0", "0", "4294967295"]
_TOPOLOGY: Final = "sys/class/kfd/kfd/topology/nodes"


def find_limits(root: Path = Path("/"), platform: str = sys.platform) -> list[Limit]:
    """Look around under `root`, which is that of the file system but for tests."""
    if platform != "linux":
        return [Limit.APPLE] if platform == "darwin" else []
    may_trace = _may_trace(root)
    found = {
        Limit.WSL: _is_wsl(root),
        Limit.CONTAINER: _has_own_numbers(root),
        Limit.OTHER_USERS: not may_trace,
        Limit.HIDDEN_PROCESSES: not may_trace and _hides_processes(root),
        Limit.NO_PROC: not (root / "proc/self/stat").exists(),
        Limit.AMD_CARDS: _has_amd_cards(root),
    }
    return [limit for limit, holds in found.items() if holds]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _is_wsl(root: Path) -> bool:
    return "microsoft" in _text(root / "proc/sys/kernel/osrelease").lower()


def _has_own_numbers(root: Path) -> bool:
    """A container may share the host's process numbers; WSL gives each of its systems numbers of its own."""
    try:
        numbers = str((root / "proc/self/ns/pid").readlink())
    except OSError:
        numbers = None
    if numbers == _HOSTS_NUMBERS:
        return False
    group = _text(root / "proc/1/cgroup")
    is_marked = any((root / mark).exists() for mark in _MARKS) or any(name in group for name in _GROUPS)
    return is_marked or (numbers is not None and not _is_wsl(root))


def _may_trace(root: Path) -> bool:
    """Say whether other users' environments can be read: with that capability, and not only among the users of a container."""
    status = dict(line.split(":", 1) for line in _text(root / "proc/self/status").splitlines() if ":" in line)
    users = _text(root / "proc/self/uid_map").split()
    return int(status.get("CapEff", "0").strip() or "0", 16) & _TRACE != 0 and users in ([], _EVERY_USER)


def _hides_processes(root: Path) -> bool:
    mounts = [line.split() for line in _text(root / "proc/self/mounts").splitlines()]
    options = [fields[3].split(",") for fields in mounts if len(fields) > 3 and fields[1] == "/proc"]
    given = {name: value for option in options[-1:] for name, _, value in (each.partition("=") for each in option)}
    is_let_in = given.get("gid", "") in map(str, os.getgroups())
    return given.get("hidepid", "0") not in ("0", "off") and not is_let_in


def _has_amd_cards(root: Path) -> bool:
    """The compute driver lists processors, too; only what computes on many lanes is a card."""
    nodes = list((root / _TOPOLOGY).glob("*/properties"))
    if not nodes:
        return (root / "dev/kfd").exists()
    counts = [line.split() for node in nodes for line in _text(node).splitlines() if line.startswith("simd_count ")]
    return any(len(fields) == 2 and fields[1] != "0" for fields in counts)
