"""A probe through CUDA's driver, on a stand-in for its library that has the library's functions and errors."""

# ruff: noqa: N802  (the stand-in has the library's names)

import ctypes
import json
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from warploom.host.cuda_probe import probe
from warploom.host.fake import FakeProbe
from warploom.host.fake_cards import FakeCards
from warploom.host.probe import Proof
from warploom.host.processes import ProcessBook
from warploom.host.proofs import Prover

NAMES = {
    2: (b"CUDA_ERROR_OUT_OF_MEMORY", b"out of memory"),
    100: (b"CUDA_ERROR_NO_DEVICE", b"no CUDA-capable device is detected"),
    214: (b"CUDA_ERROR_ECC_UNCORRECTABLE", b"uncorrectable ECC error encountered"),
    803: (b"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", b"system has unsupported display driver / cuda driver combination"),
}


class Cuda:
    """A card with memory; `errors` are the numbers that functions return instead of doing something."""

    def __init__(self, count: int = 1, flips: int = 0, **errors: int) -> None:
        self.count = count
        self.flips = flips
        self.errors = errors
        self.memory = b""
        self.open: list[str] = []

    def _answer(self, name: str) -> int:
        return self.errors.get(name, 0)

    def cuInit(self, flags: Any) -> int:
        return self._answer("cuInit")

    def cuDeviceGetCount(self, found: Any) -> int:
        found._obj.value = self.count
        return self._answer("cuDeviceGetCount")

    def cuDeviceGet(self, card: Any, number: Any) -> int:
        return self._answer("cuDeviceGet")

    def cuDevicePrimaryCtxRetain(self, context: Any, card: Any) -> int:
        context._obj.value = 7
        self.open.append("context")
        return self._answer("cuDevicePrimaryCtxRetain")

    def cuCtxSetCurrent(self, context: Any) -> int:
        return self._answer("cuCtxSetCurrent")

    def cuDevicePrimaryCtxRelease_v2(self, card: Any) -> int:
        self.open.remove("context")
        return 0

    def cuMemAlloc_v2(self, place: Any, size: Any) -> int:
        if not self._answer("cuMemAlloc_v2"):
            place._obj.value = 2**40
            self.open.append("memory")
        return self._answer("cuMemAlloc_v2")

    def cuMemFree_v2(self, place: Any) -> int:
        self.open.remove("memory")
        return 0

    def cuMemcpyHtoD_v2(self, place: Any, source: Any, size: Any) -> int:
        self.memory = (
            source.value if source.value and len(source.value) == size.value else ctypes.string_at(source, size.value)
        )
        return self._answer("cuMemcpyHtoD_v2")

    def cuMemcpyDtoH_v2(self, target: Any, place: Any, size: Any) -> int:
        flipped = bytes(byte ^ 1 for byte in self.memory[: self.flips]) + self.memory[self.flips :]
        ctypes.memmove(target, flipped, size.value)
        return self._answer("cuMemcpyDtoH_v2")

    def cuGetErrorName(self, number: Any, name: Any) -> int:
        name._obj.value = NAMES.get(number.value, (None, None))[0]
        return 0

    def cuGetErrorString(self, number: Any, words: Any) -> int:
        words._obj.value = NAMES.get(number.value, (None, None))[1]
        return 0


def test_a_card_that_gives_back_what_was_written_passes_and_is_left_as_it_was() -> None:
    cuda = Cuda()
    assert probe(cuda) == (True, "32 MiB were copied to its memory and back unchanged")
    assert cuda.open == []


def test_a_byte_that_comes_back_changed_fails_it() -> None:
    cuda = Cuda(flips=3)
    assert probe(cuda) == (False, "6 of 33554432 bytes came back from its memory changed")
    assert cuda.open == []


@pytest.mark.parametrize(
    ("errors", "answer"),
    [
        (
            {"cuDevicePrimaryCtxRetain": 214},
            (False, "CUDA_ERROR_ECC_UNCORRECTABLE (uncorrectable ECC error encountered) while making a context"),
        ),
        (
            {"cuMemcpyDtoH_v2": 719},
            (False, "CUDA error 719 while copying from the card"),
        ),
        (
            {"cuMemAlloc_v2": 2},
            (
                None,
                "CUDA_ERROR_OUT_OF_MEMORY (out of memory) while allocating memory: "
                "the card has no memory left for a probe of 16 MiB",
            ),
        ),
        (
            {"cuInit": 803},
            (
                None,
                "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (system has unsupported display driver / cuda driver combination) "
                "while initialising",
            ),
        ),
        (
            {"cuInit": 100},
            (False, "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected) while initialising"),
        ),
    ],
    ids=["memory errors", "an error without a name", "no memory left", "another driver", "no card"],
)
def test_cuda_s_own_names_say_what_failed(errors: dict[str, int], answer: tuple[bool | None, str]) -> None:
    assert probe(Cuda(**errors)) == answer


def test_a_card_that_cuda_does_not_see_fails() -> None:
    assert probe(Cuda(count=0)) == (False, "CUDA does not see the card")


class TestProver:
    def prover(self, script: str, seconds: float = 30) -> Prover:
        return Prover((sys.executable, "-c", script), timedelta(seconds=seconds))

    def test_the_card_is_the_only_one_that_the_probe_sees(self) -> None:
        script = "import json, os; print(json.dumps({'passed': True, 'text': os.environ['CUDA_VISIBLE_DEVICES']}))"
        assert self.prover(script).prove("GPU-1") == Proof(True, "GPU-1")

    def test_one_that_does_not_answer_is_given_up_with_all_it_started(self) -> None:
        prover = self.prover("import time; time.sleep(600)", seconds=0.2)
        assert prover.prove("GPU-1") == Proof(False, "CUDA did not answer within 0.2 s")
        assert prover.pids == frozenset()

    def test_one_that_crashes_in_the_driver_fails_the_card(self) -> None:
        script = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
        assert self.prover(script).prove("GPU-1") == Proof(False, "the probe was ended by SIGSEGV")

    def test_one_that_could_not_run_says_nothing_of_the_card(self) -> None:
        assert self.prover("raise SystemExit('no such thing')").prove("GPU-1") == Proof(
            None, "the probe ended with 1: no such thing"
        )

    def test_the_program_itself_answers_in_one_line_whatever_the_machine_has(self) -> None:
        command = [sys.executable, "-P", "-m", "warploom.host.cuda_probe"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env={"CUDA_VISIBLE_DEVICES": "GPU-none"}
        )
        answer = json.loads(done.stdout)
        assert answer["passed"] is not True
        assert len(done.stdout.splitlines()) == 1
        assert answer["text"]


class TestFakeCards:
    def test_one_without_a_fault_passes(self, probe_of: FakeProbe, fakes: FakeCards) -> None:
        assert probe_of.prove(fakes.uuid(1)).passed is True

    def test_one_with_memory_errors_or_a_fault_fails_until_that_is_mended(
        self, probe_of: FakeProbe, fakes: FakeCards
    ) -> None:
        fakes.set_ecc_errors(0, 1)
        assert probe_of.prove(fakes.uuid(0)).passed is False
        fakes.set_ecc_errors(0, 0)
        assert probe_of.prove(fakes.uuid(0)).passed is True
        for fail in (fakes.set_lost, fakes.set_missing):
            fail(0)
            assert probe_of.prove(fakes.uuid(0)).passed is False
        fakes.set_blind(0, "it cannot be read")
        assert probe_of.prove(fakes.uuid(0)) == Proof(False, "it cannot be read")
        fakes.find(0)
        assert probe_of.prove(fakes.uuid(0)).passed is True

    def test_one_that_hangs_fails_within_the_deadline(self, probe_of: FakeProbe, fakes: FakeCards) -> None:
        fakes.set_hanging(0, 600)
        assert probe_of.prove(fakes.uuid(0)) == Proof(False, "the card did not answer within 0.2 s")
        fakes.find(0)

    def test_an_instance_is_probed_by_its_own_uuid_and_a_card_that_is_not_there_fails(
        self, probe_of: FakeProbe, fakes: FakeCards
    ) -> None:
        fakes.set_instances(0, 2)
        assert probe_of.prove(fakes.instance_uuid(0, 1)).passed is True
        assert probe_of.prove(fakes.uuid(0)) == Proof(False, "there is no such card")


@pytest.fixture
def fakes(tmp_path: Any) -> FakeCards:
    return FakeCards(tmp_path)


@pytest.fixture
def probe_of(fakes: FakeCards) -> FakeProbe:
    return FakeProbe(fakes, 2, ProcessBook(), timedelta(seconds=0.2))
