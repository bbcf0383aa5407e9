"""The local stack comes up once however often it is asked for, survives the death of any part, and stops as a whole."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import stacks
from stacks import Cleanup, eventually, settings_of, standins

from warploom.client.processes import identity_of, is_alive
from warploom.domain.errors import Unreachable
from warploom.embedded.homes import Home
from warploom.embedded.keeper import delay_before
from warploom.embedded.programs import free_port
from warploom.embedded.records import living, read_record
from warploom.embedded.stack import ask_health, running_url, start, stop

EVERY = ("daemon", "server", "host", "postgres", "valkey")
SUPERVISOR = (sys.executable, "-P", "-m", "warploom.embedded.daemon")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder that was made beforehand."""
    return stacks.fresh_data(tmp_path_factory.mktemp("stack") / "home")


@pytest.fixture
def home(tmp_path, data):
    """A home with data, whose stack is stopped in the end."""
    with Cleanup(stacks.home_with(data, tmp_path / "home")) as home:
        yield home


def start_at(home, **values):
    return start(settings_of(home, **({"port": "0"} | values)), programs=standins())


def living_pids(home):
    return eventually(lambda: _all_living(home))


def _all_living(home):
    records = {name: living(Home.at(home), name) for name in EVERY}
    found = {name: record.process.pid for name, record in records.items() if record is not None}
    return found if len(found) == len(EVERY) else None


def test_a_start_tells_each_fact_and_leads_to_a_healthy_server(tmp_path):
    told = []
    with Cleanup(tmp_path / "home") as home:
        info = start(settings_of(home, port="0"), told.append, standins())
        assert sorted(told) == sorted(info.facts)
        assert info.facts[0].startswith("Postgres 18 ready (private socket, ")
        assert info.facts[1:] == ("Valkey ready", "schema current")
        assert not info.was_running
        assert info.health["status"] == "ok"
        assert running_url(settings_of(home)) == info.url


def test_a_second_start_finds_everything_running(home):
    first = start_at(home)
    pids = living_pids(home)
    second = start_at(home)
    assert (second.daemon, second.url, second.was_running) == (first.daemon, first.url, True)
    assert living_pids(home) == pids


@pytest.mark.parametrize("count", [2, 4])
def test_starts_at_the_same_moment_share_one_supervisor(home, count):
    told = stacks.at_the_same_moment("concurrent_stack.py", home, count)
    assert all(entry == told[0] for entry in told)
    assert living_pids(home)["daemon"] == told[0][0]


def test_stopping_leaves_no_process_and_no_record(home):
    start_at(home)
    living_pids(home)
    assert stop(settings_of(home))
    assert stacks.processes_of(home) == []
    assert list((home / "run").glob("*.json")) == []
    assert not stop(settings_of(home))


def test_stopping_reaches_what_a_killed_supervisor_left(home):
    os.kill(start_at(home).daemon.pid, signal.SIGKILL)
    assert stop(settings_of(home))
    assert stacks.processes_of(home) == []


def test_a_new_supervisor_takes_over_what_a_killed_one_left(home):
    """Casebook C37: nothing that must be held needs a clean exit to be let go."""
    first = start_at(home)
    before = living_pids(home)
    os.kill(first.daemon.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(first.daemon))
    second = start_at(home)
    after = living_pids(home)
    assert after.pop("daemon") != before.pop("daemon")
    assert after == before
    assert second.url == first.url


def test_a_new_supervisor_with_other_settings_replaces_our_programs(home):
    first = start_at(home)
    before = living_pids(home)
    os.kill(first.daemon.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(first.daemon))
    second = start_at(home, fake_gpus="4")
    eventually(lambda: living_pids(home)["server"] != before["server"])
    assert eventually(lambda: ask_health(second.url)[1])["environment"]["WARPLOOM_FAKE_GPUS"] == "4"


@pytest.mark.parametrize("name", ["server", "host", "valkey", "postgres"])
def test_a_part_that_is_killed_comes_back(home, name):
    info = start_at(home)
    before = living_pids(home)
    os.kill(before[name], signal.SIGKILL)
    eventually(lambda: (record := living(Home.at(home), name)) and record.process.pid != before[name])
    after = living_pids(home)
    assert {key for key in EVERY if before[key] != after[key]} == {name}
    assert eventually(lambda: ask_health(info.url)[0]) == 200


def test_a_part_that_was_taken_over_and_is_killed_comes_back(home):
    first = start_at(home)
    os.kill(first.daemon.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(first.daemon))
    start_at(home)
    before = living_pids(home)
    os.kill(before["server"], signal.SIGKILL)
    eventually(lambda: living_pids(home)["server"] != before["server"])


def test_a_taken_port_is_left_to_its_owner(home):
    with socket.create_server(("127.0.0.1", 0)) as owner:
        taken = owner.getsockname()[1]
        info = start_at(home, port=str(taken))
        assert info.url != f"http://127.0.0.1:{taken}"
        assert info.health["status"] == "ok"


def test_a_server_that_lost_its_port_gets_another_and_the_host_is_told(home):
    info = start_at(home)
    before = living_pids(home)
    os.kill(before["daemon"], signal.SIGSTOP)
    os.kill(before["server"], signal.SIGKILL)
    port = int(info.url.rpartition(":")[2])
    with eventually(lambda: _listener(port)):
        os.kill(before["daemon"], signal.SIGCONT)
        eventually(lambda: living_pids(home)["host"] != before["host"])
        url = eventually(lambda: running_url(settings_of(home)))
        assert url != info.url
        told = home / "run" / "host.environment"
        eventually(lambda: url in told.read_text())


def _listener(port):
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None


def test_the_parts_are_told_where_the_others_are_and_nothing_of_the_session_that_started_them(home, monkeypatch):
    monkeypatch.setenv("WARPLOOM_LEASE", "L-42")
    monkeypatch.setenv("WARPLOOM_AGENT", "claude-1")
    info = start_at(home, agent="claude-1", session="mine")
    file = home / "run" / "host.environment"
    eventually(file.exists)
    told = json.loads(file.read_text())
    assert told["WARPLOOM_URL"] == info.url
    assert told["WARPLOOM_HOME"] == str(home)
    server = info.health["environment"]
    assert stacks.sql(server["WARPLOOM_DATABASE_URL"], "select 1") == 1
    assert server["WARPLOOM_REDIS_URL"].startswith("unix:///")
    assert not {"WARPLOOM_LEASE", "WARPLOOM_AGENT", "WARPLOOM_SESSION"} & (set(told) | set(server))


def test_a_database_and_a_redis_by_setting_replace_the_embedded_ones(tmp_path):
    with Cleanup(tmp_path / "home") as home:
        info = start_at(home, database_url="postgresql://elsewhere/warploom", redis_url="none")
        assert info.facts == ("database by WARPLOOM_DATABASE_URL", "no Redis, by setting", "schema current")
        assert info.health["environment"]["WARPLOOM_DATABASE_URL"] == "postgresql://elsewhere/warploom"
        assert info.health["environment"]["WARPLOOM_REDIS_URL"] == "none"
        assert {entry.name for entry in home.iterdir()} == {"logs", "run"}


def test_a_server_that_cannot_run_is_named_with_its_log_and_nothing_is_left(home):
    with pytest.raises(Unreachable, match="server ended: the port of call is closed") as error:
        start(settings_of(home, port="0"), programs=standins(server="broken"))
    assert str(Home.at(home).log("server")) in error.value.next_step
    assert stacks.processes_of(home) == []


def test_a_postgres_that_cannot_run_is_named_and_nothing_is_left(home):
    (home / "pg18" / "PG_VERSION").write_text("15\n")
    with pytest.raises(Unreachable, match="data is of Postgres 15"):
        start_at(home)
    assert stacks.processes_of(home) == []


def test_an_address_that_is_not_of_this_machine_is_refused_at_once(home):
    with pytest.raises(Unreachable, match=r"cannot listen on 192\.0\.2\.1"):
        start_at(home, bind="192.0.2.1")


def test_a_supervisor_in_the_foreground_stops_everything_on_an_interrupt(home):
    environment = os.environ | {"WARPLOOM_HOME": str(home), "WARPLOOM_PORT": "0"}
    supervisor = subprocess.Popen(
        [*SUPERVISOR, _as_json(standins())], env=environment, stderr=subprocess.PIPE, text=True
    )
    with supervisor:
        living_pids(home)
        second = subprocess.run(SUPERVISOR, env=environment, stderr=subprocess.PIPE, text=True, timeout=30)
        assert (second.returncode, "runs in" in second.stderr) == (1, True)
        supervisor.send_signal(signal.SIGINT)
        _, told = supervisor.communicate(timeout=60)
    assert supervisor.returncode == 0
    assert "postgres runs as process" in told
    assert stacks.processes_of(home) == []


def _as_json(programs):
    return json.dumps({"server": programs.server, "host": programs.host})


def test_a_supervisor_that_is_asked_to_stop_while_it_starts_leaves_nothing(tmp_path):
    with Cleanup(tmp_path / "home") as home:
        environment = os.environ | {"WARPLOOM_HOME": str(home), "WARPLOOM_PORT": "0"}
        with subprocess.Popen([*SUPERVISOR, _as_json(standins())], env=environment) as supervisor:
            eventually(lambda: (home / "pg18.new").exists())
            supervisor.terminate()
            assert supervisor.wait(timeout=60) == 0
        assert stacks.processes_of(home) == []


def test_a_start_while_the_stack_is_stopping_waits_and_starts_it_anew(home):
    first = start_at(home)
    os.kill(first.daemon.pid, signal.SIGTERM)
    eventually(lambda: (record := living(Home.at(home), "daemon")) is None or record.details["stopping"])
    second = start_at(home)
    assert second.daemon != first.daemon
    assert second.health["status"] == "ok"


def test_a_record_that_cannot_be_read_counts_as_none(home):
    Home.at(home).prepare()
    Home.at(home).record("server").write_text('{"pid": 1')
    assert read_record(Home.at(home), "server") is None
    assert start_at(home).health["status"] == "ok"


def test_a_record_whose_number_was_reused_is_not_taken_for_the_server(home):
    Home.at(home).prepare()
    ourselves = identity_of(os.getpid())
    assert ourselves is not None
    record = {"pid": ourselves.pid, "started": ourselves.started - 1, "url": "http://127.0.0.1:1"}
    Home.at(home).record("server").write_text(json.dumps(record))
    assert running_url(settings_of(home)) is None
    assert start_at(home).health["status"] == "ok"


def test_an_ordinary_user_runs_the_whole_stack(tmp_path_factory):
    python = next((path for path in (sys.executable, "/usr/bin/python3") if _runs_for_everyone(path)), None)
    if python is None:
        pytest.skip("no Python 3.11 that an ordinary user may run")
    folder = Path("/tmp") / f"warploom-ordinary-stack-{os.getpid()}"
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(stacks.SOURCE), packages])}
    try:
        answer = subprocess.run(
            [python, str(stacks.FOLDER / "ordinary_stack.py"), str(folder / "home")],
            env=environment,
            user="nobody" if os.geteuid() == 0 else None,
            extra_groups=[] if os.geteuid() == 0 else None,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert answer.returncode == 0, answer.stderr
        assert json.loads(answer.stdout) == {"health": "ok", "left": []}
    finally:
        shutil.rmtree(folder)


def _runs_for_everyone(python):
    try:
        answer = subprocess.run(
            [python, "-c", "import sys; sys.exit(sys.version_info[:2] != " + str(sys.version_info[:2]) + ")"],
            user="nobody" if os.geteuid() == 0 else None,
            cwd="/",
        )
    except OSError:
        return False
    return answer.returncode == 0


def test_the_pauses_between_restarts_grow_up_to_a_cap():
    pauses = [delay_before(attempt) for attempt in range(12)]
    assert pauses[:3] == [0.0, 0.1, 0.2]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 15.0


def test_a_wanted_port_that_is_free_is_kept():
    with socket.create_server(("127.0.0.1", 0)) as owner:
        port = owner.getsockname()[1]
    assert free_port("127.0.0.1", port) == port
