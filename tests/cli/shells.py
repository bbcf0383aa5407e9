"""Agents' and people's commands against a real server, each of a session of its own."""

import json
from typing import Any

from support.serving import Command, ServerProcess, StartCommand


class Shell:
    """One session's commands; every answer is read as JSON."""

    def __init__(self, start: StartCommand, url: str, session: str) -> None:
        self._start = start
        self._url = url
        self.session = session

    def start(self, *arguments: str) -> Command:
        """Start a command that runs beside the test."""
        return self._start(*arguments, url=self._url, session=self.session, agent=self.session)

    def run(self, *arguments: str, status: int = 0) -> Any:
        """Run a command to its end and return what it prints."""
        code, printed, said = self.start(*arguments, "--json").finish()
        assert code == status, (printed, said)
        return json.loads(printed)

    def state(self, task: str) -> tuple[str, str | None]:
        """Return a task's state and its lease."""
        answer = self.run("status", task)
        return answer["state"], answer["lease"]

    def events(self, kind: str) -> list[str]:
        """Return the tasks of the events of one kind, oldest first."""
        code, printed, _ = self.start("events", "-n", "200", "--json").finish()
        assert code == 0
        return [event["ticket"] for event in map(json.loads, printed.splitlines()) if event["kind"] == kind]


def again(server: ServerProcess) -> None:
    """Start a server again that was killed."""
    server.start()
    server.until_healthy()
