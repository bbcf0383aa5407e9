"""`warploom recover` and `scan`: putting right what crashes and outages left behind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer

from warploom.cli.answers import clock, tell_notices
from warploom.cli.columns import table, terminal_width
from warploom.cli.completions import scan_markers
from warploom.cli.exits import Exit
from warploom.cli.options import Json
from warploom.cli.output import present
from warploom.cli.reach import Reach
from warploom.client.completions import MarkerLine, Outcome
from warploom.domain.errors import Unreachable
from warploom.domain.repairs import MEANINGS, RecoveryLine, RecoveryWord

app = typer.Typer(rich_markup_mode=None)

Execute = Annotated[bool, typer.Option("--execute/--dry-run", help="Do it, or change nothing.")]
_WORDS = "\n\n\b\nHow a claimed task is found:\n" + "\n".join(f"  {word:<14} {text}" for word, text in MEANINGS.items())


@dataclass(frozen=True, slots=True)
class ScanAnswer:
    """Every completion marker of this machine, and what became of it or would."""

    markers: list[MarkerLine]
    next: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """Markers first, then every claimed task as the server found it."""

    markers: list[MarkerLine]
    lines: list[RecoveryLine]
    next: str
    notices: list[str] = field(default_factory=list[str])


@app.command(epilog="Example: warploom scan --execute")
def scan(execute: Execute = False, as_json: Json = False) -> int:
    """List completions that were written down, and tell them.

    What `warploom done` and `fail` wrote down while no server could be reached; --execute tells it. Each is told
    once, under the lease it was written with. One whose lease was lost meanwhile changes nothing. What was told is
    kept in completions/applied/ of Warploom's home, with what became of it.
    """
    markers = scan_markers(Reach(as_operator=True), execute=execute)
    answer = ScanAnswer(markers, _next(markers, execute=execute))
    rows = [[line.task, line.lease, line.verb, *_middle(line), line.outcome.value, line.text] for line in markers]
    present(answer, [*table(rows, 5, terminal_width()), answer.next], as_json=as_json)
    return Exit.UNREACHABLE if execute and _unreached(markers) else Exit.DONE


@app.command(epilog="Example: warploom recover --execute" + _WORDS)
def recover(execute: Execute = False, as_json: Json = False) -> int:
    """Say how every claimed task is, and put right what can be.

    Nothing is changed without --execute. First what `warploom scan` lists, then what the server knows. The table is
    the same with and without --execute.
    """
    reach = Reach(as_operator=True)
    answer = reach.call(lambda client: client.recover(execute=False))
    markers = scan_markers(reach, execute=execute)
    if execute and _unreached(markers):
        raise Unreachable("The server went away while completions were told to it.", "Run it again when it is back.")
    if execute:
        answer = reach.call(lambda client: client.recover(execute=True))
    marked = {line.lease for line in markers if line.outcome in (Outcome.WAITING, Outcome.APPLIED)}
    lines = [*map(_as_found, markers), *(line for line in answer.lines if line.lease not in marked)]
    is_open = not execute and any(line.action != "none" for line in lines)
    following = "Nothing was changed; `warploom recover --execute` does what stands here." if is_open else answer.next
    present(Recovered(markers, lines, following, answer.notices), [*_table(lines), following], as_json=as_json)
    tell_notices(answer.notices, as_json=as_json)
    return Exit.DONE


def _middle(line: MarkerLine) -> list[str]:
    return [line.agent or "", f"written {clock(line.written_at)}" if line.written_at else ""]


def _next(markers: Sequence[MarkerLine], *, execute: bool) -> str:
    if not markers:
        return "No completion is written down on this machine that was not told."
    if execute:
        return (
            "The rest waits for the server; scan again." if _unreached(markers) else "All that could be told is told."
        )
    return "Nothing was changed; `warploom scan --execute` tells them to the server."


def _unreached(markers: Sequence[MarkerLine]) -> bool:
    return any(line.outcome is Outcome.WAITING for line in markers)


def _as_found(marker: MarkerLine) -> RecoveryLine:
    when = f", written down {clock(marker.written_at)}" if marker.written_at else ""
    return RecoveryLine(
        task=marker.task,
        title="",
        agent=marker.agent or "",
        lease=marker.lease,
        word=RecoveryWord.MARKER,
        text=f"{marker.verb}{when}: {marker.text}",
        action="apply" if marker.outcome in (Outcome.WAITING, Outcome.APPLIED) else "none",
        done=marker.outcome is Outcome.APPLIED,
    )


def _table(lines: Sequence[RecoveryLine]) -> list[str]:
    rows = [[each.task, each.word.value, each.lease, each.agent, each.title, _act(each), each.text] for each in lines]
    return table(rows, 4, terminal_width()) if rows else ["No task is claimed, and no completion is written down."]


def _act(line: RecoveryLine) -> str:
    past = {"apply": "applied", "reset": "reset", "none": "left alone"}
    future = {"apply": "to apply", "reset": "to reset", "none": "left alone"}
    return (past if line.done else future).get(line.action, line.action)
