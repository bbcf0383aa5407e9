"""Speaks raw JSON-RPC with a stdio server, so that a test sees every byte it writes."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from standin import PATIENCE

COMMAND = (sys.executable, "-m", "warploom.stdio")


class RawClient:
    """A client that keeps every line it receives. `lines` is all of the server's stdout."""

    def __init__(self, environment: dict[str, str], directory: Path, command: tuple[str, ...] = COMMAND) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=directory,
        )
        self.lines: list[bytes] = []
        self.noise = b""
        self._changed = threading.Condition()
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_noise)]
        for reader in self._readers:
            reader.start()
        self._next = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()

    def _read_noise(self) -> None:
        assert self.process.stderr is not None
        self.noise = self.process.stderr.read()

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.lines)]

    def send(self, method: str, params: dict[str, Any] | None = None, number: int | None = None) -> None:
        assert self.process.stdin is not None
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        numbered = message if number is None else message | {"id": number}
        self.process.stdin.write(json.dumps(numbered).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._next += 1
        number = self._next
        self.send(method, params, number)
        return self.expect(lambda message: message.get("id") == number)

    def expect(self, is_it: Any) -> dict[str, Any]:
        """Return the first message for which `is_it` holds, waiting for it."""

        def found() -> list[dict[str, Any]]:
            return [message for message in self.messages() if is_it(message)]

        with self._changed:
            assert self._changed.wait_for(found, PATIENCE), f"no such message; stderr was {self.noise.decode()}"
        return found()[0]

    def introduce(self, name: str = "claude-code") -> dict[str, Any]:
        client = {"name": name, "version": "2.0"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        answer = self.ask("initialize", params)
        self.send("notifications/initialized")
        return answer["result"]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]

    def leave(self) -> int:
        """Close stdin and return the status the server ends with."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.ended()

    def ended(self) -> int:
        status = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def environment_for(url: str | None, home: Path, **further: str) -> dict[str, str]:
    """The environment of a session: nothing of Warploom but what is given here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WARPLOOM_")}
    kept |= {"WARPLOOM_HOME": str(home), "WARPLOOM_LEASE_MINUTES": "0.02"}
    return kept | ({"WARPLOOM_URL": url} if url else {}) | further
