"""What commands do with completion markers: write one down and say so, and tell those that wait."""

from dataclasses import dataclass

from warploom.cli.output import note, present
from warploom.cli.reach import Reach
from warploom.client.completions import SETTLED, MarkerLine, Teller
from warploom.client.holdings import server_of
from warploom.client.markers import Completions, Marker, Verb
from warploom.domain.errors import WarploomError


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
        if line.outcome in SETTLED:
            note(f"{line.outcome.value}  {line.task} {line.verb} ({line.lease}), as written down: {line.text}")


def scan_markers(reach: Reach, *, execute: bool) -> list[MarkerLine]:
    """List the markers of this home; with `execute` tell each to its server and say what became of it."""
    settings = reach.settings
    return Teller(settings.home, server_of(settings), lambda: reach.client).scan(execute=execute)
