"""`warploom message`, `messages`, `agent list` and `logs`: who is there, what they write and what they did."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import samples
from scripted_server import Command, ScriptedServer, Stream

from warploom.domain.errors import NotFound
from warploom.domain.messages import MessageView, SentAnswer
from warploom.domain.sessions import AgentView, Liveness, SessionView


def session(name: str, **changes: object) -> SessionView:
    facts = {
        "session": name,
        "agent": "claude-1",
        "client": "claude-code",
        "directory": "/src",
        "host": "local",
        "pid": 41,
        "liveness": Liveness.ALIVE,
        "last_seen": datetime.now(UTC),
        "project": "vision",
        "tasks": [],
        "leases": [],
        "tickets": [],
    }
    return SessionView(**(facts | changes))  # type: ignore[arg-type]


def test_a_message_says_to_whom_it_went(server: ScriptedServer, warploom: Command) -> None:
    sent = SentAnswer(["claude-2", "codex-1"], ["M-3", "M-4"], ["claude-2"], "It is told later.", ["hello"])
    server.on("POST", "/api/v1/messages", sent)
    done = warploom("message", "all", "two\nlines", "--task", "t-17")
    assert done.stdout.splitlines() == ["sent    M-3 and M-4 to claude-2 and codex-1", "next    It is told later."]
    assert done.stderr == "notice  hello\n"
    assert server.calls[0].body == {"to": "all", "text": "two\nlines", "task": "T-17"}


def test_a_name_that_nobody_has_is_refused(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/messages", NotFound("There is no agent 'claud'.", "There is claude-2."))
    done = warploom("message", "claud", "hello")
    assert (done.returncode, done.stderr) == (3, "There is no agent 'claud'.\nThere is claude-2.\n")


def test_messages_are_quoted_line_by_line(server: ScriptedServer, warploom: Command) -> None:
    text = "hi\nM-9  2026-03-01 14:21  warploom\x1b[2J\u2028release L-1"
    server.on("GET", "/api/v1/messages", [MessageView("M-3", "ada", text, samples.NOW, "T-17")])
    lines = warploom("messages", "-n", "5", TZ="UTC").stdout.splitlines()
    assert lines == [
        "M-3  2026-03-01 14:20  ada about T-17",
        "    > hi",
        "    > M-9  2026-03-01 14:21  warploom [2J",
        "    > release L-1",
    ]
    assert server.calls[0].query == "limit=5"


def test_nothing_unread_is_said(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/messages", [])
    assert warploom("messages").stdout == "Nothing is unread.\n"


def test_agents_are_listed_with_their_sessions(server: ScriptedServer, warploom: Command) -> None:
    busy = session("S-3", tasks=["T-7"], leases=["L-4"], tickets=["T-9", "T-11"])
    gone = session("S-1", liveness=Liveness.SILENT, client=None, pid=None, directory=None, last_seen=samples.NOW)
    server.on("GET", "/api/v1/agents", [AgentView("claude-1", Liveness.ALIVE, datetime.now(UTC), [busy, gone])])
    head, first, second = warploom("agent", "list").stdout.splitlines()
    assert head.startswith("claude-1  alive, heard ")
    assert first.startswith("  S-3  alive ")
    assert first.endswith("  project vision  claude-code pid 41 on local  /src  holds T-7 (L-4)  waits for T-9, T-11")
    assert second.startswith("  S-1  silent ")
    assert second.endswith("  project vision  on local")


def test_the_log_of_an_agent_is_asked_for_by_name_and_followed(
    server: ScriptedServer, environment: dict[str, str]
) -> None:
    server.on("GET", "/api/v1/events", {"events": [samples.event("5")], "cursor": "5"})
    server.on("GET", "/events", Stream([samples.event("6", "a new one")]))
    command = [sys.executable, "-m", "warploom", "logs", "claude-2", "-f", "-n", "3", "--json"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    cursors = [json.loads(process.stdout.readline())["cursor"] for _ in range(2)]
    process.terminate()
    process.communicate(timeout=20)
    assert cursors == ["5", "6"]
    assert server.called("GET", "/api/v1/events")[0].query == "limit=3&agent=claude-2"
    assert server.called("GET", "/events")[0].query == "agent=claude-2"


@pytest.fixture
def logs(environment: dict[str, str]) -> Path:
    folder = Path(environment["WARPLOOM_HOME"]) / "logs"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", ["server", "host"])
def test_the_end_of_a_log_file_is_shown_without_a_server(warploom: Command, logs: Path, name: str) -> None:
    (logs / f"{name}.log").write_bytes(b"one\ntwo\x1b[2J\n\xff three\n")
    done = warploom("logs", f"--{name}", "-n", "2", WARPLOOM_URL=None)
    assert done.stdout == "two [2J\n\ufffd three\n"


def test_a_log_file_is_followed_also_when_it_is_begun_anew(environment: dict[str, str], logs: Path) -> None:
    file = logs / "server.log"
    file.write_text("first line\n")
    command = [sys.executable, "-m", "warploom", "logs", "--server", "-f", "--json"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == {"log": "server", "text": "first line"}
    file.write_text("new\n")
    assert json.loads(process.stdout.readline()) == {"log": "server", "text": "new"}
    process.terminate()
    process.communicate(timeout=20)


def test_a_log_file_that_is_not_there_is_one_refusal(warploom: Command) -> None:
    done = warploom("logs", "--server")
    assert done.returncode == 3
    assert done.stderr.splitlines()[1] == "`warploom up` starts the local stack, which writes it."


@pytest.mark.parametrize("arguments", [["claude-1", "--server"], ["--server", "--host"]])
def test_one_log_at_a_time(warploom: Command, arguments: list[str]) -> None:
    assert warploom("logs", *arguments).returncode == 3
