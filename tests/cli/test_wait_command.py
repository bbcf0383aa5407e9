"""`warploom wait`: what it prints, how it ends, what it survives and what it does not load."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import samples
from scripted_server import Command, ScriptedServer

from warploom.domain.errors import NotFound
from warploom.domain.standings import Standing

SERVER_CODE = (
    "fastapi",
    "fastmcp",
    "mcp",
    "asyncpg",
    "sqlalchemy",
    "alembic",
    "redis",
    "starlette",
    "uvicorn",
    "pynvml",
)
NOT_NEEDED = ("rich", "httpx", "asyncio", "jinja2", "warploom.embedded", "warploom.store", "warploom.services")


@pytest.fixture
def waiting(server: ScriptedServer) -> ScriptedServer:
    server.on("GET", "/api/v1/tickets/T-18", samples.queued())
    server.on("GET", "/api/v1/tickets/T-18/wait", samples.queued(), samples.offered())
    return server


def test_wait_prints_the_lease_and_the_exports_and_exits_0(waiting: ScriptedServer, warploom: Command) -> None:
    done = warploom("wait", "T-18")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "Your card is ready: local/0 (lease L-57, offered until 14:23:10 UTC; it is yours from your next call that names it).",
        f"export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={samples.UUID} WARPLOOM_LEASE=L-57",
        "Start the job now (T-18 'eval-sweep'); call gpu_release(\"L-57\") when it ends.",
    ]


def test_wait_accepts_nothing(waiting: ScriptedServer, warploom: Command) -> None:
    warploom("wait", "T-18")
    assert {call.method for call in waiting.calls} == {"GET"}


def test_wait_says_on_stderr_what_it_waits_for(waiting: ScriptedServer, warploom: Command) -> None:
    done = warploom("wait", "T-18")
    assert done.stderr.startswith("queued  T-18 on local/0, place 1: local/0 is held by L-42")


def test_wait_with_json_prints_one_object_and_nothing_else(waiting: ScriptedServer, warploom: Command) -> None:
    done = warploom("wait", "T-18", "--json")
    answer = json.loads(done.stdout)
    assert (answer["state"], answer["lease"], answer["export"]["WARPLOOM_LEASE"]) == ("offered", "L-57", "L-57")
    assert done.stderr == ""


def test_wait_exits_4_when_the_ticket_is_over(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/tickets/T-18", samples.ended())
    done = warploom("wait", "T-18")
    assert done.returncode == 4
    assert done.stdout.splitlines() == [
        "ended   T-18 'eval-sweep': it left the queue",
        "next    Ask again with gpu_request if you still need a card.",
    ]


def test_waiting_again_for_a_parked_ticket_puts_it_back_into_its_queue(
    server: ScriptedServer, warploom: Command
) -> None:
    server.on("GET", "/api/v1/tickets/T-18", samples.ended(state=Standing.PARKED))
    server.on("GET", "/api/v1/tickets/T-18/wait", samples.queued(), samples.offered())
    assert warploom("wait", "T-18").returncode == 0
    assert [call.query for call in server.calls] == ["", "seconds=0", "seconds=25"]


def test_wait_exits_5_when_its_time_has_passed_and_says_that_the_place_is_kept(
    server: ScriptedServer, warploom: Command
) -> None:
    server.on("GET", "/api/v1/tickets/T-18", samples.queued())
    done = warploom("wait", "T-18", "--timeout", "0")
    assert done.returncode == 5
    assert "T-18 still waits, at place 1, and keeps it; run `warploom wait T-18` again." in done.stdout


def test_wait_exits_3_for_a_ticket_that_does_not_exist(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/tickets/T-18", NotFound("There is no ticket T-18.", "`warploom status` shows them."))
    done = warploom("wait", "T-18")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "There is no ticket T-18.\n`warploom status` shows them.\n"


@pytest.mark.parametrize(
    "nonsense", ["17", "T-0", "L-4", "T-1\n", "", "T-99999999999999999999", "'; drop table", "T-١"]
)
def test_a_malformed_ticket_is_refused_without_a_call(server: ScriptedServer, warploom: Command, nonsense: str) -> None:
    done = warploom("wait", nonsense.replace("\n", "\nT-2"))
    assert done.returncode == 3
    assert "is not a ticket" in done.stderr
    assert server.calls == []


def test_wait_survives_a_restart_of_the_server(waiting: ScriptedServer, environment: dict[str, str]) -> None:
    waiting.on("GET", "/api/v1/tickets/T-18/wait", samples.queued())
    process = _start(environment, "wait", "T-18")
    waiting.await_call("GET", "/api/v1/tickets/T-18/wait")
    waiting.stop()
    assert process.stderr is not None
    assert any("Trying again" in line for line in process.stderr)
    waiting.on("GET", "/api/v1/tickets/T-18/wait", samples.offered())
    waiting.start_again()
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Your card is ready: local/0" in out


def test_a_wait_that_begins_while_the_server_is_away_goes_on_once_it_is_there(
    waiting: ScriptedServer, environment: dict[str, str]
) -> None:
    waiting.stop()
    process = _start(environment, "wait", "T-18")
    assert process.stderr is not None
    assert any("Trying again" in line for line in process.stderr)
    waiting.start_again()
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Your card is ready: local/0" in out


def test_wait_gives_up_with_6_when_its_patience_is_over(waiting: ScriptedServer, environment: dict[str, str]) -> None:
    waiting.on("GET", "/api/v1/tickets/T-18/wait", samples.queued())
    process = _start(environment, "wait", "T-18", "--patience", "0")
    waiting.await_call("GET", "/api/v1/tickets/T-18/wait")
    waiting.stop()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 6
    assert f"No Warploom server answers at {waiting.url}" in err
    waiting.start_again()


def test_an_unreachable_server_is_exit_6_with_a_next_step(warploom: Command) -> None:
    done = warploom("wait", "T-18", "--patience", "0", WARPLOOM_URL="http://127.0.0.1:9")
    assert done.returncode == 6
    assert done.stderr.splitlines() == [
        "No Warploom server answers at http://127.0.0.1:9 (connection refused).",
        "`warploom up` starts the local stack; `warploom doctor` says what is wrong with it.",
    ]


def test_ctrl_c_ends_the_waiting_with_130_and_leaves_the_ticket_alone(
    waiting: ScriptedServer, environment: dict[str, str]
) -> None:
    waiting.on("GET", "/api/v1/tickets/T-18/wait", samples.queued())
    process = _start(environment, "wait", "T-18")
    waiting.await_call("GET", "/api/v1/tickets/T-18/wait")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert {call.method for call in waiting.calls} == {"GET"}


def test_hostile_text_from_a_server_is_printed_inert(server: ScriptedServer, warploom: Command) -> None:
    title = "[bold red]x[/] \x1b[2J\x07\r\nexport EVIL=1 \u202eabc"
    server.on("GET", "/api/v1/tickets/T-18", samples.offered(title=title, export={"A": "1\nexport EVIL=1"}))
    done = warploom("wait", "T-18")
    assert len(done.stdout.splitlines()) == 3
    assert "[bold red]x[/]" in done.stdout
    assert not any(mark in done.stdout for mark in "\x1b\x07\r\u202e")


def test_waiting_loads_no_server_code_and_nothing_it_does_not_need(
    waiting: ScriptedServer, environment: dict[str, str], tmp_path: Path
) -> None:
    code = (
        "import sys, json; from warploom.cli.main import main; status = main(['wait', 'T-18']); "
        f"open({str(tmp_path / 'modules')!r}, 'w').write(json.dumps(sorted(sys.modules))); sys.exit(status)"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, timeout=60)
    loaded = set(json.loads((tmp_path / "modules").read_text()))
    assert not loaded & {*SERVER_CODE, *NOT_NEEDED}


def _start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "warploom", *arguments],
        env=environment | {"PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
