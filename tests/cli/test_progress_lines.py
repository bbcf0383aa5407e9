"""Reading how far a job is from what it prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.cli.progress import Progress, ProgressReader


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"step 120/3000\n", Progress(120, 3000)),
        (b"[INFO] Step: 120 / 3,000 loss=0.3\n", Progress(120, 3000)),
        (b"global_step=7/9\n", Progress(7, 9)),
        (b"Iteration 5 of 10\n", Progress(5, 10)),
        (b"iter [12/300]\n", Progress(12, 300)),
        (b" 40%|####      | 12/300 [00:01<00:20, 9.1it/s]\r", Progress(12, 300)),
        (b"epoch 3/10\n", Progress(3, 10)),
        (b"Epoch [3/10], loss 0.1\n", Progress(3, 10)),
        (b"\x1b[1;32mstep\x1b[0m 1/2\n", Progress(1, 2)),
        (b"step 1/2\nstep 2/2\n", Progress(2, 2)),
    ],
)
def test_the_usual_lines_are_understood(line: bytes, expected: Progress) -> None:
    assert ProgressReader().feed(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        b"step 5/3\n",
        b"step 0/0\n",
        b"loss 0.25/0.5\n",
        b"date 2026/03/01\n",
        b"accuracy 12/300\n",
        b"footstep 1/2\n",
        b"step one/two\n",
        b"step 120/3000",
        b"step " + b"9" * 400 + b"/" + b"9" * 400 + b"\n",
    ],
)
def test_what_is_no_progress_is_not_taken_for_it(line: bytes) -> None:
    assert ProgressReader().feed(line) is None


def test_a_line_may_arrive_in_pieces() -> None:
    reader = ProgressReader()
    assert [reader.feed(piece) for piece in (b"st", b"ep 12", b"/300", b"\n")] == [None, None, None, Progress(12, 300)]


def test_epochs_count_only_until_steps_are_seen() -> None:
    reader = ProgressReader()
    assert reader.feed(b"epoch 1/10\n") == Progress(1, 10)
    assert reader.feed(b"step 5/100\n") == Progress(5, 100)
    assert reader.feed(b"epoch 2/10\n") is None


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_any_bytes_at_all_are_survived(pieces: list[bytes]) -> None:
    reader = ProgressReader()
    for piece in pieces:
        found = reader.feed(piece)
        assert found is None or 0 <= found.step <= found.total


def test_an_endless_line_is_not_kept() -> None:
    reader = ProgressReader()
    for _ in range(50):
        reader.feed(b"x" * 65_536)
    assert len(reader._tail) <= 2000
