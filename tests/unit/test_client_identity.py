"""Who a command speaks for, and to which server."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from warploom.client.identity import headers_of, server_url, session_process, shell_caller, written_url
from warploom.client.processes import ancestors_of, command_of, identity_of, is_alive
from warploom.config import Settings
from warploom.domain.callers import Caller
from warploom.domain.errors import MalformedInput
from warploom.domain.processes import ProcessIdentity

TELL = """
import os, json
from warploom.client.identity import session_process
from warploom.client.processes import ancestors_of, command_of
found = session_process(ancestors_of(os.getpid()))
print(os.path.basename(command_of(found.pid)[0]), *command_of(found.pid)[1:2])
"""


def test_headers_carry_any_text_percent_encoded() -> None:
    headers = headers_of(Caller(agent="clau\x00de\r\nX-Evil: 1 ü", directory="/a b/ü", client="claude-code"))
    assert unquote(headers["X-Warploom-Agent"]) == "clau\x00de\r\nX-Evil: 1 ü"
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    assert headers["X-Warploom-Client"] == "claude-code"


def test_processes_are_written_as_number_and_start_nearest_first() -> None:
    caller = Caller(process=ProcessIdentity(7, 70), ancestors=[ProcessIdentity(7, 70), ProcessIdentity(5, 50)])
    headers = headers_of(caller)
    assert headers["X-Warploom-Process"] == "7:70"
    assert headers["X-Warploom-Ancestors"] == "7:70,5:50"


def test_what_a_caller_does_not_say_makes_no_header() -> None:
    assert headers_of(Caller()) == {}


def test_a_key_is_sent_as_it_is_and_nonsense_is_refused() -> None:
    assert headers_of(Caller(), "a+b/c==")["Authorization"] == "Bearer a+b/c=="
    with pytest.raises(MalformedInput):
        headers_of(Caller(), "key\r\nX-Evil: 1")


def test_a_command_knows_its_ancestors_and_where_it_runs() -> None:
    caller = shell_caller(Settings.load({"WARPLOOM_AGENT": "ann", "WARPLOOM_HOST_NAME": "rack-a"}))
    assert caller.ancestors[0].pid == os.getppid()
    assert (caller.agent, caller.host, caller.directory) == ("ann", "rack-a", str(Path.cwd()))


def test_the_session_of_a_command_is_the_shell_that_stays_and_not_the_one_started_for_it() -> None:
    script = f"sh -c '{sys.executable} -c \"$TELL\"; true'; true"
    done = subprocess.run(
        ["sh", "-s"], input=script, env=os.environ | {"TELL": TELL}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "sh -s"


def test_without_a_shell_the_program_that_runs_the_command_is_the_session() -> None:
    ancestors = [identity for identity in [identity_of(os.getpid())] if identity]
    assert session_process(ancestors) == ancestors[0]
    assert session_process([]) is None


def test_a_process_is_known_by_its_start_so_that_a_reused_number_is_another() -> None:
    identity = identity_of(os.getpid())
    assert identity is not None
    assert is_alive(identity)
    assert not is_alive(ProcessIdentity(identity.pid, identity.started + 1))


def test_a_process_that_is_gone_has_no_identity_no_command_and_no_ancestors() -> None:
    command = [sys.executable, "-c", "print(flush=True); input()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert command_of(process.pid)[0] == sys.executable
    process.communicate(timeout=20)
    assert identity_of(process.pid) is None
    assert command_of(process.pid) == []
    assert ancestors_of(process.pid) == []


def test_the_address_is_the_one_set_then_the_one_written_down_then_the_default(tmp_path: Path) -> None:
    home = {"WARPLOOM_HOME": str(tmp_path)}
    assert server_url(Settings.load(home)) == "http://127.0.0.1:8765"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "server.json").write_text('{"pid": 1, "started": 2, "url": "http://127.0.0.1:4000/"}')
    assert server_url(Settings.load(home)) == "http://127.0.0.1:4000"
    assert server_url(Settings.load(home | {"WARPLOOM_URL": "https://there.example/"})) == "https://there.example"


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"url": 3}', '{"url": ""}', '{"pid": 1}'])
def test_a_broken_record_of_the_server_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "server.json").write_text(content)
    assert written_url(tmp_path) is None
