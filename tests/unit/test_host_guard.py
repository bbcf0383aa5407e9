"""Calls that may hang are bounded, and hurt nobody else."""

import threading
from datetime import timedelta

import pytest

from warploom.host.guard import Guard, Overdue, reason_of

BRIEF = timedelta(seconds=0.05)
AMPLE = timedelta(seconds=10)


def test_every_call_gives_its_answer_or_its_error():
    def fail() -> str:
        raise KeyError("b")

    answers = Guard(AMPLE).run({"a": lambda: "fine", "b": fail})

    assert answers["a"] == "fine"
    assert isinstance(answers["b"], KeyError)


def test_the_calls_run_side_by_side():
    together = threading.Barrier(3)

    answers = Guard(AMPLE).run({name: lambda: together.wait(10) for name in "abc"})

    assert sorted(map(str, answers.values())) == ["0", "1", "2"]


def test_a_call_that_hangs_is_overdue_and_the_others_still_answer():
    release = threading.Event()

    answers = Guard(timedelta(seconds=1)).run({"stuck": release.wait, "fine": lambda: True})
    release.set()

    assert isinstance(answers["stuck"], Overdue)
    assert answers["fine"] is True
    assert "has not answered" in reason_of(answers["stuck"])


def test_a_call_that_hangs_is_neither_started_again_nor_waited_for():
    release, starts = threading.Event(), []

    def stuck() -> bool:
        starts.append(threading.get_ident())
        return release.wait(60)

    guard = Guard(BRIEF)
    guard.run({"stuck": stuck})
    guard.deadline = timedelta(hours=1)  # a wait for it would end in the test's own time limit
    again = guard.run({"stuck": stuck})
    release.set()

    assert isinstance(again["stuck"], Overdue)
    assert len(starts) == 1


def test_an_answer_that_comes_too_late_is_never_used_and_the_next_call_is_fresh():
    release, returned = threading.Event(), threading.Event()

    def late() -> str:
        release.wait(60)
        returned.set()
        return "old"

    guard = Guard(BRIEF)
    guard.run({"card": late})
    release.set()
    assert returned.wait(10)
    guard.deadline = AMPLE
    answers = [guard.run({"card": lambda: "new"})["card"] for _ in range(2)]

    assert "old" not in answers
    assert answers[-1] == "new"


@pytest.mark.parametrize("calls", [{}, {"a": lambda: None}])
def test_nothing_to_say_is_an_answer_too(calls):
    assert Guard(AMPLE).run(calls) == dict.fromkeys(calls)
