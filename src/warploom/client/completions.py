"""Tells servers what completion markers say: each exactly once, and never under another lease."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from warploom.client.connection import Client
from warploom.client.markers import Completions, Found, Marker, Verb
from warploom.domain.claims import StepAnswer
from warploom.domain.errors import (
    Busy,
    LeaseLost,
    NotAllowed,
    NotYours,
    SchemaMismatch,
    Unreachable,
    WarploomError,
)

UNREACHED: Final = (Unreachable, Busy, SchemaMismatch)
"""What keeps a server from hearing something at all; whatever else it refuses, it has heard and decided."""


class Outcome(StrEnum):
    """What became of a marker."""

    WAITING = "waiting"
    APPLIED = "applied"
    LEASE_LOST = "lease_lost"
    REFUSED = "refused"
    KEPT = "kept"
    ELSEWHERE = "elsewhere"
    UNREADABLE = "unreadable"


SETTLED: Final = (Outcome.APPLIED, Outcome.LEASE_LOST, Outcome.REFUSED)
"""The outcomes with which a marker goes into the archive."""


@dataclass(frozen=True, slots=True)
class MarkerLine:
    """One marker, and what became of it or would."""

    task: str
    lease: str
    verb: str
    agent: str | None
    written_at: datetime | None
    outcome: Outcome
    text: str
    path: str


def tell(client: Client, marker: Marker) -> StepAnswer:
    """Tell a server how a task ended, under the lease that the marker names."""
    lease = marker.lease or None
    if marker.verb is Verb.DONE:
        return client.done(marker.task, lease, marker.output, marker.branch)
    return client.fail(marker.task, marker.reason or "", marker.failure, lease)


class Teller:
    """Tells the markers of one home to one server; `connect` gives a way to it, or raises Unreachable."""

    def __init__(self, home: Path, server: str, connect: Callable[[], Client]) -> None:
        self._completions = Completions(home)
        self._server = server
        self._connect = connect

    def scan(self, *, execute: bool) -> list[MarkerLine]:
        """List the markers; with `execute` tell each and say what became of it.

        Where the server cannot be reached the rest keep waiting. A marker that another process tells at this moment is
        left out.
        """
        lines: list[MarkerLine] = []
        for found in self._completions.waiting():
            line = self._settle(found) if execute else _line(found, *self._prospect(found))
            if line is not None:
                lines.append(line)
                execute = execute and line.outcome is not Outcome.WAITING
        return lines

    def _prospect(self, found: Found) -> tuple[Outcome, str]:
        if found.marker is None:
            return Outcome.UNREADABLE, f"{found.fault}; it is left as it is"
        if found.marker.server != self._server:
            return Outcome.ELSEWHERE, f"it is for {found.marker.server}; scan again with WARPLOOM_URL naming that"
        return Outcome.WAITING, "to be told to the server"

    def _settle(self, found: Found) -> MarkerLine | None:
        """Tell one marker and archive it. Dying in between is harmless: the server takes the same ending twice."""
        outcome, text = self._prospect(found)
        marker = found.marker
        if outcome is not Outcome.WAITING or marker is None:
            return _line(found, outcome, text)
        with self._completions.taken(found) as is_ours:
            if not is_ours:
                return None
            outcome, text = self._tell(marker)
            if outcome in SETTLED:
                self._completions.settle(found, outcome.value, text)
        return _line(found, outcome, text)

    def _tell(self, marker: Marker) -> tuple[Outcome, str]:
        try:
            answer = tell(self._connect(), marker)
        except UNREACHED as error:
            return Outcome.WAITING, error.cause
        except LeaseLost as error:
            return Outcome.LEASE_LOST, f"{error.cause} Nothing was changed."
        except (NotAllowed, NotYours) as error:
            return Outcome.KEPT, str(error)
        except WarploomError as error:
            is_fault = error.code == WarploomError.code  # the server broke, and decided nothing
            return (Outcome.KEPT, str(error)) if is_fault else (Outcome.REFUSED, error.cause)
        return Outcome.APPLIED, f"{answer.task} is {answer.state.value}"


def _line(found: Found, outcome: Outcome, text: str) -> MarkerLine:
    path, marker = str(found.path), found.marker
    if marker is None:
        return MarkerLine(Path(path).name, "", "", None, None, outcome, text, path)
    return MarkerLine(
        marker.task, marker.lease, marker.verb.value, marker.agent, marker.written_at, outcome, text, path
    )
