"""Processes: which one is meant, even after its number was given to another."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that cannot be taken for another: its number and its start, in clock ticks since the host's boot."""

    pid: int
    started: int
