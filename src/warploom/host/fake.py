"""A provider of fake cards that behave as they are told to: every rule for real cards is tried on them."""

import threading
import time
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from warploom.domain.hosts import CardFact, CardFault, ProcessFact
from warploom.domain.instances import INSTANCES_FROM
from warploom.host.fake_cards import (
    FakeCards,
    FakeFault,
    FakeProcess,
    FakeScript,
    FakeXid,
    decode_problem,
    decode_script,
    has_left,
)
from warploom.host.fake_uses import Contexts, Ending, Files, Use
from warploom.host.guard import Guard, reason_of
from warploom.host.probe import Proof, Provider, Reading
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
        cards.mark_served()
        self._cards = cards
        self._folder = cards.folder
        self._uuids = [cards.uuid(card) for card in range(count)]
        self._driver = Files(decode_problem)
        self._scripts = Files(decode_script)
        self._contexts = Contexts(cards.folder / "contexts", book)
        self._book = book
        self._guard = Guard(deadline)
        self._prover = Guard(deadline)
        self._told: dict[int, list[FakeXid]] = {}

    def describe(self) -> Provider:
        """Name the provider, which is always there."""
        return Provider("fake", "fake")

    def read(self) -> Reading:
        """Look at every card."""
        problem = self._driver.read(self._folder / "driver.json")
        if problem is not None:
            return Reading([], problem)
        self._forget_told()
        scripts = [self._script(card) for card in range(len(self._uuids))]
        bare = [self._bare(card, script) for card, script in enumerate(scripts)]
        endings = {
            fact.uuid: Ending(script.linger_seconds, script.drain_seconds)
            for facts, script in zip(bare, scripts, strict=True)
            for fact in facts
        }
        uses = self._contexts.uses(endings)
        present = [card for card, script in enumerate(scripts) if script.fault is not FakeFault.MISSING]
        calls = {f"card {card}": partial(self._read, card, scripts[card], bare[card], uses) for card in present}
        answers = self._guard.run(calls).values()
        told = [_answered(bare[card], answer) for card, answer in zip(present, answers, strict=True)]
        self._told = {card: scripts[card].xids for card in present if scripts[card].xids}
        return Reading(
            [
                replace(fact, xids=[xid.number for xid in scripts[card].xids])
                for card, facts in zip(present, told, strict=True)
                for fact in facts
            ]
        )

    def _forget_told(self) -> None:
        """Take what the last look told of out of the files: an agent that was killed since tells it once more."""
        for card, xids in self._told.items():
            self._cards.forget_xids(card, xids)

    def prove(self, uuid: str) -> Proof:
        """Fail while the card has memory errors or any other fault, as a use of it would."""
        card = next((card for card in range(len(self._uuids)) if uuid in self._names(card)), None)
        if card is None:
            return Proof(False, "there is no such card")
        answer = self._prover.run({f"proof of {uuid}": partial(self._prove, card)}).popitem()[1]
        if isinstance(answer, Exception):
            return Proof(False, f"the card did not answer within {self._prover.deadline.total_seconds():g} s")
        return answer

    def _prove(self, card: int) -> Proof:
        self._hang(card)
        script = self._script(card)
        if script.ecc_errors:
            return Proof(
                False, "CUDA_ERROR_ECC_UNCORRECTABLE (uncorrectable ECC error encountered) while making a context"
            )
        if script.fault is not None:
            return Proof(False, script.problem or f"the card is {script.fault.value}")
        return Proof(True, "a fake card that has no fault")

    def _names(self, card: int) -> list[str]:
        instances = range(self._script(card).instances)
        return [self._cards.instance_uuid(card, number) for number in instances] or [self._uuids[card]]

    def _script(self, card: int) -> FakeScript:
        path = self._folder / "cards" / f"{card}.json"
        try:
            return self._scripts.read(path) or FakeScript()
        except ValueError as error:
            return FakeScript(fault=FakeFault.BLIND, problem=f"cards/{card}.json makes no sense: {error}")

    def _read(self, card: int, script: FakeScript, bare: list[CardFact], uses: dict[str, Use]) -> list[CardFact]:
        self._hang(card)
        if script.fault is FakeFault.LOST:
            return _faulty(bare, CardFault.LOST, "it has fallen off the bus")
        if script.fault is FakeFault.BLIND:
            return _faulty(bare, CardFault.BLIND, script.problem or "the driver cannot read it")
        first, *others = bare
        scripted = self._scripted(script)
        return [
            _told(first, script, uses[first.uuid], [*uses[first.uuid].processes, *scripted]),
            *(_told(fact, _without_use(script), uses[fact.uuid], uses[fact.uuid].processes) for fact in others),
        ]

    def _hang(self, card: int) -> None:
        started_at = time.monotonic()
        while time.monotonic() - started_at < self._script(card).hanging_seconds:
            threading.Event().wait(_SLICE_SECONDS)

    def _bare(self, card: int, script: FakeScript) -> list[CardFact]:
        """Return the card, or with MIG on its instances in its place, as the driver of a real one lists them."""
        index, count = card if script.index is None else script.index, script.instances
        whole = CardFact(self._uuids[card], index, MODEL, MEMORY_MIB, f"00000000:{index + 1:02X}:00.0")
        return [
            replace(
                whole,
                uuid=self._cards.instance_uuid(card, number),
                index=(index + 1) * INSTANCES_FROM + number,
                model=f"{MODEL} MIG",
                memory_mib=MEMORY_MIB // count,
                parent_uuid=whole.uuid,
            )
            for number in range(count)
        ] or [whole]

    def _scripted(self, script: FakeScript) -> list[ProcessFact]:
        facts = [self._scripted_process(process) for process in script.processes]
        return [fact for fact in facts if fact is not None]

    def _scripted_process(self, process: FakeProcess) -> ProcessFact | None:
        pid = process.pid or 0
        if has_left(process):
            return None
        if process.started is None:
            return self._book.fact(pid, process.kind, process.memory_mib)
        return ProcessFact(
            pid, process.started, process.kind, process.user, process.command, process.memory_mib, process.lease
        )


def _answered(bare: list[CardFact], answer: list[CardFact] | Exception) -> list[CardFact]:
    return _faulty(bare, CardFault.BLIND, reason_of(answer)) if isinstance(answer, Exception) else answer


def _faulty(bare: list[CardFact], fault: CardFault, problem: str) -> list[CardFact]:
    return [faulty(fact, fault, problem) for fact in bare]


def _without_use(script: FakeScript) -> FakeScript:
    return replace(script, processes=[], ghost_mib=0, baseline_mib=0)


def _told(bare: CardFact, script: FakeScript, use: Use, processes: list[ProcessFact]) -> CardFact:
    held = sum(process.memory_mib or 0 for process in processes)
    utilisation = use.utilisation if script.utilisation is None else script.utilisation
    full = replace(
        bare,
        used_mib=min(bare.memory_mib, script.baseline_mib + script.ghost_mib + use.draining_mib + held),
        utilisation=utilisation,
        temperature=30 + utilisation * 2 // 5,
        ecc_errors=script.ecc_errors,
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
        ecc_errors=None if "ecc_errors" in silent else full.ecc_errors,
        processes=[] if "processes" in silent else full.processes,
        hides_processes="processes" in silent,
    )
