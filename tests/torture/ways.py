"""The ways in which agents ask and wait: a command in the background, a tool of a stdio server, a long poll over HTTP."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import httpx

from end_to_end.localstack import StdioServer
from support.serving import Caller, Command
from warploom.cli.exits import Exit

ANSWER_SECONDS = 30.0
_POLL_SECONDS = 20
_PAUSE = 0.3
_AGAIN = ("unreachable", "busy", "collision")

Answer = dict[str, Any]


class LeaseGone(Exception):
    """The server refused a call because its lease is not live."""


class Way(Protocol):
    """Asks for cards and waits for them, however often everything around it is away."""

    name: str
    restarts: int
    """How often what waits had to be started again."""

    def request(self, device: str, purpose: str) -> Answer:
        """Ask for a card."""
        ...

    def wait(self, ticket: str) -> Answer:
        """Wait until a ticket is no longer queued."""
        ...

    def accept(self, lease: str) -> None:
        """Take an offer up; raise LeaseGone when it is not live."""
        ...

    def release(self, lease: str) -> None:
        """Give a lease back; raise LeaseGone when it was lost."""
        ...

    def kill(self) -> bool:
        """Kill what waits now, as kill -9 does; False when nothing does."""
        ...

    def vanish(self) -> None:
        """Show no sign of life until the next call."""
        ...

    def close(self) -> None:
        """Leave nothing running."""
        ...


class LongPoll:
    """Waits by asking over HTTP again and again."""

    name = "long poll"

    def __init__(self, agent: str, url: str) -> None:
        self.restarts = 0
        self._caller = Caller(url, agent)
        self._over = threading.Event()

    def request(self, device: str, purpose: str) -> Answer:
        return self._insist("POST", "/tickets", job=purpose, device=device, purpose=purpose)

    def wait(self, ticket: str) -> Answer:
        while (answer := self._insist("GET", f"/tickets/{ticket}/wait?seconds={_POLL_SECONDS}"))["state"] == "queued":
            continue
        return answer

    def accept(self, lease: str) -> None:
        self._insist("POST", f"/leases/{lease}/accept")

    def release(self, lease: str) -> None:
        self._insist("POST", f"/leases/{lease}/release")

    def kill(self) -> bool:
        return False

    def vanish(self) -> None:
        """There is nothing that shows a sign of life by itself."""

    def close(self) -> None:
        self._over.set()

    def _insist(self, method: str, path: str, **body: Any) -> Answer:
        """Ask until there is an answer that is no reason to ask again."""
        while not self._over.is_set():
            with suppress(httpx.TransportError):
                answer = self._caller.http.request(
                    method, f"/api/v1{path}", json=body or None, timeout=_POLL_SECONDS + ANSWER_SECONDS
                )
                if answer.status_code == 200:
                    return answer.json()
                if answer.status_code == 409:
                    raise LeaseGone(answer.text)
                assert answer.status_code == 503, f"{method} {path}: {answer.status_code} {answer.text}"
            self._over.wait(_PAUSE)
        raise EOFError("the run is over")


class Background(LongPoll):
    """Waits by `warploom wait` in the background, which ends when there is something to tell."""

    name = "warploom wait"

    def __init__(self, agent: str, url: str, environment: dict[str, str], folder: Path) -> None:
        super().__init__(agent, url)
        self._environment = environment
        self._folder = folder
        self._waiter: Command | None = None

    def wait(self, ticket: str) -> Answer:
        while not self._over.is_set():
            self._waiter = waiter = Command(("wait", ticket, "--json"), self._environment, self._folder)
            try:
                status, printed, said = waiter.finish(3600)
            finally:
                self._waiter = None
                waiter.close()
            if status == Exit.DONE:
                return json.loads(printed)
            assert status == -9, f"warploom wait {ticket} ended with {status}: {printed} {said}"
            self.restarts += 1
        raise EOFError("the run is over")

    def kill(self) -> bool:
        waiter = self._waiter
        if waiter is None:
            return False
        waiter.process.kill()
        return True

    def close(self) -> None:
        super().close()
        self.kill()


class Tools:
    """Asks and waits by the tools of a stdio server, which is started again with its client after it was killed."""

    name = "gpu_wait"

    def __init__(self, environment: dict[str, str]) -> None:
        self.restarts = 0
        self._environment = environment
        self._server: StdioServer | None = None
        self._over = threading.Event()
        self._waits = False

    def request(self, device: str, purpose: str) -> Answer:
        return self._insist("gpu_request", job=purpose, device=device, purpose=purpose)

    def wait(self, ticket: str) -> Answer:
        self._waits = True
        try:
            return self._insist("gpu_wait", ticket=ticket)
        finally:
            self._waits = False

    def accept(self, lease: str) -> None:
        self._insist("gpu_report", lease=lease, step=1)

    def release(self, lease: str) -> None:
        self._insist("gpu_release", lease=lease)

    def kill(self) -> bool:
        server = self._server
        if server is None or not self._waits:
            return False
        server.process.kill()
        return True

    def vanish(self) -> None:
        self._end()

    def close(self) -> None:
        self._over.set()
        server = self._server
        if server is not None:
            server.process.kill()

    def _insist(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool until there is an answer that is no reason to call again."""
        while not self._over.is_set():
            result = self._try(lambda server: server.result(tool, **arguments))
            if result is None:
                continue
            if not result.get("isError"):
                return result["structuredContent"]
            said = result["content"][0]["text"]
            if said.startswith("lease_lost"):
                raise LeaseGone(said)
            assert said.startswith(_AGAIN), f"{tool}: {said}"
            assert tool != "gpu_wait", f"gpu_wait woke its agent for nothing: {said}"
            self._over.wait(_PAUSE)
        raise EOFError("the run is over")

    def _try(self, ask: Callable[[StdioServer], Answer]) -> Answer | None:
        """Ask the stdio server, starting it where there is none; None when it ended meanwhile."""
        try:
            if self._server is None:
                self._server = StdioServer(self._environment)
            return ask(self._server)
        except (ConnectionError, ValueError):  # it was killed, in the middle of a line perhaps
            self.restarts += 1
            self._end()
            return None

    def _end(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.kill()
