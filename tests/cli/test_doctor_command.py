"""`warploom doctor`: the server's checks, and what can be seen without a server."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_server import Command, ScriptedServer

from warploom.cli.checks import check_assets, check_locally
from warploom.config import Settings
from warploom.domain.health import Word

OK = {"word": "ok", "name": "bus", "text": "Valkey 9.1, 3 subscribers"}
BAD = {
    "word": "bad",
    "name": "rack-b/1",
    "text": "blind: driver mismatch",
    "fix": "reboot rack-b when its jobs are done",
}


@pytest.fixture
def healthy(server: ScriptedServer, warploom: Command) -> ScriptedServer:
    here = json.loads(warploom("version", "--json").stdout)["warploom"]
    server.on("GET", "/health", {"status": "ok", "version": here, "schema": "0001"})
    server.on("GET", "/api/v1/doctor", [OK])
    return server


def test_all_well_is_exit_0(healthy: ScriptedServer, warploom: Command) -> None:
    done = warploom("doctor")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1] == "ok     bus         Valkey 9.1, 3 subscribers"


def test_anything_bad_is_exit_1_and_says_what_to_do(healthy: ScriptedServer, warploom: Command) -> None:
    healthy.on("GET", "/api/v1/doctor", [OK, BAD])
    done = warploom("doctor")
    assert done.returncode == 1
    assert done.stdout.splitlines()[2] == (
        "bad    rack-b/1    blind: driver mismatch. Fix: reboot rack-b when its jobs are done"
    )
    assert json.loads(warploom("doctor", "--json").stdout)[2] == BAD


def test_a_server_of_another_version_is_a_warning(healthy: ScriptedServer, warploom: Command) -> None:
    healthy.on("GET", "/health", {"status": "ok", "version": "9.9.9", "schema": "0001"})
    done = warploom("doctor")
    assert done.returncode == 0
    assert done.stdout.startswith("warn   server")
    assert "has version 9.9.9" in done.stdout


def test_a_server_that_is_away_is_bad_and_nothing_is_started(warploom: Command) -> None:
    done = warploom("doctor", WARPLOOM_URL="http://127.0.0.1:9")
    assert done.returncode == 1
    assert done.stdout.startswith("bad    server      No Warploom server answers at http://127.0.0.1:9")
    assert done.stderr == "The server does not answer, so this is only what can be seen from here.\n"


def test_without_a_local_stack_what_can_be_seen_is_checked_and_none_is_started(
    warploom: Command, environment: dict[str, str]
) -> None:
    done = warploom("doctor", WARPLOOM_URL=None, WARPLOOM_PORT="9")
    words = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()}
    assert words == {"server": "bad", "home": "ok", "postgres": "ok", "valkey": "ok", "stack": "bad", "logs": "ok"}
    assert "Start it with `warploom up`" in done.stdout
    assert not Path(environment["WARPLOOM_HOME"]).exists()


def test_a_dead_supervisor_and_its_last_words_are_told(tmp_path: Path) -> None:
    for folder in ("run", "logs"):
        (tmp_path / folder).mkdir()
    tmp_path.chmod(0o700)
    (tmp_path / "run" / "daemon.json").write_text('{"pid": 1, "started": 1}')
    (tmp_path / "logs" / "server.log").write_text("first\nthe port is taken\n")
    checks = {check.name: check for check in check_locally(_settings(tmp_path))}
    assert checks["stack"].text == "the supervisor of the local stack has ended without a word"
    assert "(server: the port is taken)" in checks["logs"].text


def test_what_keeps_the_stack_down_is_told_with_its_next_step(tmp_path: Path) -> None:
    from warploom.client.processes import identity_of

    (tmp_path / "run").mkdir()
    own = identity_of(os.getpid())
    assert own is not None
    failures = {"postgres": {"cause": "the disk is full.", "next": "Make room.", "times": 2, "at": 0}}
    record = {"pid": own.pid, "started": own.started, "failures": failures}
    (tmp_path / "run" / "daemon.json").write_text(json.dumps(record))
    found = [check for check in check_locally(_settings(tmp_path)) if check.word is Word.BAD]
    assert [(check.name, check.text, check.fix) for check in found] == [("postgres", "the disk is full", "Make room.")]


@pytest.mark.parametrize("content", ["", "[]", "{", "null"])
def test_a_broken_record_counts_as_no_stack(tmp_path: Path, content: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "daemon.json").write_text(content)
    assert "the local stack is not running" in [check.text for check in check_locally(_settings(tmp_path))]


def test_a_home_open_to_others_is_a_warning(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert check_locally(_settings(tmp_path))[0].word is Word.WARN


def test_a_home_that_is_a_file_is_bad(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert check_locally(_settings(tmp_path / "home"))[0].word is Word.BAD


def test_every_kind_of_asset_is_found(warploom: Command) -> None:
    assert {check.name for check in check_assets()} >= {"asset skills", "asset dashboard", "asset migrations"}
    assert warploom("doctor", "--assets").returncode == 0


def _settings(home: Path) -> Settings:
    return replace(Settings.load({}), home=home)
