"""Error texts that speak of broken hardware are told from those of a program's own mistakes."""

import time

import pytest

from warploom.domain.signatures import find_signature

ECC = "a memory error that could not be corrected"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", ECC),
        ("torch.AcceleratorError: CUDA error:\n  uncorrectable  ECC error encountered\nCompile with ...", ECC),
        ("cudaErrorECCUncorrectable: uncorrectable ECC error", ECC),
        ("CUDA_ERROR_ECC_UNCORRECTABLE", ECC),
        ("failed with CUDA error 214", ECC),
        ("CUDA error (code 214)", ECC),
        ("A double bit ECC error was found", ECC),
        ("hipErrorECCNotCorrectable", ECC),
        ("amdgpu: uncorrectable hardware errors detected in umc block", ECC),
        ("NVRM: GPU at PCI:0000:3b:00: GPU has fallen off the bus.", "the card has fallen off the bus"),
        (
            "Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost.  Reboot the system",
            "the card is lost",
        ),
        ("NVML_ERROR_GPU_IS_LOST", "the card is lost"),
        ("NVRM: Xid (PCI:0000:10:1c): 79, pid='<unknown>', name=<unknown>", "Xid 79"),
        ("it printed Xid 13 and then Xid: 48", "Xid 48"),
        ("uncorrectable NVLink error detected during the execution", "an NVLink error that could not be corrected"),
        ("CUDA_ERROR_NVLINK_UNCORRECTABLE", "an NVLink error that could not be corrected"),
    ],
)
def test_what_only_broken_hardware_says_is_certain(text: str, words: str) -> None:
    """Casebook C08."""
    found = find_signature(text)
    assert found is not None
    assert (found.words, found.is_certain) == (words, True)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
        "CUDA-capable device(s) is/are busy or unavailable",
        "cudaErrorDevicesUnavailable",
        "RuntimeError: No CUDA-capable device is detected",
        "HIP error: no ROCm-capable device is detected",
        "CUDA error: initialization error",
    ],
)
def test_what_may_also_come_of_how_a_program_was_started_is_not_certain(text: str) -> None:
    found = find_signature(text)
    assert found is not None
    assert not found.is_certain


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Traceback (most recent call last)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB",
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: device-side assert triggered",
        "CUDA error: unspecified launch failure",
        "CUDA error: misaligned address",
        "CUDA error: invalid device ordinal",
        "CUDA error code 2141",
        "214 tests failed",
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, MMU Fault",
        "Xid 13 and Xid 43",
        "0 uncorrectable ECC errors",
        "no uncorrectable ECC errors were found",
        "Uncorrectable ECC errors: 0",
        "Double bit ECC errors: 0",
        "ECC is disabled on this card",
        "NVLink is not supported between these cards",
        "the bus was late; the child fell off its chair",
        "the weights initialization error was 0.3",
        "the connection is lost",
        "HIP out of memory",
    ],
)
def test_a_programs_own_mistake_is_no_signature(text: str) -> None:
    """Casebook C07: too little memory and bad addresses are never held against the card."""
    assert find_signature(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "xid (" * 200_000,
        "xid " * 200_000,
        "cuda error" + " " * 1_000_000,
        "cuda error:::" * 100_000,
        "uncorrectable ecc error 0 " * 50_000,
        "no " * 300_000 + "ecc",
    ],
)
def test_a_hostile_text_takes_no_longer_than_its_beginning(text: str) -> None:
    began = time.process_time()
    find_signature(text)
    assert time.process_time() - began < 1
