"""Helpers for tests of the local stack: SQL through the DSN, bounded waits, an ordinary user, a look at the processes."""

import asyncio
import json
import os
import pwd
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from warploom.config import Settings
from warploom.embedded.children import command_of, every_pid
from warploom.embedded.homes import Home
from warploom.embedded.postgres import Postgres
from warploom.embedded.programs import Programs
from warploom.embedded.stack import stop
from warploom.embedded.valkey import Valkey

FOLDER = Path(__file__).parent
SOURCE = FOLDER.parent.parent / "src"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def sql(dsn, *statements):
    """Run statements in one connection and return the value of the last."""

    async def run():
        connection = await asyncpg.connect(dsn, timeout=20)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1])
        finally:
            await connection.close()

    return asyncio.run(run())


def eventually(question, seconds=30.0):
    """Return the first true answer; fail when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"{question} stayed {answer!r}"
        time.sleep(0.02)
    return answer


def processes_of(home):
    """List the command lines of what still runs for a home."""
    signs = (Home.at(home).mark, str(home))
    return [
        line
        for pid in every_pid()
        if pid != os.getpid()
        and (line := " ".join(command_of(pid)))
        and (any(sign in line for sign in signs) or _works_in(pid, home))
    ]


def _works_in(pid, home):
    try:
        return Path(f"/proc/{pid}/cwd").readlink().is_relative_to(Path(home).resolve())
    except OSError:
        return False


def settings_of(home, **values):
    """Return settings for a home, from a bare environment."""
    return Settings.load(
        {"WARPLOOM_HOME": str(home)} | {f"WARPLOOM_{name.upper()}": text for name, text in values.items()}
    )


def standins(server="server", host="host"):
    """Return programs that stand in for the server and the host agent."""
    script = str(FOLDER / "standin_program.py")
    return Programs((sys.executable, script, server), (sys.executable, script, host) if host else ())


class Script:
    """One of this folder's scripts: it says when it is ready, begins when it is told to, answers with a line of JSON."""

    def __init__(self, name, *arguments):
        command = [sys.executable, str(FOLDER / name), *(str(argument) for argument in arguments)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self._output = self._process.stdout
        assert self._output.readline() == "ready\n"

    def tell(self, word):
        """Send one line."""
        assert self._process.stdin
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def answer(self):
        """Wait for the answer."""
        return json.loads(self._output.readline())

    def finish(self):
        """Let it end."""
        self._process.communicate("end\n", timeout=60)


def at_the_same_moment(name, home, count):
    """Run a script several times at once and return the answers; the scripts end when this test does."""
    scripts = [Script(name, home) for _ in range(count)]
    for script in scripts:
        script.tell("go")
    answers = [script.answer() for script in scripts]
    for script in scripts:
        script.finish()
    return answers


def speaking(answer):
    """Say that this script is ready, wait to be told, print the answer and wait for the end."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(json.dumps(answer()) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


def pid_of(service):
    """Return the number of a service's process, which runs."""
    process = service.process
    assert process is not None
    return process.pid


def a_stranger():
    """Return a process that lives as the user Postgres runs as, and has nothing to do with it."""
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    return subprocess.Popen(["sleep", "300"], user=user, cwd="/")


def fresh_data(home):
    """Make a data folder and return it, with nothing running in it."""
    postgres = Postgres(home)
    postgres.start()
    postgres.stop()
    return postgres.data


def home_with(data, home):
    """Return a new home with a copy of a data folder: a tenth of the work of making one."""
    home.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", str(data), str(home)], check=True)
    return home


class Cleanup:
    """Stops everything of a home, and says whether it had to be asked."""

    def __init__(self, home):
        self.home = home

    def __enter__(self):
        return self.home

    def __exit__(self, *_):
        stop(settings_of(self.home))
        Valkey(self.home).stop()
        Postgres(self.home).stop()
        eventually(lambda: not processes_of(self.home))
