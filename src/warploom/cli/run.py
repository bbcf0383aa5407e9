"""`warploom run`: asks for a card, waits for it, runs a command on it, gives it back."""

import os
import re
import shutil
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from warploom.cli.answers import queue_lines
from warploom.cli.enclosed import NO_CARD, find_enclosing, run_enclosed
from warploom.cli.exits import table
from warploom.cli.jobs import Job, Streams
from warploom.cli.options import Cards, Device, EnvStyle, Json, MemoryGib, Minutes, Model, Priority, Purpose
from warploom.cli.output import as_json_line, note
from warploom.cli.progress import Progress
from warploom.cli.relay import Relay
from warploom.cli.signals import Signals, Stopped
from warploom.cli.vigil import Vigil
from warploom.cli.waits import await_card
from warploom.cli.ways import Way
from warploom.client.holder import HolderClient
from warploom.client.processes import identity_of
from warploom.domain.errors import Impossible, LeaseLost, WarploomError
from warploom.domain.failures import FailureClass
from warploom.domain.grants import grant_lines
from warploom.domain.standings import Standing, TicketAnswer, Wish
from warploom.domain.texts import spoken_duration, spoken_list, spoken_memory

app = typer.Typer(rich_markup_mode=None)

_PATIENCE_SECONDS = 600.0
_RELEASE_PATIENCE_SECONDS = 30.0
_WORTH_TELLING_SECONDS = 1.0
_NOT_FOUND, _NOT_RUNNABLE = 127, 126
_SIGNALLED = 128
_MASKS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "WARPLOOM_LEASE")
_HINT = "Ctrl-C leaves the queue, nothing else"


@app.command(
    epilog="Example: warploom run --card 0 --minutes 20 -- python eval.py --seed 3" + table() + "\n"
    "  Once the command has started, its own exit status is returned, 128 + n when signal n ended it;\n"
    "  127 and 126 mean, as in a shell, that it was not found or cannot be run.",
    context_settings={"allow_interspersed_args": False},
)
def run(
    command: Annotated[list[str], typer.Argument(help="The command and its arguments, after --.", metavar="COMMAND")],
    device: Device = "any",
    cards: Cards = 1,
    memory_gib: MemoryGib = None,
    model: Model = None,
    minutes: Minutes = None,
    priority: Priority = "p2",
    env_style: EnvStyle = "uuid",
    purpose: Purpose = None,
    title: Annotated[str | None, typer.Option("--title", help="What it is called in queues.", metavar="TEXT")] = None,
    progress: Annotated[bool, typer.Option(help="Read steps from the output, for estimates.")] = True,
    as_json: Json = False,
) -> int:
    """Run a command on a card, waiting for the card first.

    Asks for the card, waits, runs the command, gives the card back and returns the command's exit status. What Warploom
    itself says goes to stderr; stdout is the command's alone. While it waits, Ctrl-C leaves the queue and does nothing
    else. If this process is killed, the command goes on, and the card stays its own until it ends.

    In a shell that has a lease already, a command that asks for cards of that lease runs on them at once. With --card none
    it runs without a lease and sees no card at all.
    """
    job = title or _title(command)
    key = purpose or _own_purpose()
    wish = Wish(job, device, cards, memory_gib, model, minutes, priority, env_style, key)
    if shutil.which(command[0]) is None:
        return _cannot_start(command[0], FileNotFoundError())
    if device.strip().lower() == "none":
        return _run_enclosed(command, NO_CARD)
    way = Way(HolderClient)
    enclosing = find_enclosing(way, wish)
    if enclosing is not None:
        note(f"running on {spoken_list(enclosing.cards)}, which this shell has with {enclosing.lease} already")
        return _run_enclosed(command, enclosing.export or {})
    asked = CardRun(way, command, reads_progress=progress, as_json=as_json)
    return asked.run(wish, is_shared=purpose is not None)


def _run_enclosed(command: Sequence[str], environment: dict[str, str]) -> int:
    try:
        return run_enclosed(command, environment)
    except OSError as error:
        return _cannot_start(command[0], error)


class CardRun:
    """One command on one lease, from the request to the release."""

    def __init__(self, way: Way[HolderClient], command: Sequence[str], *, reads_progress: bool, as_json: bool) -> None:
        self._way = way
        self._command = command
        self._reads_progress = reads_progress
        self._is_due_told = False
        self._as_json = as_json
        self._fault: str | None = None

    def run(self, wish: Wish, *, is_shared: bool) -> int:
        """Do it all and return the exit status. `is_shared`: another run may have asked for the same purpose."""
        with Signals() as signals:
            try:
                answer = self._way.call(lambda client: client.request(wish))
                if is_shared:
                    _refuse_running_twin(answer)
                return self._run_granted(self._obtain(answer, signals), signals)
            except Stopped as stop:
                return 128 + stop.number

    def _obtain(self, answer: TicketAnswer, signals: Signals) -> TicketAnswer:
        """Wait for an accepted lease. When a signal or a refusal ends the waiting, leave the queue."""
        began = time.monotonic()
        try:
            if answer.state is Standing.QUEUED:
                self._tell("queued", answer, *queue_lines(answer))
            granted = self._accepted(answer, signals)
            told = [_granted_line(granted, time.monotonic() - began), granted.export_note]
            self._tell("granted", granted, *filter(None, told))
            signals.hold()
        except BaseException as reason:
            self._leave(answer.ticket, reason)
            raise
        return granted

    def _accepted(self, answer: TicketAnswer, signals: Signals) -> TicketAnswer:
        """Wait and accept, again when an offer lapsed meanwhile; raise LeaseLost when the ticket is over."""
        ticket = answer.ticket
        while True:
            if answer.state is Standing.QUEUED:
                with _spinner(signals, is_quiet=self._as_json):
                    answer = await_card(self._way, ticket, None, _PATIENCE_SECONDS, quiet=True)
            if answer.lease is None or not grant_lines(answer):
                reason = f": {answer.reason}" if answer.reason else ""
                raise LeaseLost(f"{ticket} is {answer.state.value}{reason}.", answer.next)
            if answer.state is Standing.ACTIVE or self._accept(answer.lease):
                return answer
            answer = self._way.insist(lambda client: client.explain(ticket), _PATIENCE_SECONDS)

    def _accept(self, lease: str) -> bool:
        with suppress(LeaseLost):
            self._way.insist(lambda client: client.accept(lease), _PATIENCE_SECONDS)
            return True
        return False

    def _leave(self, ticket: str, reason: BaseException) -> None:
        try:
            self._way.client.leave(ticket)
        except WarploomError as error:
            note(f"{ticket} could not be taken out of its queue: {error.cause} An offer to it lapses by itself.")
            return
        if isinstance(reason, Stopped):
            self._tell("left", {"ticket": ticket}, f"left    {ticket}: out of the queue, and nothing was run")

    def _run_granted(self, answer: TicketAnswer, signals: Signals) -> int:
        """Run the command and release, whatever happens; only kill -9 leaves the release to the job's own end."""
        lease = answer.lease or ""
        vigil = Vigil(self._way, lease)
        began = time.monotonic()
        code: int | None = None
        try:
            code = self._run_command(answer, vigil, signals)
            return code
        finally:
            vigil.stop()
            signals.stop_us()
            self._release(_Ending(lease, time.monotonic() - began, vigil.peak_mib, code, self._fault))

    def _run_command(self, answer: TicketAnswer, vigil: Vigil, signals: Signals) -> int:
        relay = self._relay(answer.lease or "")
        try:
            job = Job(self._command, self._environment(answer), relay.streams if relay else Streams())
        except OSError as error:
            return _cannot_start(self._command[0], error)
        finally:
            if relay:
                relay.close_entries()
        vigil.start()
        code = job.wait(signals)
        if relay:
            self._fault = relay.drain()
        return code

    def _relay(self, lease: str) -> Relay | None:
        if not self._reads_progress:
            return None
        self._way.client.close()  # the relay is a fork, and must not share a connection

        def send(progress: Progress) -> None:
            answer = self._way.client.report(lease, progress.step, progress.total)
            if answer.should_release and not self._is_due_told:
                self._is_due_told = True
                note(answer.next)

        return Relay(send)

    def _environment(self, answer: TicketAnswer) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _MASKS}
        where = {"WARPLOOM_HOME": str(self._way.settings.home), "WARPLOOM_URL": self._way.client.url}
        return kept | where | (answer.export or {})

    def _release(self, ending: "_Ending") -> None:
        try:
            self._way.insist(lambda client: client.release(ending.lease, *ending.failure()), _RELEASE_PATIENCE_SECONDS)
        except LeaseLost as error:
            note(f"{ending.lease} was over before the command was: {error.cause}")
        except WarploomError as error:
            note(f"{ending.lease} could not be released: {error.cause} It ends by itself now that its command has.")
        except Stopped:
            note(f"{ending.lease} was not released; it ends by itself now that its command has.")
        else:
            self._tell("released", ending, ending.line())

    def _tell(self, event: str, value: Any, *lines: str) -> None:
        """Say something on stderr, as one JSON object where that was asked for."""
        if self._as_json:
            note(as_json_line({"event": event, **msgspec.to_builtins(value)}))
            return
        for line in lines:
            note(line)


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a run came out."""

    lease: str
    seconds: float
    peak_mib: int | None
    exit: int | None
    fault: str | None = None
    """The last line of its output that speaks of broken hardware, where its output was read."""

    def failure(self) -> tuple[str | None, str | None]:
        """Return how the command failed and of which class that is; neither when it ended well."""
        if self.exit == 0:
            return None, None
        if self.exit is None or self.exit > _SIGNALLED:
            return f"it was stopped after {_spoken(self.seconds)}", FailureClass.INTERRUPTED.value
        if self.exit in (_NOT_FOUND, _NOT_RUNNABLE):
            return "it could not be started", FailureClass.USER_ERROR.value
        told = f": {self.fault}" if self.fault else ""
        return f"exit status {self.exit} after {_spoken(self.seconds)}{told}", None

    def line(self) -> str:
        peak = f" · peak {spoken_memory(self.peak_mib)}" if self.peak_mib else ""
        code = f" · exit {self.exit}" if self.exit is not None else ""
        return f"released {self.lease} · ran {_spoken(self.seconds)}{peak}{code}"


@contextmanager
def _spinner(signals: Signals, *, is_quiet: bool) -> Generator[None]:
    """Show on a terminal that the waiting goes on and for how long; elsewhere say it once."""
    if is_quiet:
        yield
        return
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        note(f"waiting   {_HINT}")
        yield
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [TextColumn("waiting"), SpinnerColumn(), TimeElapsedColumn(), TextColumn(f"  {_HINT}")]
    bar = Bar(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    bar.add_task("", total=None)
    try:
        with signals.put_off():
            bar.start()
        yield
    finally:
        with signals.put_off():
            bar.stop()


def _granted_line(answer: TicketAnswer, seconds: float) -> str:
    waited = f" after {_spoken(seconds)}" if seconds >= _WORTH_TELLING_SECONDS else ""
    mask = (answer.export or {}).get("CUDA_VISIBLE_DEVICES", "")
    return f"granted {answer.lease} on {spoken_list(answer.cards)}{waited}   CUDA_VISIBLE_DEVICES={mask}"


def _refuse_running_twin(answer: TicketAnswer) -> None:
    if answer.deduplicated and answer.state is Standing.ACTIVE:
        raise Impossible(
            f"A command for this purpose already runs as {answer.lease} on {spoken_list(answer.cards)}.",
            "Wait until it ends, or use another --purpose.",
        )


def _cannot_start(program: str, error: OSError) -> int:
    missing = isinstance(error, FileNotFoundError)
    why = "was not found, or is not a program" if missing else f"cannot be run: {error.strerror}"
    note(f"{program[:80]!r} {why}. Check the command after --; no card was used.")
    return _NOT_FOUND if missing else _NOT_RUNNABLE


def _title(command: Sequence[str]) -> str:
    """Name a command by its program and its first plain argument; the rest may hold what is not for everybody."""
    plain = [part for part in command[1:] if part and not part.startswith("-") and not re.search(r"\s", part)][:1]
    return " ".join(Path(part).name or part for part in [command[0], *plain])[:120]


def _own_purpose() -> str:
    """A purpose that no other run shares, and that stays the same when a request has to be sent twice."""
    identity = identity_of(os.getpid())
    return f"run {os.getpid()}:{identity.started if identity else time.time_ns()}"


def _spoken(seconds: float) -> str:
    return spoken_duration(timedelta(seconds=seconds))
