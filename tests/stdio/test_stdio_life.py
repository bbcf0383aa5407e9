"""The stdio server lives exactly as long as its client."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from rawclient import RawClient, environment_for
from standin import PATIENCE, StandIn

# A client that starts a stdio server, leaves its stdin to a grandchild as well, and says who they are.
CLIENT = """
import os, subprocess, sys
reading, writing = os.pipe()
server = subprocess.Popen([sys.executable, "-m", "warploom.stdio"], stdin=reading, stdout=subprocess.PIPE)
holder = subprocess.Popen(["sleep", "60"], pass_fds=[writing], stdout=subprocess.DEVNULL)
initialize = {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "codex", "version": "1"}
}
import json
for message in ({"id": 1, "method": "initialize", "params": initialize}, {"method": "notifications/initialized"}):
    os.write(writing, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")
server.stdout.readline()
print(server.pid, holder.pid, flush=True)
server.wait()
"""


def _ends(pid: int) -> bool:
    """Wait for a process that is not our child to end."""
    gone = threading.Event()
    descriptor = os.pidfd_open(pid)
    try:
        import select

        readable, _, _ = select.select([descriptor], [], [], PATIENCE)
        return bool(readable)
    finally:
        os.close(descriptor)
        gone.set()


def test_it_ends_when_its_client_closes_stdin(connect: Callable[..., RawClient]) -> None:
    """Casebook C29."""
    client = connect()
    client.introduce()

    assert client.leave() == 0


def test_it_ends_when_stdin_closes_before_anything_was_said(connect: Callable[..., RawClient]) -> None:
    assert connect().leave() == 0


def test_it_ends_when_stdin_closes_in_the_middle_of_a_call(connect: Callable[..., RawClient], server: StandIn) -> None:
    client = connect()
    client.introduce()
    client.send("tools/call", {"name": "gpu_block", "arguments": {}}, number=99)
    server.seen.until(lambda: server.seen.blocked == 1)

    assert client.leave() == 0


def test_it_ends_cleanly_when_it_is_asked_to(connect: Callable[..., RawClient]) -> None:
    client = connect()
    client.introduce()

    client.process.send_signal(signal.SIGTERM)

    assert client.ended() == 0
    assert b"Traceback" not in client.noise


def test_it_ends_with_a_killed_client_though_a_grandchild_holds_stdin_open(server: StandIn, tmp_path: Path) -> None:
    """Casebook C29: the end of the client ends it, whoever else holds its standard input open."""
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT],
        stdout=subprocess.PIPE,
        env=environment_for(server.url, tmp_path),
        cwd=tmp_path,
        text=True,
    )
    assert client.stdout is not None
    stdio_server, holder = map(int, client.stdout.readline().split())
    server.seen.until(lambda: len(server.seen.beats) > 0)
    try:
        client.kill()
        client.wait(PATIENCE)
        assert _ends(stdio_server)
    finally:
        os.kill(holder, signal.SIGKILL)
        client.stdout.close()
