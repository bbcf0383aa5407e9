"""What heartbeats were told on the agent's behalf, kept until its next call brings it along."""

import threading
from collections.abc import Iterable


class Notices:
    """Lines that the server hands out once, so that none may get lost between a heartbeat and a tool's answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: list[str] = []

    def add(self, lines: Iterable[str]) -> None:
        """Keep some more lines, from any thread."""
        with self._lock:
            self._lines.extend(lines)

    def take(self) -> list[str]:
        """Return all lines as the agent should read them, and forget them."""
        with self._lock:
            lines, self._lines = self._lines, []
        return [f"Notice: {line}" for line in lines]
