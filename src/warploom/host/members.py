"""Finds every process of a lease on this machine: by the lease in its environment, by descent, by group and by control group."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

from warploom.client.processes import ancestors_of, command_of, identity_of
from warploom.domain.errands import KillOrder
from warploom.domain.processes import ProcessIdentity
from warploom.host.processes import lease_of

_OWN_MODULES: Final = ("warploom.server", "warploom.host", "warploom.embedded.daemon", "warploom.stdio")
_LOOKED_AT: Final = 6
_OWN_COMMANDS: Final = ("serve", "host", "daemon", "orchestrate", "mcp", "up")


@dataclass(frozen=True, slots=True)
class Seen:
    """A running process as one look at the machine found it."""

    identity: ProcessIdentity
    parent: int
    group: int
    lease: str | None
    """The lease in its environment, where that may be read."""
    control_group: str


def look_around() -> dict[int, Seen]:
    """Look at every running process once; those that end meanwhile are left out."""
    found = (_seen(pid) for pid in psutil.pids())
    return {each.identity.pid: each for each in found if each is not None}


def members_of(order: KillOrder, seen: dict[int, Seen]) -> list[Seen]:
    """Return the processes that belong to the lease of an order and to nothing else, parents before their children.

    Never among them: process 1, this host agent and what it descends from, Warploom's own programs, the processes to be
    spared, and what names another lease, unless the survey saw that on the card. What merely descends from a spared process
    that was itself started under the lease has its environment, and proves nothing by it.
    """
    untouchable = untouchable_of(order, seen)
    recorded = {each.pid for each in order.processes if each.pid in seen and seen[each.pid].identity == each}
    others = {pid for pid, each in seen.items() if each.lease not in (None, order.lease)}
    outside = untouchable | (others - recorded)
    named = {pid for pid, each in seen.items() if each.lease == order.lease and not _is_inherited(pid, order, seen)}
    found = (recorded | named | _in_own_control_group(order.lease, seen)) - outside
    while True:
        wider = _with_children(found, outside, seen)
        wider |= _with_groups(wider, outside, seen)
        if wider == found:
            return sorted((seen[pid] for pid in found), key=lambda each: (each.identity.started, each.identity.pid))
        found = wider


def untouchable_of(order: KillOrder, seen: dict[int, Seen]) -> set[int]:
    """Return the processes that no order may touch."""
    us = os.getpid()
    spared = {each.pid for each in order.spared if each.pid in seen and seen[each.pid].identity == each}
    own = {pid for pid in seen if is_warploom(command_of(pid))}
    return {1, us} | {each.pid for each in ancestors_of(us)} | spared | own


def is_warploom(arguments: list[str]) -> bool:
    """Say whether a command line is that of one of Warploom's own lasting programs."""
    first = [Path(each).name for each in arguments[:_LOOKED_AT]]
    pairs = pairwise(first)
    return "warploom-mcp" in first[:2] or any(
        (one == "-m" and other.startswith(_OWN_MODULES)) or (one == "warploom" and other in _OWN_COMMANDS)
        for one, other in pairs
    )


def _is_inherited(pid: int, order: KillOrder, seen: dict[int, Seen]) -> bool:
    """Say whether a process has the lease from a spared one that was started under it: that one's whole work would be meant."""
    spared = set(order.spared)
    return any(step.identity in spared and step.lease == order.lease for step in _line_of(pid, seen))


def _line_of(pid: int, seen: dict[int, Seen]) -> Iterator[Seen]:
    """Walk from a process to its parents, as far as they are seen."""
    passed: set[int] = set()
    while pid in seen and pid not in passed:
        passed.add(pid)
        yield seen[pid]
        pid = seen[pid].parent


def _with_children(found: set[int], outside: set[int], seen: dict[int, Seen]) -> set[int]:
    """Add what descends from these, without what is outside and what descends from that."""
    children: dict[int, list[int]] = {}
    for pid, each in seen.items():
        children.setdefault(each.parent, []).append(pid)
    reached, rest = set(found), list(found)
    while rest:
        new = [pid for pid in children.get(rest.pop(), []) if pid not in reached and pid not in outside]
        reached.update(new)
        rest.extend(new)
    return reached


def _with_groups(found: set[int], outside: set[int], seen: dict[int, Seen]) -> set[int]:
    """Return the rest of each process group that one of these leads, where nothing else is in it."""
    groups: dict[int, set[int]] = {}
    for pid, each in seen.items():
        groups.setdefault(each.group, set()).add(pid)
    led = (group for leader, group in groups.items() if leader in found)
    return {pid for group in led if not group & outside for pid in group}


def _in_own_control_group(lease: str, seen: dict[int, Seen]) -> set[int]:
    """Return what runs in a control group that is named for the lease, such as `warploom-L-42.scope`."""
    names = {f"warploom-{lease}{kind}" for kind in ("", ".scope", ".service")}
    return {pid for pid, each in seen.items() if names.intersection(each.control_group.split("/"))}


def _seen(pid: int) -> Seen | None:
    identity = identity_of(pid)
    if identity is None:
        return None
    try:
        found = Seen(identity, psutil.Process(pid).ppid(), os.getpgid(pid), lease_of(pid), _control_group(pid))
    except (psutil.Error, OSError):
        return None
    return found if identity_of(pid) == identity else None


def _control_group(pid: int) -> str:
    """Return the path of a process's control group (version 2); empty where there is none."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.partition("::")[2] for line in lines if line.startswith("0::")), "")
    return ""
