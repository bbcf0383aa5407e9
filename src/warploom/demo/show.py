"""A whole demo: sets the stage, has the play performed, tells it, tidies up and makes sure that nothing is left."""

import contextlib
import queue
import signal
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from warploom.demo.cast import performers
from warploom.demo.faults import Faults
from warploom.demo.happenings import Happening, Kind, now
from warploom.demo.outcomes import DemoFailed, Outcome
from warploom.demo.play import PARTS, Play
from warploom.demo.stage import Stage
from warploom.demo.telling import Teller
from warploom.domain.errors import WarploomError
from warploom.host.fake_scenarios import Scenario

_ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Show:
    """A demo that went well. `home` is there only when it was to be kept."""

    outcome: Outcome
    told: Sequence[Happening]
    began: float
    seconds: float
    home: Path | None


def run(*, keep: bool, is_quiet: bool, scenario: Scenario | None = None) -> Show:
    """Do it all, with a scenario on the cards if there is one; KeyboardInterrupt when asked to end.

    Raise WarploomError, with where the logs are, for whatever fails. Either way the stack is stopped and every process of
    it has ended, or the error names it.
    """
    teller = Teller(is_quiet=is_quiet)
    with _at_an_ending(_interrupt):
        teller.open()
        stage = Stage(has_faults=scenario is not None)
        try:
            outcome = _performed(stage, teller, scenario)
        except KeyboardInterrupt:
            teller.hear(now("demo", Kind.STACK, "is interrupted and tidies up"))
            _strike(stage, teller, keep=keep)
            raise
        except (DemoFailed, WarploomError) as error:
            _strike(stage, teller, keep=True)
            cause = error.cause if isinstance(error, WarploomError) else f"{error}."
            raise WarploomError(f"The demo failed: {cause}", f"The logs are kept in {stage.logs}.") from error
        except BaseException:
            _strike(stage, teller, keep=True)
            raise
        _strike(stage, teller, keep=keep)
        teller.close(outcome)
        seconds = time.monotonic() - teller.began
        return Show(outcome, teller.told, teller.began, seconds, stage.home if keep else None)


def _performed(stage: Stage, teller: Teller, scenario: Scenario | None) -> Outcome:
    heard: queue.Queue[Happening] = queue.Queue()
    faults = None if scenario is None else Faults(scenario, stage.home, heard.put)
    try:
        with performers(PARTS, stage, heard.put) as (first, second):
            url = _opened(stage, teller)
            play = Play(url, heard, teller, faults)
            with contextlib.closing(play):
                return play.perform(first, second)
    finally:
        teller.tell(everything=True)


def _opened(stage: Stage, teller: Teller) -> str:
    """Start the stack, tell of it, and return the server's address."""

    def note(text: str) -> None:
        teller.hear(now("stack", Kind.STACK, text))
        teller.tell(everything=True)

    url = stage.open(note).url
    note(f"the server is at {url}, the home is {stage.home}")
    note("each agent starts `warploom mcp` and opens an MCP session over stdio")
    return url


def _strike(stage: Stage, teller: Teller, *, keep: bool) -> None:
    """Stop the stack, prove that nothing is left running, and remove the home unless it is to be kept."""
    with _at_an_ending(_go_on):
        left = stage.close()
        if left:
            raise WarploomError(
                f"The demo left {len(left)} processes running: {'; '.join(left)}.",
                f"The logs are kept in {stage.logs}.",
            )
        if not keep:
            stage.remove()
        fate = f"the home is kept: {stage.home}" if keep else "the throw-away home is removed"
        teller.hear(now("stack", Kind.SWEPT, f"is stopped; nothing is left running; {fate}"))
        teller.tell(everything=True)


@contextlib.contextmanager
def _at_an_ending(act: Callable[[int, FrameType | None], None]) -> Generator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP all do the same thing, except those that we were started to ignore."""
    heeded = [number for number in _ENDINGS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, act) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the demo once; whoever presses Ctrl-C again cannot hurry the tidying up, which takes seconds."""
    del number, frame
    for heeded in _ENDINGS:
        if signal.getsignal(heeded) is _interrupt:
            signal.signal(heeded, _go_on)
    raise KeyboardInterrupt


def _go_on(_number: int, _frame: FrameType | None) -> None:
    """Let a signal pass, because what it asks for is being done."""
