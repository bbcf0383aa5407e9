"""A provider of fake cards that behave as they are told to: every rule for real cards is tried on them."""

import threading
import time
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from warploom.domain.hosts import CardFact, CardFault, ProcessFact
from warploom.host.fake_cards import FakeCards, FakeFault, FakeProcess, FakeScript, decode_problem, decode_script
from warploom.host.fake_uses import Contexts, Files, Use
from warploom.host.guard import Guard, reason_of
from warploom.host.probe import Provider, Reading
from warploom.host.processes import ProcessBook
from warploom.host.roster import faulty

MODEL: Final = "FAKE-H200"
MEMORY_MIB: Final = 141 * 1024
DEADLINE: Final = timedelta(seconds=1)
_SLICE_SECONDS: Final = 0.05


class FakeProbe:
    """The fake cards of one home. All of its state is in files that are looked at anew in every survey."""

    def __init__(self, cards: FakeCards, count: int, book: ProcessBook, deadline: timedelta = DEADLINE) -> None:
        cards.set_count(count)
        self._folder = cards.folder
        self._uuids = [cards.uuid(card) for card in range(count)]
        self._driver = Files(decode_problem)
        self._scripts = Files(decode_script)
        self._contexts = Contexts(cards.folder / "contexts", book)
        self._book = book
        self._guard = Guard(deadline)

    def describe(self) -> Provider:
        """Name the provider, which is always there."""
        return Provider("fake", "fake")

    def read(self) -> Reading:
        """Look at every card."""
        problem = self._driver.read(self._folder / "driver.json")
        if problem is not None:
            return Reading([], problem)
        scripts = [self._script(card) for card in range(len(self._uuids))]
        drains = {uuid: script.drain_seconds for uuid, script in zip(self._uuids, scripts, strict=True)}
        uses = self._contexts.uses(drains)
        present = [card for card, script in enumerate(scripts) if script.fault is not FakeFault.MISSING]
        calls = {f"card {card}": partial(self._read, card, scripts[card], uses[self._uuids[card]]) for card in present}
        answers = self._guard.run(calls).values()
        cards = [self._answered(card, scripts[card], answer) for card, answer in zip(present, answers, strict=True)]
        return Reading(cards)

    def _script(self, card: int) -> FakeScript:
        path = self._folder / "cards" / f"{card}.json"
        try:
            return self._scripts.read(path) or FakeScript()
        except ValueError as error:
            return FakeScript(fault=FakeFault.BLIND, problem=f"cards/{card}.json makes no sense: {error}")

    def _read(self, card: int, script: FakeScript, use: Use) -> CardFact:
        self._hang(card)
        bare = self._bare(card, script)
        if script.fault is FakeFault.LOST:
            return faulty(bare, CardFault.LOST, "it has fallen off the bus")
        if script.fault is FakeFault.BLIND:
            return faulty(bare, CardFault.BLIND, script.problem or "the driver cannot read it")
        return _told(bare, script, use, [*use.processes, *self._scripted(script)])

    def _hang(self, card: int) -> None:
        started_at = time.monotonic()
        while time.monotonic() - started_at < self._script(card).hanging_seconds:
            threading.Event().wait(_SLICE_SECONDS)

    def _answered(self, card: int, script: FakeScript, answer: CardFact | Exception) -> CardFact:
        if isinstance(answer, CardFact):
            return answer
        return faulty(self._bare(card, script), CardFault.BLIND, reason_of(answer))

    def _bare(self, card: int, script: FakeScript) -> CardFact:
        index = card if script.index is None else script.index
        return CardFact(self._uuids[card], index, MODEL, MEMORY_MIB, f"00000000:{index + 1:02X}:00.0")

    def _scripted(self, script: FakeScript) -> list[ProcessFact]:
        facts = [self._scripted_process(process) for process in script.processes]
        return [fact for fact in facts if fact is not None]

    def _scripted_process(self, process: FakeProcess) -> ProcessFact | None:
        pid = process.pid or 0
        if process.started is None:
            return self._book.fact(pid, process.kind, process.memory_mib)
        return ProcessFact(
            pid, process.started, process.kind, process.user, process.command, process.memory_mib, process.lease
        )


def _told(bare: CardFact, script: FakeScript, use: Use, processes: list[ProcessFact]) -> CardFact:
    held = sum(process.memory_mib or 0 for process in processes)
    utilisation = use.utilisation if script.utilisation is None else script.utilisation
    full = replace(
        bare,
        used_mib=min(MEMORY_MIB, script.baseline_mib + script.ghost_mib + use.draining_mib + held),
        utilisation=utilisation,
        temperature=30 + utilisation * 2 // 5,
        processes=processes,
    )
    silent = set(script.not_reported)
    if "process_memory" in silent:
        full = replace(full, processes=[replace(process, memory_mib=None) for process in processes])
    return replace(
        full,
        used_mib=None if "used_mib" in silent else full.used_mib,
        utilisation=None if "utilisation" in silent else utilisation,
        temperature=None if "temperature" in silent else full.temperature,
        processes=[] if "processes" in silent else full.processes,
    )
