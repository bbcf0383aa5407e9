"""The embedded Valkey is shared, private, keeps nothing, and comes back."""

import os
import signal
from pathlib import Path

import redis
from stacks import Cleanup, eventually, needs_root, pid_of, processes_of

from warploom.embedded.valkey import Valkey


def client(url):
    return redis.Redis.from_url(url, socket_timeout=10)


def test_it_answers_on_its_socket_and_on_no_port(tmp_path):
    with Cleanup(tmp_path / "home") as home, client(Valkey(home).start()) as valkey:
        assert valkey.ping()
        assert valkey.config_get("port") == {"port": "0"}
        assert (home / "valkey" / "valkey.sock").stat().st_mode & 0o777 == 0o700


def test_a_second_start_finds_the_first(tmp_path):
    with Cleanup(tmp_path / "home") as home:
        first, second = Valkey(home), Valkey(home)
        assert first.start() == second.start()
        assert first.process == second.process
        assert second.started_in is None


def test_it_comes_back_empty_on_the_same_address_after_a_kill(tmp_path):
    with Cleanup(tmp_path / "home") as home:
        valkey = Valkey(home)
        url = valkey.start()
        with client(url) as one:
            one.set("hint", "lost")
        os.kill(pid_of(valkey), signal.SIGKILL)
        eventually(lambda: valkey.process is None)
        assert valkey.start() == url
        with client(url) as one:
            assert one.get("hint") is None


def test_a_stopped_one_is_gone_and_leaves_no_file(tmp_path):
    with Cleanup(tmp_path / "home") as home:
        valkey = Valkey(home)
        valkey.start()
        valkey.stop()
        assert processes_of(home) == []
        assert list((home / "valkey").iterdir()) == []


def test_one_that_listens_but_does_not_answer_is_replaced(tmp_path):
    with Cleanup(tmp_path / "home") as home:
        valkey = Valkey(home)
        valkey.start()
        frozen = valkey.process
        os.kill(pid_of(valkey), signal.SIGSTOP)
        with client(valkey.start()) as one:
            assert one.ping()
        assert valkey.process != frozen


def test_a_long_path_with_blanks_is_reached_by_a_short_plain_address(tmp_path):
    with Cleanup(tmp_path / ("a rather long name, with blanks " * 5) / "home") as home:
        url = Valkey(home).start()
        assert " " not in url
        with client(url) as one:
            assert one.ping()


@needs_root
def test_the_server_of_root_is_not_root(tmp_path):
    with Cleanup(tmp_path / "home") as home:
        valkey = Valkey(home)
        valkey.start()
        assert Path(f"/proc/{pid_of(valkey)}").stat().st_uid != 0
