"""What is told of a process on a card."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from warploom.client.processes import identity_of
from warploom.domain.hosts import ProcessFact, ProcessKind
from warploom.domain.processes import ProcessIdentity
from warploom.host.processes import ProcessBook, short_command

WAITS = "import sys; print('up', flush=True); sys.stdin.read()"


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command that says it is up, then waits until its input ends."""
    with subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_process_is_told_with_its_user_command_lease_and_parents():
    with running(sys.executable, "-c", WAITS, "--secret=hunter2", WARPLOOM_LEASE="L-42") as process:
        fact = ProcessBook().fact(process.pid, ProcessKind.COMPUTE, 2048)

    assert fact is not None
    assert fact.user == psutil.Process().username()
    assert (fact.command or "").endswith(" -c")
    assert (fact.lease, fact.memory_mib, fact.kind) == ("L-42", 2048, ProcessKind.COMPUTE)
    assert fact.ancestors[0] == identity_of(os.getpid())


def test_a_process_without_a_lease_names_none():
    with running(sys.executable, "-c", WAITS, WARPLOOM_LEASE="") as process:
        fact = ProcessBook().fact(process.pid)

    assert fact is not None
    assert fact.lease is None


def test_a_process_that_ended_is_none():
    with running(sys.executable, "-c", WAITS) as process:
        pass

    assert ProcessBook().fact(process.pid) is None


def test_a_zombie_is_none():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert ProcessBook().fact(child.pid) is None

    child.wait()


def test_a_process_that_is_handed_to_another_parent_still_descends_from_its_first():
    spawns = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {WAITS!r}], stdin=sys.stdin, stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""
    parent = subprocess.Popen([sys.executable, "-c", spawns], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdin is not None
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent_identity, book = identity_of(parent.pid), ProcessBook()
    first = book.fact(child)
    parent.kill()
    parent.wait(10)

    later = book.fact(child)
    parent.stdin.close()
    parent.stdout.close()

    assert first is not None
    assert later is not None
    assert parent_identity in later.ancestors


def test_a_reused_pid_is_another_process():
    book = ProcessBook()
    own = identity_of(os.getpid())
    assert own is not None
    former = ProcessIdentity(own.pid, own.started - 1)
    book._known[former] = ProcessFact(former.pid, former.started, command="somebody else's")

    fact = book.fact(own.pid)

    assert fact is not None
    assert fact.started == own.started
    assert fact.command != "somebody else's"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["/usr/bin/python3.11", "-u", "/home/ada/train.py", "--api-key", "hunter2"], "python3.11 train.py"),
        (["python", "-m", "vllm.entrypoints.api_server", "--token=x"], "python -m vllm.entrypoints.api_server"),
        (["python", "-c", "import torch; key='hunter2'"], "python -c"),
        (["python", "-uB", "train.py"], "python train.py"),
        (["mysql", "-phunter2"], "mysql"),
        (["env", "KEY=hunter2", "train"], "env"),
        (["torchrun"], "torchrun"),
        (["a\x1b[31m\nb", "c\nd"], "a [31m b c d"),
        ([""], None),
        ([], None),
    ],
)
def test_a_command_is_one_short_line_without_the_values_of_its_options(arguments, line):
    assert short_command(arguments) == line


def test_a_long_command_is_cut():
    assert len(short_command(["x" * 500]) or "") == 80
