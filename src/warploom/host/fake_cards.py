"""Scripts fake cards while everything runs: intruders, ghosts, slow drains, lost, blind and hanging cards."""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from warploom.client.processes import identity_of, is_alive
from warploom.domain.hosts import ProcessKind
from warploom.domain.processes import ProcessIdentity
from warploom.domain.xids import MOST_XIDS
from warploom.host.fake_files import fake_folder, fake_instance_uuid, fake_uuid, rack_seed, read_json, write_json

FIRST_INVENTED_PID: Final = 5_000_000
"""Above what Linux gives to processes, so that an invented one is never somebody else's."""
FIRST_LEFT_PID: Final = 10_000_000
"""From here on: the children that processes leave behind."""
MOST_INSTANCES: Final = 7


class FakeFault(StrEnum):
    """What a fake card can be made to suffer."""

    LOST = "lost"
    MISSING = "missing"
    BLIND = "blind"


@dataclass(frozen=True, slots=True)
class FakeProcess:
    """A process that a script puts on a card; one without a pid is given one that no real process has."""

    pid: int | None = None
    started: int | None = None
    """None for a real process, which counts only while it runs and tells its own user, command and lease."""
    user: str | None = "somebody"
    command: str | None = "python other.py"
    memory_mib: int | None = 2048
    kind: ProcessKind = ProcessKind.COMPUTE
    lease: str | None = None
    until: float | None = None
    """The Unix time at which it leaves by itself."""


@dataclass(frozen=True, slots=True)
class FakeXid:
    """A critical error that a card has had, by NVIDIA's number for it, and the Unix time at which."""

    number: int
    at: float


@dataclass(frozen=True, slots=True)
class FakeScript:
    """How one card behaves; the content of `fake/cards/N.json`, in which anything may be left out."""

    processes: list[FakeProcess] = field(default_factory=list[FakeProcess])
    ghost_mib: int = 0
    """Memory that is held by no process."""
    baseline_mib: int = 0
    drain_seconds: float = 0
    """How long a process's memory takes to drain after its end."""
    linger_seconds: float = 0
    """How long a child stays on the card after the end of a process that used it."""
    hanging_seconds: float = 0
    """How long each look at the card takes."""
    fault: FakeFault | None = None
    problem: str | None = None
    utilisation: int | None = None
    index: int | None = None
    instances: int = 0
    """With MIG on, how many instances the card is divided into; what is scripted shows on the first of them."""
    ecc_errors: int = 0
    """Memory errors that could not be corrected; while there are any, whatever starts to use the card fails."""
    xids: list[FakeXid] = field(default_factory=list[FakeXid])
    """Critical errors that nobody was told of yet."""
    not_reported: list[str] = field(default_factory=list[str])
    """Readings that are N/A: any of `NOT_REPORTABLE`."""


NOT_REPORTABLE: Final = ("used_mib", "utilisation", "temperature", "processes", "process_memory", "ecc_errors")


class FakeCards:
    """The fake cards of one home, by number. Each change is a file that is replaced whole, seen at the next survey."""

    def __init__(self, home: Path | str) -> None:
        self.folder = fake_folder(home)

    def uuid(self, card: int) -> str:
        """Return a card's UUID, which never changes."""
        return fake_uuid(rack_seed(self.folder), card)

    def set_count(self, count: int) -> None:
        """Say how many cards there are."""
        rack_seed(self.folder)
        self._note(cards=count)

    def mark_served(self) -> None:
        """Say that this process serves these cards; the provider does so when it starts."""
        us = identity_of(os.getpid())
        self._note(server=None if us is None else asdict(us))

    def count(self) -> int:
        """Return how many cards there are, or were when they were served last; 0 when they never were."""
        return int((read_json(self.folder / "rack.json") or {}).get("cards") or 0)

    def is_served(self) -> bool:
        """Say whether a provider serves these cards now, in this process or another one."""
        server = (read_json(self.folder / "rack.json") or {}).get("server")
        return server is not None and is_alive(ProcessIdentity(server["pid"], server["started"]))

    def instance_uuid(self, card: int, number: int) -> str:
        """Return the UUID of one of a card's MIG instances."""
        return fake_instance_uuid(rack_seed(self.folder), card, number)

    def script(self, card: int) -> FakeScript:
        """Read how a card behaves; raise ValueError when its file makes no sense."""
        try:
            content = (self.folder / "cards" / f"{card}.json").read_bytes()
        except FileNotFoundError:
            return FakeScript()
        return decode_script(content)

    def add_process(self, card: int, process: FakeProcess | None = None) -> int:
        """Put a process on a card, by default somebody else's training with 2 GiB; return its pid."""
        with self._changing(card) as script:
            added = _with_pid(process or FakeProcess(), script.processes)
            others = [each for each in script.processes if each.pid != added.pid and not has_left(each)]
            self._write(card, replace(script, processes=[*others, added]))
        return added.pid or 0

    def add_running(self, card: int, pid: int, memory_mib: int | None = 2048) -> None:
        """Put a real process on a card, for as long as it runs."""
        self.add_process(card, FakeProcess(pid, memory_mib=memory_mib))

    def remove_process(self, card: int, pid: int) -> None:
        """Take a scripted process off a card."""
        with self._changing(card) as script:
            self._write(card, replace(script, processes=[each for each in script.processes if each.pid != pid]))

    def vacate(self, card: int) -> None:
        """Take every scripted process and every ghost off a card."""
        self._change(card, processes=[], ghost_mib=0)

    def set_ghost(self, card: int, memory_mib: int) -> None:
        """Let this much memory be held by no process; 0 frees it."""
        self._change(card, ghost_mib=memory_mib)

    def set_baseline(self, card: int, memory_mib: int) -> None:
        """Set what the card uses by itself."""
        self._change(card, baseline_mib=memory_mib)

    def set_drain(self, card: int, seconds: float) -> None:
        """Let the memory of a process that ends drain over this time, evenly."""
        self._change(card, drain_seconds=seconds)

    def set_linger(self, card: int, seconds: float) -> None:
        """Let a child of each process that ends stay on the card for this long, with the same lease."""
        self._change(card, linger_seconds=seconds)

    def set_hanging(self, card: int, seconds: float) -> None:
        """Let each look at the card take this long; 0 ends it, also for a look that hangs just now."""
        self._change(card, hanging_seconds=seconds)

    def set_lost(self, card: int, *, is_lost: bool = True) -> None:
        """Let the driver say that the card has fallen off the bus."""
        self._change(card, fault=FakeFault.LOST if is_lost else None)

    def set_missing(self, card: int, *, is_missing: bool = True) -> None:
        """Let the driver no longer list the card."""
        self._change(card, fault=FakeFault.MISSING if is_missing else None)

    def set_blind(self, card: int, problem: str | None) -> None:
        """Let the driver fail to read the card, with this sentence; None mends it."""
        self._change(card, fault=None if problem is None else FakeFault.BLIND, problem=problem)

    def find(self, card: int) -> None:
        """Let a card that was lost, missing, blind or hanging be read again."""
        self._change(card, fault=None, problem=None, hanging_seconds=0)

    def set_ecc_errors(self, card: int, count: int) -> None:
        """Let the card have memory errors that could not be corrected; 0 is a repaired card."""
        self._change(card, ecc_errors=count)

    def add_xid(self, card: int, number: int) -> None:
        """Let the card have a critical error, which the provider tells of once."""
        with self._changing(card) as script:
            self._write(card, replace(script, xids=[*script.xids, FakeXid(number, time.time())][-MOST_XIDS:]))

    def forget_xids(self, card: int, told: list[FakeXid]) -> None:
        """Take critical errors away that were told of."""
        with self._changing(card) as script:
            self._write(card, replace(script, xids=[xid for xid in script.xids if xid not in told]))

    def set_instances(self, card: int, count: int) -> None:
        """Turn MIG on with this many instances, or off with 0."""
        self._change(card, instances=count)

    def set_utilisation(self, card: int, percent: int | None) -> None:
        """Fix the card's utilisation; None leaves it to the processes that use the card."""
        self._change(card, utilisation=percent)

    def set_index(self, card: int, index: int | None) -> None:
        """Give the card another index, as a restart of the machine may; None gives its own back."""
        self._change(card, index=index)

    def set_not_reported(self, card: int, *readings: str) -> None:
        """Let these readings (of `NOT_REPORTABLE`) be N/A; none of them reports everything again."""
        wrong = set(readings) - set(NOT_REPORTABLE)
        if wrong:
            raise ValueError(f"{min(wrong)!r} is no reading; there are {', '.join(NOT_REPORTABLE)}")
        self._change(card, not_reported=list(readings))

    def driver_problem(self) -> str | None:
        """Return what ails the driver as a whole, or None."""
        return (read_json(self.folder / "driver.json") or {}).get("problem")

    def set_driver_problem(self, problem: str | None) -> None:
        """Let the driver as a whole fail, with this sentence; None mends it."""
        write_json(self.folder / "driver.json", {"problem": problem})

    def reset(self, card: int) -> None:
        """Let a card behave well again, with no scripted process on it."""
        with self._changing(card):
            self._write(card, FakeScript())

    def _note(self, **facts: object) -> None:
        write_json(self.folder / "rack.json", (read_json(self.folder / "rack.json") or {}) | facts)

    def _change(self, card: int, **fields: Any) -> None:
        with self._changing(card) as script:
            self._write(card, replace(script, **fields))

    @contextmanager
    def _changing(self, card: int) -> Generator[FakeScript]:
        """Hold off other writers while a script is read, changed and written."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.script(card)

    def _write(self, card: int, script: FakeScript) -> None:
        write_json(self.folder / "cards" / f"{card}.json", asdict(script))


def has_left(process: FakeProcess) -> bool:
    """Say whether the time of a process that leaves by itself has come."""
    return process.until is not None and time.time() >= process.until


def decode_script(content: bytes) -> FakeScript:
    """Read a card's file; raise ValueError when it makes no sense."""
    try:
        return msgspec.json.decode(content, type=FakeScript)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


def decode_problem(content: bytes) -> str | None:
    """Read what ails the driver as a whole; a file that makes no sense is a problem too."""
    try:
        return msgspec.json.decode(content, type=_Driver).problem
    except msgspec.DecodeError as error:
        return f"driver.json makes no sense: {error}"


class _Driver(msgspec.Struct):
    problem: str | None = None


def _with_pid(process: FakeProcess, present: list[FakeProcess]) -> FakeProcess:
    if process.pid is not None:
        return process
    pid = max([FIRST_INVENTED_PID - 1, *(each.pid or 0 for each in present)]) + 1
    return replace(process, pid=pid, started=pid)
