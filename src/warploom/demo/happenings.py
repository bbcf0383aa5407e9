"""What happens in a demo: moments that agents, their jobs and the event log tell of, with their place in time."""

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec


class Kind(StrEnum):
    """What kind of moment it is."""

    STACK = "stack"
    CONNECTED = "agent.connected"
    SURVEYED = "agent.surveyed"
    GRANTED = "agent.granted"
    QUEUED = "agent.queued"
    WAITS = "agent.waits"
    WOKEN = "agent.woken"
    WAITED = "agent.waited"
    TRAINS = "agent.trains"
    PROGRESS = "job.progress"
    TRAINED = "agent.trained"
    RELEASES = "agent.releases"
    RELEASED = "agent.released"
    LEFT = "agent.left"
    FAILED = "agent.failed"
    ESTIMATE = "estimate"
    EVENT = "event"
    RACK = "rack"
    SWEPT = "swept"


@dataclass(frozen=True, slots=True)
class Happening:
    """One moment. `clock` is in monotonic seconds, which all processes of a machine read from the same clock."""

    clock: float
    who: str
    kind: Kind
    text: str
    facts: dict[str, Any] = field(default_factory=dict[str, Any])


def now(who: str, kind: Kind, text: str, **facts: Any) -> Happening:
    """Return what happens at this very moment."""
    return Happening(time.monotonic(), who, kind, text, facts)


def encode(happening: Happening) -> bytes:
    """Write a happening as one line."""
    return msgspec.json.encode(happening) + b"\n"


def decode(line: bytes) -> Happening:
    """Read such a line; raise msgspec.DecodeError on any other."""
    return msgspec.json.decode(line, type=Happening)
