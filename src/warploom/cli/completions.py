"""Completion markers at work: written where no server can be reached, and told later, each exactly once."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from warploom.cli.output import note, present
from warploom.cli.reach import Reach
from warploom.client.connection import Client
from warploom.client.holdings import server_of
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
"""What keeps a server from hearing something at all; whatever else it answers, it has heard and decided."""


class Outcome(StrEnum):
    """What became of a marker."""

    WAITING = "waiting"
    APPLIED = "applied"
    LEASE_LOST = "lease_lost"
    REFUSED = "refused"
    KEPT = "kept"
    ELSEWHERE = "elsewhere"
    UNREADABLE = "unreadable"


_SETTLED: Final = (Outcome.APPLIED, Outcome.LEASE_LOST, Outcome.REFUSED)


@dataclass(frozen=True, slots=True)
class Written:
    """What a command answers that could reach nobody: where it wrote down how the task ended."""

    task: str
    lease: str
    verb: Verb
    state: str
    path: str
    cause: str
    next: str


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


def write_down(reach: Reach, marker: Marker, error: WarploomError, *, as_json: bool) -> None:
    """Write a marker and say so."""
    path = Completions(reach.settings.home).write(marker)
    following = "`warploom scan --execute`, or the next `warploom done` that gets through, tells it to the server."
    answer = Written(marker.task, marker.lease, marker.verb, "written_down", str(path), error.cause, following)
    lines = [
        f"{'written':<8}{marker.task} {marker.verb.value} ({marker.lease}), on this machine: {error.cause}",
        f"{'next':<8}{following}",
    ]
    present(answer, lines, as_json=as_json)


def settle_beside(reach: Reach) -> None:
    """Tell what was written down earlier, after a command that got through; whatever fails has its turn again."""
    for line in scan_markers(reach, execute=True):
        if line.outcome in _SETTLED:
            note(f"{line.outcome.value}  {line.task} {line.verb} ({line.lease}), as written down: {line.text}")


def scan_markers(reach: Reach, *, execute: bool) -> list[MarkerLine]:
    """List the markers of this home; with `execute` tell each to its server and say what became of it.

    Where the server cannot be reached the rest keep waiting. A marker that another process tells at this moment is left
    out.
    """
    completions = Completions(reach.settings.home)
    lines: list[MarkerLine] = []
    for found in completions.waiting():
        line = _settle(reach, completions, found) if execute else _line(found, *_prospect(reach, found))
        if line is not None:
            lines.append(line)
            execute = execute and line.outcome is not Outcome.WAITING
    return lines


def _prospect(reach: Reach, found: Found) -> tuple[Outcome, str]:
    if found.marker is None:
        return Outcome.UNREADABLE, f"{found.fault}; it is left as it is"
    if found.marker.server != server_of(reach.settings):
        return Outcome.ELSEWHERE, f"it is for {found.marker.server}; scan again with WARPLOOM_URL naming that"
    return Outcome.WAITING, "to be told to the server"


def _settle(reach: Reach, completions: Completions, found: Found) -> MarkerLine | None:
    """Tell one marker and archive it. Dying in between is harmless: the server takes the same ending twice."""
    outcome, text = _prospect(reach, found)
    marker = found.marker
    if outcome is not Outcome.WAITING or marker is None:
        return _line(found, outcome, text)
    with completions.taken(found) as is_ours:
        if not is_ours:
            return None
        outcome, text = _told(reach, marker)
        if outcome in _SETTLED:
            completions.settle(found, outcome.value, text)
    return _line(found, outcome, text)


def _told(reach: Reach, marker: Marker) -> tuple[Outcome, str]:
    try:
        answer = tell(reach.client, marker)
    except UNREACHED as error:
        return Outcome.WAITING, error.cause
    except LeaseLost as error:
        return Outcome.LEASE_LOST, f"{error.cause} Nothing was changed."
    except (NotAllowed, NotYours) as error:
        return Outcome.KEPT, str(error)
    except WarploomError as error:
        return Outcome.REFUSED, error.cause
    return Outcome.APPLIED, f"{answer.task} is {answer.state.value}"


def _line(found: Found, outcome: Outcome, text: str) -> MarkerLine:
    path, marker = str(found.path), found.marker
    if marker is None:
        return MarkerLine(Path(path).name, "", "", None, None, outcome, text, path)
    return MarkerLine(
        marker.task, marker.lease, marker.verb.value, marker.agent, marker.written_at, outcome, text, path
    )
