"""The exit codes of every command, so that scripts and agents can tell one ending from another."""

from enum import IntEnum

from warploom.domain.errors import Busy, LeaseLost, SchemaMismatch, Unreachable, WarploomError


class Exit(IntEnum):
    """How a command ended; `MEANINGS` has one sentence for each."""

    DONE = 0
    BAD = 1
    USAGE = 2
    REFUSED = 3
    ENDED = 4
    TIMED_OUT = 5
    UNREACHABLE = 6
    NOTHING = 7
    INTERRUPTED = 130


MEANINGS: dict[Exit, str] = {
    Exit.DONE: "granted, or done",
    Exit.BAD: "doctor or a probe found something bad, or Warploom itself failed",
    Exit.USAGE: "the command line could not be read",
    Exit.REFUSED: "refused, at least in part: impossible, not found, malformed or not allowed",
    Exit.ENDED: "over: the lease or ticket ended, lapsed or is parked, or a task that was waited for was given up",
    Exit.TIMED_OUT: "the time given with --timeout passed; the place in the queue is kept",
    Exit.UNREACHABLE: "the stack could not be reached",
    Exit.NOTHING: "there is nothing to claim now",
    Exit.INTERRUPTED: "stopped by Ctrl-C",
}


def exit_for(error: WarploomError) -> Exit:
    """Return the code that a refusal ends a command with."""
    if isinstance(error, Unreachable | Busy | SchemaMismatch):
        return Exit.UNREACHABLE
    return Exit.ENDED if isinstance(error, LeaseLost) else Exit.REFUSED


def table() -> str:
    """Write the codes as the lines that end the help of commands which have several."""
    return "\n\n\b\nExit codes:\n" + "\n".join(f"  {code.value:<3} {meaning}" for code, meaning in MEANINGS.items())
