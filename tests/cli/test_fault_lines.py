"""Reading from what a job prints whether it speaks of broken hardware."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.cli.faults import FaultReader

ECC = b"RuntimeError: CUDA error: uncorrectable ECC error encountered"


def read(*pieces: bytes) -> str | None:
    reader = FaultReader()
    for piece in pieces:
        reader.feed(piece)
    return reader.line


def test_the_last_such_line_is_kept() -> None:
    assert read(b"one\n" + ECC + b"\nGPU is lost\ntwo\n") == "GPU is lost"


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_a_line_counts_also_when_nothing_follows_it(ending: bytes) -> None:
    assert read(b"one\n", ECC + ending) == ECC.decode()


@given(st.lists(st.integers(0, len(ECC)), max_size=5))
def test_it_is_found_wherever_the_output_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(ECC)]
    assert read(*[ECC[start:end] for start, end in pairwise(places)]) == ECC.decode()


@pytest.mark.parametrize("output", [b"", b"\xff\x00\n", b"CUDA out of memory\n", b"ecc: on\n", b"x" * 1_000_000])
def test_everything_else_is_passed_by(output: bytes) -> None:
    assert read(output, output) is None


def test_a_very_long_line_is_read_from_its_end() -> None:
    line = read(b"x " * 500_000 + ECC)
    assert line is not None
    assert line.endswith("uncorrectable ECC error encountered")
    assert len(line) <= 300
