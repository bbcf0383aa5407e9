"""Completion markers: written while no server can be reached, told later, each once and never for another lease."""

import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import samples
from scripted_server import Command, ScriptedServer
from shells import Shell, again
from test_wait_command import NOT_NEEDED, SERVER_CODE

from support.serving import Serve, ServerProcess, StartCommand
from warploom.cli.exits import Exit
from warploom.client.markers import Completions
from warploom.domain.claims import Claim, ClaimAnswer
from warploom.domain.errors import LeaseLost, NotYours, Unreachable, WarploomError
from warploom.domain.repairs import RecoveryAnswer, RecoveryLine, RecoveryWord

NOWHERE = "http://127.0.0.1:1"
AWAY = Unreachable("No database answers.", "Wait.")


@pytest.fixture
def home(environment: dict[str, str]) -> Path:
    return Path(environment["WARPLOOM_HOME"])


@pytest.fixture
def written(warploom: Command, home: Path) -> Path:
    """The marker of a `done` that could reach nobody."""
    done = warploom("done", "T-17", "--lease", "L-42", "--output", '{"loss": 1.9}', WARPLOOM_URL=NOWHERE)
    assert done.returncode == 0, done.stderr
    (marker,) = waiting(home)
    return marker


def waiting(home: Path) -> list[Path]:
    return [found.path for found in Completions(home).waiting()]


def archived(home: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(Completions(home).archive.glob("*.json"))]


def test_done_without_a_server_is_written_down_with_all_it_would_have_said(
    warploom: Command, written: Path, home: Path
) -> None:
    marker = json.loads(written.read_text())
    assert (marker["task"], marker["lease"], marker["verb"]) == ("T-17", "L-42", "done")
    assert (marker["output"], marker["server"]) == ({"loss": 1.9}, "local")
    assert (written.stat().st_mode & 0o777, written.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert written.name.startswith("L-42-")
    done = warploom("fail", "T-18", "--reason", "no disk", WARPLOOM_URL=NOWHERE, WARPLOOM_LEASE="L-43")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "written T-18 fail (L-43), on this machine: No Warploom server answers at http://127.0.0.1:1 "
            "(connection refused).",
            "next    `warploom scan --execute`, or the next `warploom done` that gets through, tells it to the server.",
        ],
    )
    assert len(waiting(home)) == 2


@pytest.mark.parametrize(
    ("worn", "named"),
    [(None, "L-42"), ("L-42", "L-42"), ("L-50", "L-42"), ("L-43", "L-42")],
    ids=["nothing", "its own", "a card's", "another task's"],
)
def test_a_shell_acts_under_the_lease_of_the_very_task(
    server: ScriptedServer, warploom: Command, worn: str | None, named: str
) -> None:
    other = Claim(samples.task(task="T-18"), "L-43", samples.NOW)
    server.on("POST", "/api/v1/claims", ClaimAnswer([samples.claimed(), other], "Begin."))
    server.on("POST", "/api/v1/tasks/T-(17|19)/done", samples.step())
    warploom("claim", "--count", "2")
    warploom("done", "T-17", WARPLOOM_LEASE=worn)
    warploom("done", "T-19", WARPLOOM_LEASE=worn)
    assert server.calls[1].body["lease"] == named
    assert server.calls[2].body["lease"] == (worn if worn == "L-50" else None)


def test_a_server_without_its_database_counts_as_away(server: ScriptedServer, warploom: Command, home: Path) -> None:
    server.on("POST", "/api/v1/tasks/T-17/done", AWAY)
    done = warploom("done", "T-17", "--lease", "L-42", "--json")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "written_down")
    assert len(waiting(home)) == 1


def test_a_refusal_is_no_outage_and_writes_nothing(server: ScriptedServer, warploom: Command, home: Path) -> None:
    server.on("POST", "/api/v1/tasks/T-17/done", LeaseLost("L-42 ended.", "Claim it again."))
    assert warploom("done", "T-17", "--lease", "L-42").returncode == Exit.ENDED
    assert waiting(home) == []


def test_without_any_lease_nothing_is_written_and_the_way_out_is_named(warploom: Command, home: Path) -> None:
    done = warploom("done", "T-17", WARPLOOM_URL=NOWHERE)
    assert done.returncode == Exit.UNREACHABLE
    assert "such as --lease L-42" in done.stderr.splitlines()[-1]
    assert waiting(home) == []


def test_a_heartbeat_that_reaches_nobody_is_not_written_down(warploom: Command, home: Path) -> None:
    done = warploom("heartbeat", "T-17", "--lease", "L-42", WARPLOOM_URL=NOWHERE)
    assert done.returncode == Exit.UNREACHABLE
    assert waiting(home) == []


def test_scan_shows_and_changes_nothing_without_execute(
    server: ScriptedServer, warploom: Command, written: Path
) -> None:
    done = warploom("scan")
    assert re.fullmatch(
        r"T-17  L-42  done  \S* *written \S+  waiting  to be told to the server", done.stdout.splitlines()[0]
    )
    assert done.stdout.splitlines()[1] == "Nothing was changed; `warploom scan --execute` tells them to the server."
    assert (server.calls, written.exists()) == ([], True)


def test_scan_tells_a_marker_under_its_lease_and_archives_it(
    server: ScriptedServer, warploom: Command, written: Path, home: Path
) -> None:
    server.on("POST", "/api/v1/tasks/T-17/done", samples.step())
    answer = json.loads(warploom("scan", "--execute", "--json").stdout)
    assert [(line["outcome"], line["text"]) for line in answer["markers"]] == [("applied", "T-17 is done")]
    assert server.calls[0].body == {"lease": "L-42", "output": {"loss": 1.9}, "branch_name": None}
    assert (waiting(home), [marker["outcome"] for marker in archived(home)]) == ([], ["applied"])
    assert "No completion" in warploom("scan", "--execute").stdout
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("answer", "outcome", "stays"),
    [
        (LeaseLost("L-42 ended at 14:23.", "Claim it again."), "lease_lost", False),
        (NotYours("L-42 is another agent's.", "Set WARPLOOM_OPERATOR_KEY."), "kept", True),
        (WarploomError("Something went wrong inside the server.", "Look into its log."), "kept", True),
        (AWAY, "waiting", True),
    ],
)
def test_what_the_server_answers_decides_whether_a_marker_is_settled(
    server: ScriptedServer, warploom: Command, written: Path, answer: Any, outcome: str, stays: bool
) -> None:
    server.on("POST", "/api/v1/tasks/T-17/done", answer)
    done = warploom("scan", "--execute", "--json")
    assert json.loads(done.stdout)["markers"][0]["outcome"] == outcome
    assert (written.exists(), done.returncode) == (stays, Exit.UNREACHABLE if outcome == "waiting" else Exit.DONE)


def test_the_next_done_that_gets_through_tells_what_was_written_down(
    server: ScriptedServer, warploom: Command, written: Path, home: Path
) -> None:
    server.on("POST", "/api/v1/tasks/T-(17|18)/done", samples.step())
    done = warploom("done", "T-18", "--lease", "L-43")
    assert [call.path for call in server.calls] == ["/api/v1/tasks/T-18/done", "/api/v1/tasks/T-17/done"]
    assert done.stderr == "applied  T-17 done (L-42), as written down: T-17 is done\n"
    assert waiting(home) == []


def test_a_scan_that_is_killed_between_telling_and_archiving_is_made_up_for(
    server: ScriptedServer, warploom: Command, written: Path, environment: dict[str, str], home: Path
) -> None:
    release = threading.Event()
    try:
        server.on("POST", "/api/v1/tasks/T-17/done", lambda _: release.wait(20) and samples.step())
        with subprocess.Popen([sys.executable, "-m", "warploom", "scan", "--execute"], env=environment) as scan:
            server.await_call("POST", "/api/v1/tasks/T-17/done")
            scan.send_signal(signal.SIGKILL)
    finally:
        release.set()
    assert (written.exists(), archived(home)) == (True, [])
    assert "applied" in warploom("scan", "--execute").stdout
    assert (len(server.calls), waiting(home), len(archived(home))) == (2, [], 1)


def test_two_scans_at_once_tell_a_marker_once(
    server: ScriptedServer, warploom: Command, written: Path, environment: dict[str, str], home: Path
) -> None:
    release = threading.Event()
    try:
        server.on("POST", "/api/v1/tasks/T-17/done", lambda _: release.wait(20) and samples.step())
        with subprocess.Popen([sys.executable, "-m", "warploom", "scan", "--execute"], env=environment) as first:
            server.await_call("POST", "/api/v1/tasks/T-17/done")
            assert "No completion" in warploom("scan", "--execute").stdout
            release.set()
            assert first.wait(20) == 0
    finally:
        release.set()
    assert (len(server.calls), waiting(home), len(archived(home))) == (1, [], 1)


def test_files_that_are_no_markers_are_named_and_left_alone(
    server: ScriptedServer, warploom: Command, written: Path
) -> None:
    folder = written.parent
    (folder / "L-1-broken.json").write_text('{"task": "T-1", "lease"')
    (folder / "L-2-odd.json").write_text(json.dumps({**json.loads(written.read_text()), "lease": "L-2; true"}))
    (folder / "L-3-link.json").symlink_to(written)
    (folder / ".abc.partial").write_text("half")
    server.on("POST", "/api/v1/tasks/T-17/done", samples.step())
    markers = json.loads(warploom("scan", "--execute", "--json").stdout)["markers"]
    assert [marker["outcome"] for marker in markers] == ["applied", "unreadable", "unreadable", "unreadable"]
    assert len(list(folder.glob("*.json"))) == 3
    assert len(server.calls) == 1


def test_a_marker_for_another_server_is_never_told_to_this_one(
    server: ScriptedServer, warploom: Command, written: Path
) -> None:
    written.write_text(json.dumps({**json.loads(written.read_text()), "server": "https://elsewhere.example"}))
    (line,) = json.loads(warploom("scan", "--execute", "--json").stdout)["markers"]
    assert (line["outcome"], "https://elsewhere.example" in line["text"]) == ("elsewhere", True)
    assert (server.calls, written.exists()) == ([], True)


def test_the_doctor_names_what_was_not_told(server: ScriptedServer, warploom: Command, written: Path) -> None:
    server.on("GET", "/health", {"version": "0", "schema": "1", "status": "ok"})
    server.on("GET", "/api/v1/doctor", [])
    said = warploom("doctor").stdout.splitlines()[-1]
    assert said == (
        "warn   completions 1 written down on this machine and not told. Fix: Run `warploom scan --execute`."
    )


def test_recover_shows_markers_first_and_the_same_table_when_it_acts(
    server: ScriptedServer, warploom: Command, written: Path
) -> None:
    marked = RecoveryLine("T-17", "train", "ann", "L-42", RecoveryWord.STALE, "silent", "reset")
    stale = RecoveryLine("T-18", "eval", "bob", "L-43", RecoveryWord.STALE, "silent for 9 min", "reset")
    server.on("POST", "/api/v1/tasks/T-17/done", samples.step())
    server.on("POST", "/api/v1/recovery", RecoveryAnswer([marked, stale], "Run it with --execute."))
    planned = warploom("recover")
    assert [call.body for call in server.calls] == [{"execute": False}]
    assert planned.stdout.splitlines()[-1].startswith("Nothing was changed; `warploom recover --execute`")
    server.on("POST", "/api/v1/recovery", RecoveryAnswer([marked, stale], "Go."), RecoveryAnswer([stale], "Go on."))
    acted = warploom("recover", "--execute")
    assert [call.path.rpartition("/")[2] for call in server.calls[1:]] == ["recovery", "done", "recovery"]
    for shown, act in ((planned, "to apply"), (acted, "applied")):
        first, second, *_ = shown.stdout.splitlines()
        assert first.split("  ")[0:1] == ["T-17"]
        assert ("marker" in first, act in first) == (True, True)
        assert re.fullmatch(r"T-18  stale   L-43  bob +eval +to reset +silent for 9 min", second)


def test_recover_resets_nothing_while_a_completion_could_not_be_told(
    server: ScriptedServer, warploom: Command, written: Path
) -> None:
    server.on("POST", "/api/v1/tasks/T-17/done", AWAY)
    server.on("POST", "/api/v1/recovery", RecoveryAnswer([], "Go on."))
    assert warploom("recover", "--execute").returncode == Exit.UNREACHABLE
    assert [call.body for call in server.called("POST", "/api/v1/recovery")] == [{"execute": False}]


def test_done_loads_no_server_code_and_nothing_it_does_not_need(
    server: ScriptedServer, environment: dict[str, str], tmp_path: Path
) -> None:
    server.on("POST", "/api/v1/tasks/T-17/done", samples.step())
    code = (
        "import sys, json; from warploom.cli.main import main; status = main(['done', 'T-17', '--lease', 'L-42']); "
        f"open({str(tmp_path / 'modules')!r}, 'w').write(json.dumps(sorted(sys.modules))); sys.exit(status)"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, timeout=60)
    loaded = set(json.loads((tmp_path / "modules").read_text()))
    assert not loaded & {*SERVER_CODE, *NOT_NEEDED, "yaml", "warploom.domain.plans"}


@pytest.fixture
def real(serve: Serve) -> ServerProcess:
    (server,) = serve()
    return server


@pytest.fixture
def ann(command: StartCommand, real: ServerProcess) -> Shell:
    return Shell(command, real.url, "ann")


@pytest.fixture
def bob(command: StartCommand, real: ServerProcess) -> Shell:
    return Shell(command, real.url, "bob")


def test_work_that_ended_while_the_server_was_down_is_told_once(real: ServerProcess, ann: Shell, bob: Shell) -> None:
    ann.run("create", "first")
    ann.run("create", "second", "--depends-on", "T-1")
    lease = ann.run("claim")["claims"][0]["lease"]
    real.kill()
    marker = ann.run("done", "T-1", "--output", '{"rows": 3}')
    assert (marker["state"], marker["lease"]) == ("written_down", lease)
    again(real)
    assert ann.state("T-1") == ("claimed", lease)
    (line,) = bob.run("scan", "--execute")["markers"]
    assert (line["outcome"], line["task"]) == ("applied", "T-1")
    assert bob.run("scan", "--execute")["markers"] == []
    assert (ann.state("T-1")[0], ann.state("T-2")[0]) == ("done", "ready")
    assert ann.run("status", "T-1")["output"] == {"rows": 3}
    assert ann.events("task.done") == ["T-1"]


def test_a_marker_that_was_told_but_not_archived_is_told_again_without_harm(
    real: ServerProcess, ann: Shell, bob: Shell, tmp_path: Path
) -> None:
    for title in ("first", "second"):
        ann.run("create", title)
    claims = {claim["task"]["task"]: claim["lease"] for claim in ann.run("claim", "--count", "2")["claims"]}
    real.kill()
    ann.run("done", "T-1")
    ann.run("fail", "T-2", "--reason", "no disk")
    again(real)
    kept = {path: path.read_text() for path in waiting(tmp_path)}
    first = [line["outcome"] for line in bob.run("scan", "--execute")["markers"]]
    for path, text in kept.items():
        path.write_text(text)
    second = [line["outcome"] for line in bob.run("scan", "--execute")["markers"]]
    assert (len(claims), first, second) == (2, ["applied", "applied"], ["applied", "applied"])
    assert (ann.state("T-1")[0], ann.state("T-2")[0]) == ("done", "failed")
    assert (ann.events("task.done"), ann.events("task.failed")) == (["T-1"], ["T-2"])
    assert ann.run("status", "T-2")["attempts"] == 1


@pytest.mark.parametrize("verb", [["done"], ["fail", "--reason", "no disk"]])
def test_a_marker_of_a_lease_that_was_taken_over_changes_nothing(
    real: ServerProcess, ann: Shell, bob: Shell, tmp_path: Path, verb: list[str]
) -> None:
    ann.run("create", "first")
    ann.run("claim", "T-1")
    real.kill()
    ann.run(verb[0], "T-1", *verb[1:])
    again(real)
    bob.run("reset", "T-1")
    lease = bob.run("claim", "T-1")["claims"][0]["lease"]
    (line,) = ann.run("scan", "--execute")["markers"]
    assert line["outcome"] == "lease_lost"
    assert (bob.state("T-1"), waiting(tmp_path)) == (("claimed", lease), [])
    assert (ann.events("task.done"), ann.events("task.failed")) == ([], [])
    assert [marker["outcome"] for marker in archived(tmp_path)] == ["lease_lost"]


def test_another_session_does_not_know_the_lease(real: ServerProcess, ann: Shell, bob: Shell) -> None:
    ann.run("create", "first")
    ann.run("claim", "T-1")
    real.kill()
    refused = bob.run("done", "T-1", status=Exit.UNREACHABLE)
    assert refused["error"]["code"] == "unreachable"
    assert ann.run("done", "T-1")["state"] == "written_down"


def test_many_scans_at_once_tell_every_marker_once(
    real: ServerProcess, ann: Shell, command: StartCommand, tmp_path: Path
) -> None:
    for number in range(6):
        ann.run("create", f"task {number}")
    ann.run("claim", "--count", "6")
    real.kill()
    for number in range(6):
        ann.run("done", f"T-{number + 1}")
    again(real)
    scans = [command("scan", "--execute", "--json", url=real.url, session=f"scan-{n}") for n in range(4)]
    told = [line for scan in scans for line in json.loads(scan.finish()[1])["markers"]]
    assert sorted((line["task"], line["outcome"]) for line in told) == [(f"T-{n + 1}", "applied") for n in range(6)]
    assert (sorted(ann.events("task.done")), waiting(tmp_path)) == ([f"T-{n + 1}" for n in range(6)], [])
