"""A whole local stack in a throw-away home, as `warploom up` starts it, whose parts can be killed one by one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from support.invariants import ask, assert_whole
from support.serving import PATIENCE, Caller, Command, environment_of, eventually
from warploom.client.processes import is_alive
from warploom.config import Settings
from warploom.demo.stage import processes_of
from warploom.embedded.homes import Home
from warploom.embedded.postgres import Postgres
from warploom.embedded.programs import free_port
from warploom.embedded.records import Record, living
from warploom.embedded.stack import start, stop
from warploom.host.fake_cards import FakeCards


class LocalStack:
    """One home with two fake cards, or as many as `fake_gpus` says."""

    def __init__(self, home: Path, **settings: object) -> None:
        port = free_port("127.0.0.1", 0)
        self.home = Home.at(home)
        self.environment = environment_of(home, **({"fake_gpus": 2, "port": port, "survey_seconds": 0.3} | settings))
        self.settings = Settings.load(self.environment)
        self.cards = FakeCards(home)
        self.url = start(self.settings).url
        self.database_url = Postgres(home).url
        self._closing = ExitStack()
        self.anybody = self.caller(None)
        self.until_clear()

    def part(self, name: str) -> Record:
        """Return the record of a living part."""
        eventually(lambda: living(self.home, name))
        record = living(self.home, name)
        assert record is not None
        return record

    def kill(self, name: str) -> Record:
        """End a part as kill -9 does, and return what it was."""
        record = self.part(name)
        os.kill(record.process.pid, signal.SIGKILL)
        eventually(lambda: not is_alive(record.process))
        return record

    def until_replaced(self, name: str, before: Record) -> None:
        """Wait until the supervisor has started a killed part again, and the server answers."""
        eventually(lambda: self.part(name).process != before.process)
        self.until_healthy()

    def until_healthy(self) -> None:
        """Wait until the server and its database answer."""
        eventually(lambda: _answers(self.anybody))

    @contextmanager
    def unsupervised(self) -> Generator[None]:
        """Let whatever is killed stay dead for the length of a block."""
        pid = self.part("daemon").process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def lane(self, card: int) -> dict[str, Any]:
        """Return how a card stands."""
        return next(lane for lane in self.anybody.get("/rack")["hosts"][0]["cards"] if lane["index"] == card)

    def until_clear(self) -> None:
        """Wait until every card is free: what a test ended must come back."""
        eventually(lambda: len(self.anybody.get("/rack")["hosts"]) == 1)
        count = self.settings.fake_gpus
        eventually(lambda: [self.lane(card)["state"] for card in range(count)] == ["free"] * count)

    def clear(self) -> None:
        """End by SQL whatever a test before this one left when it failed."""
        ask(self.database_url, "delete from queue")
        ask(self.database_url, "update task set state = 'cancelled', finished_at = clock_now() where state = 'ready'")
        ask(self.database_url, "update lease set expires_at = clock_now() where state <> 'ended'")

    def ticket(self, name: str) -> dict[str, Any]:
        """Return how a ticket stands, by SQL: nobody is heard by it."""
        query = "select task.state::text, lease_id, outcome from task where id = $1"
        return ask(self.database_url, query, int(name[2:]))[0]

    def lease(self, name: str) -> dict[str, Any]:
        """Return how a lease stands, by SQL."""
        query = "select state::text, ended::text, expires_at - clock_now() as left from lease where id = $1"
        return ask(self.database_url, query, int(name[2:]))[0]

    def caller(self, agent: str | None) -> Caller:
        """Return an agent that speaks to the stack, or nobody in particular."""
        caller = Caller(self.url, agent)
        self._closing.callback(caller.close)
        return caller

    def command(self, *arguments: str, **settings: object) -> Command:
        """Start a `warploom` command of this home that is ended with the stack at the latest."""
        named = {f"WARPLOOM_{name.upper()}": str(value) for name, value in settings.items()}
        command = Command(arguments, self.environment | named, self.home.path)
        self._closing.callback(command.close)
        return command

    def assert_whole(self) -> None:
        """Fail when anything that must hold does not."""
        assert_whole(self.database_url)

    def close(self) -> None:
        """Stop everything."""
        self._closing.close()
        stop(self.settings)


@contextmanager
def local_stack(**settings: object) -> Generator[LocalStack]:
    """Run a stack for the length of a block; nothing of it is left running."""
    home = Path(tempfile.mkdtemp(prefix="warploom-test-", dir="/tmp")).resolve()
    stack = None
    try:
        stack = LocalStack(home, **settings)
        yield stack
    finally:
        if stack is not None:
            stack.close()
        assert processes_of(home) == []
        shutil.rmtree(home, ignore_errors=True)


TRAINING = (
    sys.executable,
    "-c",
    "import os, sys; from warploom.host.fake_context import occupy\n"
    "occupy(memory_mib=9_000)\n"
    "print(os.getpid(), os.environ['WARPLOOM_LEASE'], flush=True)\n"
    "open(sys.argv[1]).read()",
)
"""Uses its fake card until something is written to the pipe that it is given; prints its pid and its lease first."""


class Gate:
    """A pipe at which a training waits for its end."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gate"
        os.mkfifo(self.path)

    def open(self) -> None:
        """Let the training end."""
        self.path.write_text("go")


class StdioServer:
    """A stdio server whose client is this test; whoever asks one that is gone meets a ConnectionError."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "warploom", "mcp"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        info = {"name": "claude-code", "version": "1"}
        self._ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that answers."""
        return self.result(tool, **arguments)["structuredContent"]

    def result(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return what it said, which may be an error."""
        return self._ask("tools/call", name=tool, arguments=arguments)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == method:
                return answer["result"]
        raise ConnectionError("the stdio server has ended")


def _answers(caller: Caller) -> bool:
    try:
        return caller.http.get("/health").status_code == 200
    except httpx.TransportError:
        return False
