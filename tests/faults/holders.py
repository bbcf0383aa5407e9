"""Holders: real processes that use fake cards with a lease's exports, and whatever they leave behind."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from faults.truth import Truth
from warploom.client.processes import identity_of, is_alive
from warploom.domain.processes import ProcessIdentity

SOURCE = Path(__file__).parents[2] / "src"
START_SECONDS = 20.0
LIFE_SECONDS = 3600

SCRIPT = f"""
import os, signal, sys
from warploom.host.fake_context import occupy
signal.alarm({LIFE_SECONDS})
def use():
    mask = os.environ["CUDA_VISIBLE_DEVICES"]
    used = [occupy(memory_mib=9_000, device=device).uuid for device in range(len(mask.split(",")))]
    print(os.getpid(), ",".join(used), flush=True)
use()
if sys.argv[1] == "child" and os.fork() == 0:
    signal.alarm({LIFE_SECONDS})
    use()
    signal.pause()
sys.stdin.read()
"""
"""Uses the cards it is given until its input ends; a child that it may leave behind uses them until it is killed."""


@dataclass(slots=True)
class Member:
    """One process of a holder: which it is, and the spells that it means."""

    process: ProcessIdentity
    spells: list[int]


@dataclass(slots=True)
class Holder:
    """A process that was started with a lease, and its child if it has one."""

    lease: str
    main: "subprocess.Popen[bytes]"
    members: list[Member] = field(default_factory=list[Member])

    def is_there(self) -> bool:
        """Say whether any of its processes still runs."""
        return any(is_alive(member.process) for member in self.members)


def start_holder(truth: Truth, lease: str, environment: Mapping[str, str], *, has_child: bool = False) -> Holder | None:
    """Start a holder and wait until it uses its cards; None when it cannot use them and has ended."""
    command = [sys.executable, "-S", "-c", SCRIPT, "child" if has_child else "alone"]
    variables = {**environment, "PYTHONPATH": str(SOURCE)}
    main = subprocess.Popen(
        command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )
    holder = Holder(lease, main)
    for _ in range(2 if has_child else 1):
        line = _line(main)
        pid, _, cards = line.partition(" ")
        process = identity_of(int(pid)) if pid else None
        if process is not None:
            spells = [truth.open(card, f"process {pid} of {lease}", lease) for card in cards.split(",")]
            holder.members.append(Member(process, spells))
    if not holder.members:
        end_holder(truth, holder)
        return None
    return holder


def end_holder(truth: Truth, holder: Holder, *, politely: bool = False, spare_child: bool = False) -> None:
    """End a holder: let it come to its end, or kill it; a child may stay."""
    first, rest = holder.members[:1], holder.members[1:]
    _close(truth, first)
    if politely and holder.main.stdin is not None:
        holder.main.stdin.close()
    else:
        holder.main.kill()
    holder.main.wait(START_SECONDS)
    for pipe in (holder.main.stdin, holder.main.stdout):
        if pipe is not None:
            pipe.close()
    holder.members = rest
    if not spare_child:
        end_child(truth, holder)


def end_child(truth: Truth, holder: Holder) -> None:
    """Kill what is left of a holder."""
    _close(truth, holder.members)
    for member in holder.members:
        if is_alive(member.process):
            with suppress(ProcessLookupError):
                os.kill(member.process.pid, signal.SIGKILL)
    holder.members = []


def _close(truth: Truth, members: list[Member]) -> None:
    truth.close(number for member in members for number in member.spells)


def _line(main: "subprocess.Popen[bytes]") -> str:
    assert main.stdout is not None
    ready, _, _ = select.select([main.stdout], [], [], START_SECONDS)
    line = b""
    while ready and not line.endswith(b"\n"):
        piece = main.stdout.read(1)
        if not piece:
            break
        line += piece
    return line.decode().strip()
