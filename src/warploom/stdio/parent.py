"""Finds the client that started this process, and notices when it has ended."""

import os
import select
from collections.abc import Sequence
from pathlib import Path

from warploom.client.processes import ancestors_of, command_of, identity_of, is_alive
from warploom.domain.processes import ProcessIdentity

_LAUNCHERS = frozenset(
    ("uv", "uvx", "pipx", "poetry", "pdm", "hatch", "rye", "pixi", "conda", "mamba", "npx", "timeout")
)
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "fish", "ksh"))
_LOOK_SECONDS = 1.0


def lifeline() -> list[ProcessIdentity]:
    """Return the processes that this one must not outlive: its parent, and last of all the client behind it.

    A launcher in between (`uvx`, a shell script) is not the client: commands that an agent runs descend from
    the client, not from the launcher, so only the client's identity joins them to the session.
    """
    chain = ancestors_of(os.getpid())
    if not chain:
        parent = identity_of(os.getppid())
        return [] if parent is None else [parent]
    launchers = next((n for n, step in enumerate(chain) if not _is_launcher(command_of(step.pid))), 0)
    return chain[: launchers + 1]


def wait_for_end(processes: Sequence[ProcessIdentity]) -> None:
    """Block until one of the processes has ended; returns at once when there are none or one is gone already."""
    poll = select.poll()
    for process in processes:
        _watch(poll, process.pid)
    while processes and all(map(is_alive, processes)):
        poll.poll(_LOOK_SECONDS * 1000)


def _watch(poll: "select.poll", pid: int) -> None:
    """Have the poll end with the process, where the system can tell (Linux); elsewhere its time limit does."""
    if not hasattr(os, "pidfd_open"):
        return
    try:
        poll.register(os.pidfd_open(pid), select.POLLIN)
    except OSError:
        return


def _is_launcher(command: Sequence[str]) -> bool:
    names = [Path(argument).name for argument in command[:2]]
    if any(name in _LAUNCHERS for name in names):
        return True
    return bool(names) and names[0] in _SHELLS and _runs_something(command[1:])


def _runs_something(arguments: Sequence[str]) -> bool:
    """Say whether a shell was given a script or a command; one that a person types into has options at most."""
    return any(not argument.startswith("-") for argument in arguments)
