"""`warploom run`: from the request to the release, with signals, terminals and kills in between."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import samples
from scripted_server import Command, ScriptedServer

from warploom.cli.signals import Signals, Stopped
from warploom.domain.errors import LeaseLost
from warploom.domain.standings import Standing, TicketAnswer
from warploom.domain.tickets import Me

PRINT_CARDS = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['WARPLOOM_LEASE'])"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start `warploom run` and leave it running; whatever is left is ended."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "warploom", "run", *arguments],
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate(timeout=20)


@pytest.fixture
def granting(server: ScriptedServer) -> ScriptedServer:
    """A server that grants at once."""
    server.on("POST", "/api/v1/tickets", samples.active())
    server.on("POST", "/api/v1/leases/L-57/(release|report|accept)", samples.lease())
    server.on("POST", "/api/v1/heartbeat", {"notices": [], "grants": []})
    return server


def test_a_command_gets_the_cards_exports_and_the_lease_is_released(
    granting: ScriptedServer, warploom: Command
) -> None:
    done = warploom("run", "--card", "0", "--", sys.executable, "-c", PRINT_CARDS)
    assert done.stdout == f"{samples.UUID} L-57\n"
    assert done.stderr.splitlines()[0] == f"granted L-57 on local/0   CUDA_VISIBLE_DEVICES={samples.UUID}"
    assert done.stderr.splitlines()[1].startswith("released L-57 · ran 0 s · exit 0")
    assert len(granting.called("POST", "/api/v1/leases/L-57/release")) == 1


def test_a_mask_that_was_set_before_is_replaced(granting: ScriptedServer, warploom: Command) -> None:
    done = warploom("run", "--", sys.executable, "-c", PRINT_CARDS, CUDA_VISIBLE_DEVICES="7", WARPLOOM_LEASE="L-1")
    assert done.stdout == f"{samples.UUID} L-57\n"


SHOW_CARDS = "import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']), os.environ.get('WARPLOOM_LEASE'))"


def me(*leases: TicketAnswer) -> Me:
    return Me("S-1", "claude-1", "default", samples.NOW, list(leases), [], [], "Go on.")


def test_a_command_without_a_card_sees_none_and_asks_nobody(server: ScriptedServer, warploom: Command) -> None:
    """Casebook C17: what runs without a lease has an empty mask, not everybody's cards."""
    done = warploom("run", "--card", "none", "--", sys.executable, "-c", SHOW_CARDS, CUDA_VISIBLE_DEVICES="7")
    assert (done.returncode, done.stdout, done.stderr) == (0, "'' None\n", "")
    assert server.calls == []


class TestWithinALease:
    """Casebook C18: a request within a lease is translated into the cards of that lease; it never waits behind it."""

    @pytest.mark.parametrize(
        ("wish", "mask"),
        [
            (("--card", "any"), "GPU-00000001"),
            (("--card", "3"), "GPU-00000003"),
            (("--card", "local/1"), "GPU-00000001"),
            (("--card", "GPU-00000003"), "GPU-00000003"),
            (("--cards", "2"), "GPU-00000001,GPU-00000003"),
            (("--card", "3,1"), "GPU-00000003,GPU-00000001"),
        ],
    )
    def test_cards_of_that_lease_are_used_at_once(
        self, server: ScriptedServer, warploom: Command, wish: tuple[str, ...], mask: str
    ) -> None:
        export = {**samples.EXPORT, "CUDA_VISIBLE_DEVICES": "GPU-00000001,GPU-00000003"}
        server.on("GET", "/api/v1/me", me(samples.active(cards=["local/1", "local/3"], export=export)))
        done = warploom("run", *wish, "--", sys.executable, "-c", SHOW_CARDS, WARPLOOM_LEASE="L-57")
        assert (done.returncode, done.stdout) == (0, f"'{mask}' L-57\n")
        assert "with L-57 already" in done.stderr
        assert server.called("POST", "/api/v1/.*") == []

    @pytest.mark.parametrize("wish", [("--card", "5"), ("--cards", "2"), ("--memory-gib", "80"), ("--card", "0,5")])
    def test_what_that_lease_does_not_give_is_asked_for(
        self, granting: ScriptedServer, warploom: Command, wish: tuple[str, ...]
    ) -> None:
        granting.on("GET", "/api/v1/me", me(samples.active()))
        done = warploom("run", *wish, "--", sys.executable, "-c", PRINT_CARDS, WARPLOOM_LEASE="L-57")
        assert done.returncode == 0
        assert len(granting.called("POST", "/api/v1/tickets")) == 1

    def test_a_lease_that_is_over_gives_nothing(self, granting: ScriptedServer, warploom: Command) -> None:
        granting.on("GET", "/api/v1/me", me())
        warploom("run", "--", "true", WARPLOOM_LEASE="L-57")
        assert len(granting.called("POST", "/api/v1/tickets")) == 1


def test_the_wish_reaches_the_server_as_it_was_given(granting: ScriptedServer, warploom: Command) -> None:
    options = ["--card", "any", "--cards", "2", "--memory-gib", "80", "--model", "H100", "--minutes", "20"]
    warploom("run", *options, "--priority", "p1", "--env-style", "index", "--title", "my job", "--", "true")
    body = granting.called("POST", "/api/v1/tickets")[0].body
    assert body.pop("purpose").startswith("run ")
    assert body == {
        "job": "my job",
        "device": "any",
        "cards": 2,
        "memory_gib": 80.0,
        "model": "H100",
        "minutes": 20.0,
        "priority": "p1",
        "env_style": "index",
    }


def test_the_name_in_the_queue_does_not_tell_the_commands_options(granting: ScriptedServer, warploom: Command) -> None:
    warploom("run", "--", "true", "--token=secret", "/src/eval.py", "hunter2")
    assert granting.called("POST", "/api/v1/tickets")[0].body["job"] == "true eval.py"


def test_the_commands_exit_status_is_returned(granting: ScriptedServer, warploom: Command) -> None:
    assert warploom("run", "--", sys.executable, "-c", "raise SystemExit(7)").returncode == 7
    assert granting.called("POST", "/api/v1/leases/L-57/release")


def test_a_command_ended_by_a_signal_returns_128_and_its_number(granting: ScriptedServer, warploom: Command) -> None:
    done = warploom("run", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 128 + 9


ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def released_with(server: ScriptedServer) -> tuple[str | None, str | None]:
    body = server.called("POST", "/api/v1/leases/L-57/release")[0].body
    return body["error"], body["failure"]


def test_a_command_that_ended_well_is_released_without_an_error(granting: ScriptedServer, warploom: Command) -> None:
    warploom("run", "--", "sh", "-c", f"echo '{ECC}'")
    assert released_with(granting) == (None, None)


def test_how_a_command_failed_is_told_with_what_its_output_said_of_the_hardware(
    granting: ScriptedServer, warploom: Command
) -> None:
    """Casebook C08: the words with which a job failed reach the breaker, and the output is passed on unchanged."""
    done = warploom("run", "--", "sh", "-c", f"echo one; echo '{ECC}' >&2; echo two >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, "one\n")
    assert f"{ECC}\ntwo\n" in done.stderr
    assert released_with(granting) == (f"exit status 3 after 0 s: {ECC}", None)


@pytest.mark.parametrize("output", ["CUDA out of memory", "x" * 100_000])
def test_other_output_is_nobodys_business(granting: ScriptedServer, warploom: Command, output: str) -> None:
    """Casebook C07."""
    warploom("run", "--", "sh", "-c", f"echo '{output}' >&2; exit 1")
    assert released_with(granting) == ("exit status 1 after 0 s", None)


def test_without_progress_only_the_exit_status_is_told(granting: ScriptedServer, warploom: Command) -> None:
    warploom("run", "--no-progress", "--", "sh", "-c", f"echo '{ECC}' >&2; exit 1")
    assert released_with(granting) == ("exit status 1 after 0 s", None)


def test_a_command_that_was_stopped_is_held_against_nothing(granting: ScriptedServer, warploom: Command) -> None:
    warploom("run", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 15)")
    assert released_with(granting) == ("it was stopped after 0 s", "interrupted")


def test_a_command_that_does_not_exist_never_asks_for_a_card(granting: ScriptedServer, warploom: Command) -> None:
    done = warploom("run", "--", "no-such-program")
    assert done.returncode == 127
    assert "'no-such-program' was not found" in done.stderr
    assert granting.calls == []


def test_a_queued_command_says_why_and_runs_when_its_card_is_there(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tickets", samples.queued(place=3))
    server.on("GET", "/api/v1/tickets/T-18", samples.queued(place=3))
    server.on("GET", "/api/v1/tickets/T-18/wait", samples.queued(place=1), samples.offered())
    server.on("POST", "/api/v1/leases/L-57/(accept|release)", samples.lease())
    done = warploom("run", "--card", "0", "--", sys.executable, "-c", PRINT_CARDS)
    assert done.stdout == f"{samples.UUID} L-57\n"
    lines = done.stderr.splitlines()
    assert lines[0].startswith("queued  T-18 on local/0, place 3: local/0 is held by L-42 'train bert-base'")
    assert "starts in 44–52 min, measured" in lines[1]
    assert "a free card: local/1 (not taken: you asked for local/0)" in lines[2]
    assert lines[3] == "waiting   Ctrl-C leaves the queue, nothing else"
    order = [call.path.rsplit("/", 1)[1] for call in server.calls]
    assert order == ["tickets", "T-18", "wait", "wait", "accept", "release"]


def test_an_offer_that_lapsed_before_it_was_accepted_is_waited_for_again(
    server: ScriptedServer, warploom: Command
) -> None:
    server.on("POST", "/api/v1/tickets", samples.offered())
    server.on("POST", "/api/v1/leases/L-57/accept", LeaseLost("L-57 ended: the offer lapsed.", "Wait again."))
    server.on("GET", "/api/v1/tickets/T-18", samples.queued())
    server.on("GET", "/api/v1/tickets/T-18/wait", samples.active(lease="L-58"))
    server.on("POST", "/api/v1/leases/L-58/release", samples.lease(lease="L-58"))
    assert warploom("run", "--", "true").returncode == 0
    assert server.called("POST", "/api/v1/leases/L-58/release")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_waiting_leaves_the_queue_and_runs_nothing(
    server: ScriptedServer, start: Start, number: signal.Signals
) -> None:
    server.on("POST", "/api/v1/tickets", samples.queued())
    server.on("GET", "/api/v1/tickets/T-18", samples.queued())
    server.on("GET", "/api/v1/tickets/T-18/wait", _held(server))
    server.on("DELETE", "/api/v1/tickets/T-18", samples.ended())
    process = start("--", sys.executable, "-c", "print('ran')")
    server.await_call("GET", "/api/v1/tickets/T-18/wait")
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert out == ""
    assert "left    T-18: out of the queue, and nothing was run" in err
    assert len(server.called("DELETE", "/api/v1/tickets/T-18")) == 1


def test_signals_are_passed_on_to_the_command_and_the_lease_is_released(granting: ScriptedServer, start: Start) -> None:
    process = start("--", sys.executable, "-u", "-c", _CATCHES_TERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert out == "caught\n"
    assert process.returncode == 5
    assert granting.called("POST", "/api/v1/leases/L-57/release")


def test_the_command_outlives_a_killed_run_and_its_output_still_arrives(
    granting: ScriptedServer, start: Start, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = start("--", sys.executable, "-u", "-c", f"print('ready'); open({str(gate)!r}).read(); print('alive')")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.wait(timeout=20)
    gate.write_text("go")
    assert process.stdout.readline() == "alive\n"
    assert not granting.called("POST", "/api/v1/leases/L-57/release")


def test_a_command_whose_holder_agreed_to_release_by_now_says_so_and_goes_on(
    granting: ScriptedServer, warploom: Command
) -> None:
    due = samples.lease(should_release=True, next="You agreed to release L-57 for claude-2 at step 120 (P-3).")
    granting.on("POST", "/api/v1/leases/L-57/report", due)
    done = warploom("run", "--", sys.executable, "-c", "print('step 120/3000')")
    assert (done.returncode, done.stdout) == (0, "step 120/3000\n")
    assert done.stderr.count("You agreed to release L-57 for claude-2") == 1


def test_progress_in_the_output_is_reported_and_the_output_is_unchanged(
    granting: ScriptedServer, warploom: Command
) -> None:
    done = warploom("run", "--", sys.executable, "-c", "print('a\\n\\x1b[1mstep 120/3000\\x1b[0m loss 0.3\\nlast')")
    assert done.stdout == "a\n\x1b[1mstep 120/3000\x1b[0m loss 0.3\nlast\n"
    assert granting.await_call("POST", "/api/v1/leases/L-57/report").body == {"step": 120, "total": 3000}


def test_a_reader_that_leaves_ends_the_command_as_it_would_without_us(granting: ScriptedServer, start: Start) -> None:
    process = start("--", "yes")
    assert process.stdout is not None
    assert process.stdout.readline() == "y\n"
    process.stdout.close()
    assert process.wait(timeout=20) == 128 + signal.SIGPIPE


def test_a_child_left_in_the_background_does_not_hold_the_run_up(granting: ScriptedServer, start: Start) -> None:
    process = start("--", "sh", "-c", "sleep 60 & echo $!")
    assert process.stdout is not None
    sleeper = int(process.stdout.readline())
    assert process.wait(timeout=20) == 0
    os.kill(sleeper, signal.SIGKILL)


def test_json_makes_its_own_lines_objects_and_leaves_stdout_to_the_command(
    granting: ScriptedServer, warploom: Command
) -> None:
    done = warploom("run", "--json", "--", "echo", "hello")
    assert done.stdout == "hello\n"
    granted, released = map(json.loads, done.stderr.splitlines())
    assert granted["event"] == "granted"
    assert granted["lease"] == "L-57"
    assert (released["event"], released["exit"]) == ("released", 0)


def test_a_purpose_that_already_runs_is_not_run_a_second_time(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tickets", samples.active(deduplicated=True))
    done = warploom("run", "--purpose", "eval", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (3, "")
    assert "already runs as L-57 on local/0" in done.stderr


def test_a_ticket_that_is_parked_meanwhile_ends_the_run_with_its_reason(
    server: ScriptedServer, warploom: Command
) -> None:
    server.on("POST", "/api/v1/tickets", samples.ended(state=Standing.PARKED, reason="3 offers were missed"))
    server.on("DELETE", "/api/v1/tickets/T-18", samples.ended())
    done = warploom("run", "--", "true")
    assert done.returncode == 4
    assert "T-18 is parked: 3 offers were missed." in done.stderr


def test_a_lease_lost_while_the_command_ran_is_told_and_keeps_its_status(
    granting: ScriptedServer, warploom: Command
) -> None:
    granting.on("POST", "/api/v1/leases/L-57/release", LeaseLost("L-57 ended at 14:23.", "Ask again."))
    done = warploom("run", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert done.returncode == 3
    assert "L-57 was over before the command was: L-57 ended at 14:23." in done.stderr


def test_the_terminal_belongs_to_the_command_while_it_runs(
    granting: ScriptedServer, environment: dict[str, str]
) -> None:
    code = "import os,sys; print(os.isatty(1), os.tcgetpgrp(0) == os.getpgrp(), os.getpgrp() == os.getpid())"
    output = _in_terminal(["run", "--", sys.executable, "-c", code], environment, [])
    assert "True True True" in output
    assert "released L-57" in output


def test_ctrl_c_at_a_terminal_ends_the_command_and_releases(
    granting: ScriptedServer, environment: dict[str, str]
) -> None:
    output = _in_terminal(["run", "--", sys.executable, "-c", _PAUSES], environment, [("ready", "\x03")])
    assert "released L-57" in output
    assert "exit 130" in output


def test_ctrl_z_stops_the_command_with_its_run_and_fg_brings_both_back(
    granting: ScriptedServer, environment: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "pauses.py"
    script.write_text(_PAUSES)
    run = f"{sys.executable} -m warploom run -- {sys.executable} {script}; echo status $?\r"
    steps = [
        ("$ ", run),
        ("ready\r\n", "\x1a"),
        ("status 148\r\n$ ", "fg\r"),
        ("back", "\x03"),
        ("exit 130", "exit\r"),
    ]
    output = _in_terminal(None, environment | {"PS1": "$ "}, steps)
    assert "released L-57" in output


@pytest.mark.parametrize("_time", range(5))
def test_at_a_terminal_the_waiting_is_shown_and_ctrl_c_leaves(
    server: ScriptedServer, environment: dict[str, str], _time: int
) -> None:
    server.on("POST", "/api/v1/tickets", samples.queued())
    server.on("GET", "/api/v1/tickets/T-18", samples.queued())
    server.on("GET", "/api/v1/tickets/T-18/wait", _held(server))
    server.on("DELETE", "/api/v1/tickets/T-18", samples.ended())
    output = _in_terminal(["run", "--", "true"], environment | {"TERM": "xterm"}, [("waiting", "\x03")])
    assert "Ctrl-C leaves the queue, nothing else" in output
    assert "left    T-18" in output


def test_a_signal_in_a_block_that_must_not_be_left_in_its_middle_stops_us_after_it() -> None:
    """Raised inside the locks of what draws on the terminal, it would leave them taken, and the command hanging."""
    ends: list[str] = []

    def go_on(signals: Signals) -> None:
        with signals.put_off():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            ends.append("block")

    with Signals() as signals:
        with pytest.raises(Stopped) as stop:
            go_on(signals)
        assert (ends, stop.value.number) == (["block"], signal.SIGINT)
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)


_PAUSES = """
import signal
signal.signal(signal.SIGCONT, lambda *_: print("back", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""
_CATCHES_TERM = """
import signal, sys
def caught(*_):
    print("caught")
    sys.exit(5)
signal.signal(signal.SIGTERM, caught)
print("ready")
signal.pause()
"""


def _held(server: ScriptedServer) -> Callable[[object], object]:
    """Answer a long poll only after a while, as a server does."""
    import threading

    def answer(_: object) -> object:
        threading.Event().wait(0.2)
        return samples.queued()

    return answer


def _in_terminal(arguments: list[str] | None, environment: dict[str, str], steps: list[tuple[str, str]]) -> str:
    """Run a command (or a shell) in a terminal of its own, typing each step's answer once its text has appeared."""
    command = [sys.executable, "-m", "warploom", *arguments] if arguments else ["bash", "--norc", "-i"]
    pid, master = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, environment)
    output, seen, left = b"", 0, list(steps)
    while select.select([master], [], [], 30)[0]:
        try:
            piece = os.read(master, 4096)
        except OSError:
            break
        output += piece
        while left and (at := output.find(left[0][0].encode(), seen)) >= 0:
            seen = at + len(left[0][0])
            os.write(master, left.pop(0)[1].encode())
    else:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(master)
    assert left == [], repr(output)
    return output.decode()
