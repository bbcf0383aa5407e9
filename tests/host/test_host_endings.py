"""Processes of a lease are really ended, all of them, and no other process ever is."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warploom.client.processes import identity_of, is_alive
from warploom.domain.errands import Fate, KillOrder, Outcome
from warploom.domain.processes import ProcessIdentity
from warploom.host.endings import Ending, gripped
from warploom.host.members import Seen, is_warploom, look_around, members_of

LEASE = "L-4242"
PATIENCE = 30.0
WAITS = "import time, sys; print('ready', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process and wait until it is ready; whatever still runs in the end is ended."""
    running: list[subprocess.Popen[str]] = []

    def start(script: str = WAITS, lease: str | None = LEASE, **options: object) -> subprocess.Popen[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("WARPLOOM_")}
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            text=True,
            env=clean | ({"WARPLOOM_LEASE": lease} if lease else {}),
            **options,  # pyright: ignore
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in running:
        process.kill()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


def named(process: subprocess.Popen[str]) -> ProcessIdentity:
    identity = identity_of(process.pid)
    assert identity is not None
    return identity


def order(*processes: ProcessIdentity, spared: tuple[ProcessIdentity, ...] = (), grace: float = 20.0) -> KillOrder:
    return KillOrder(LEASE, list(processes), list(spared), grace)


def fates(outcome: Outcome) -> dict[int, Fate]:
    return {process.pid: process.fate for process in outcome.processes}


def left_behind(tmp_path: Path, how: str) -> int:
    """Return the pid of a process whose parent started it in a way (`nohup`, `setsid`) and has ended since."""
    noted = tmp_path / "pid"
    script = f"{how} {sys.executable} -c 'import time; time.sleep(600)' >/dev/null 2>&1 & echo $! > {noted}"
    subprocess.run(["sh", "-c", script], env={"PATH": os.environ["PATH"], "WARPLOOM_LEASE": LEASE}, check=True)
    pid = int(noted.read_text())
    deadline = time.monotonic() + PATIENCE
    while pid not in (seen := look_around()) or seen[pid].lease != LEASE:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    return pid


def test_a_process_that_ends_when_it_is_told_to_is_not_killed(start: Start) -> None:
    training = start()
    outcome = Ending(order(named(training))).run()
    assert fates(outcome) == {training.pid: Fate.ENDED}
    assert training.wait(PATIENCE) == -signal.SIGTERM
    assert outcome.is_success


def test_a_process_that_ignores_being_told_is_killed_after_the_grace(start: Start) -> None:
    training = start(DEAF)
    outcome = Ending(order(named(training), grace=0.2)).run()
    assert fates(outcome) == {training.pid: Fate.KILLED}
    assert training.wait(PATIENCE) == -signal.SIGKILL
    assert outcome.is_success


@pytest.mark.parametrize("how", ["nohup", "setsid", "nohup setsid"])
def test_what_escaped_its_parent_is_found_by_its_environment(tmp_path: Path, how: str) -> None:
    """Casebook C16: children that were re-parented are members all the same, and the kill takes the whole set."""
    pid = left_behind(tmp_path, how)
    assert fates(Ending(order()).run()) == {pid: Fate.ENDED}
    assert identity_of(pid) is None


def test_what_descends_from_a_member_goes_with_it_even_without_the_environment(start: Start) -> None:
    """Casebook C16: data loaders that were given an environment of their own are members by descent."""
    script = (
        "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], env={});"
        "print('ready', flush=True); time.sleep(600)"
    )
    training = start(script)
    (child,) = [each for each in look_around().values() if each.parent == training.pid]
    assert child.lease is None
    assert fates(Ending(order()).run()) == {training.pid: Fate.ENDED, child.identity.pid: Fate.ENDED}


def test_the_rest_of_a_group_that_a_member_leads_goes_with_it(start: Start) -> None:
    """Casebook C16: a member's process group is the lease's when nothing else is in it."""
    leader = start(process_group=0)
    other = start(lease=None, process_group=leader.pid)
    assert fates(Ending(order()).run()) == {leader.pid: Fate.ENDED, other.pid: Fate.ENDED}


def test_a_group_with_a_session_s_program_in_it_is_not_taken_whole(start: Start) -> None:
    leader = start(process_group=0)
    client, bystander = start(lease=None, process_group=leader.pid), start(lease=None, process_group=leader.pid)
    assert fates(Ending(order(spared=(named(client),))).run()) == {leader.pid: Fate.ENDED}
    assert bystander.poll() is None


def test_a_number_that_another_process_has_by_now_is_left_alone(start: Start) -> None:
    stranger = start(lease=None)
    recorded = ProcessIdentity(stranger.pid, named(stranger).started - 1)
    outcome = Ending(order(recorded)).run()
    assert fates(outcome) == {stranger.pid: Fate.REPLACED}
    assert stranger.poll() is None


def test_a_signal_never_reaches_a_process_that_only_has_the_number(start: Start) -> None:
    stranger = start(lease=None)
    with gripped(ProcessIdentity(stranger.pid, 1)) as grip, pytest.raises(ProcessLookupError):
        grip.send(signal.SIGKILL)
    assert stranger.poll() is None


def test_what_has_ended_already_is_told_so_and_doing_it_twice_does_no_harm(start: Start) -> None:
    training = start()
    recorded = named(training)
    assert fates(Ending(order(recorded)).run()) == {training.pid: Fate.ENDED}
    training.wait(PATIENCE)
    assert fates(Ending(order(recorded)).run()) == {training.pid: Fate.GONE}


def test_a_session_s_own_program_is_spared_even_when_it_was_started_under_the_lease(start: Start) -> None:
    client = start()
    training = start()
    outcome = Ending(order(named(client), named(training), spared=(named(client),))).run()
    assert fates(outcome) == {client.pid: Fate.SPARED, training.pid: Fate.ENDED}
    assert client.poll() is None
    assert not outcome.is_success


def test_a_process_of_another_lease_is_left_alone_with_all_that_descends_from_it(start: Start) -> None:
    script = (
        "import os, subprocess, sys, time\n"
        'tree = \'import subprocess, sys, time; subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]); \'\n'
        "tree += 'print(\"other\", flush=True); time.sleep(600)'\n"
        "other = subprocess.Popen([sys.executable, '-c', tree], env=os.environ | {'WARPLOOM_LEASE': 'L-77'}, stdout=-1)\n"
        "other.stdout.readline(); print('ready', flush=True); time.sleep(600)"
    )
    training = start(script)
    others = [each for each in look_around().values() if each.lease == "L-77"]
    assert len(others) == 2
    assert fates(Ending(order()).run()) == {training.pid: Fate.ENDED}
    assert all(is_alive(each.identity) for each in others)
    for each in others:
        os.kill(each.identity.pid, signal.SIGKILL)


def test_neither_this_process_nor_what_it_descends_from_is_ever_a_member() -> None:
    seen = look_around()
    us = seen[os.getpid()]
    parent = seen[us.parent]
    under_it = {**seen, us.identity.pid: _with_lease(us), parent.identity.pid: _with_lease(parent)}
    members = members_of(order(us.identity, parent.identity), under_it)
    assert {us.identity.pid, parent.identity.pid} & {each.identity.pid for each in members} == set()


def test_what_a_spared_program_passed_on_proves_nothing() -> None:
    client, tool = Seen(ProcessIdentity(10, 1), 1, 10, LEASE, ""), Seen(ProcessIdentity(11, 2), 10, 10, LEASE, "")
    seen = {10: client, 11: tool}
    assert members_of(order(spared=(client.identity,)), seen) == []
    assert members_of(order(tool.identity, spared=(client.identity,)), seen) == [tool]


def test_a_control_group_that_is_named_for_the_lease_is_the_lease_s() -> None:
    """Casebook C16: membership by cgroup where there is one."""
    inside = Seen(ProcessIdentity(10, 1), 1, 9, None, f"/user.slice/warploom-{LEASE}.scope")
    beside = Seen(ProcessIdentity(11, 1), 1, 9, None, f"/user.slice/warploom-{LEASE}0.scope")
    assert members_of(order(), {10: inside, 11: beside}) == [inside]


def test_without_permission_it_says_so(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    training = start()

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    outcome = Ending(order(named(training))).run()
    assert fates(outcome) == {training.pid: Fate.FORBIDDEN}
    assert not outcome.is_success


def test_without_descriptors_of_processes_it_works_too(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    training = start(DEAF)
    assert fates(Ending(order(named(training), grace=0.2)).run()) == {training.pid: Fate.KILLED}


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        ("python -P -m warploom.server", True),
        ("python -m warploom.host", True),
        ("/venv/bin/python /venv/bin/warploom mcp", True),
        ("/venv/bin/warploom-mcp", True),
        ("python -m warploom serve", True),
        ("python -m warploom run -- python train.py", False),
        ("python train.py --project warploom --then serve", False),
        ("", False),
    ],
)
def test_warploom_s_own_lasting_programs_are_known_by_their_commands(command: str, is_ours: bool) -> None:
    assert is_warploom(command.split()) is is_ours


def _with_lease(each: Seen) -> Seen:
    return Seen(each.identity, each.parent, each.group, LEASE, each.control_group)
