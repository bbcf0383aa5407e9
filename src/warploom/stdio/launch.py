"""Puts a session together from the settings, once the wire is safe."""

import os
import sys

import anyio

from warploom.config import Settings
from warploom.domain.errors import MalformedInput
from warploom.stdio.parent import lifeline
from warploom.stdio.session import Session
from warploom.stdio.stack import Stack
from warploom.stdio.wire import Wire


def launch(wire: Wire, parent: int) -> int:
    """Serve until the client leaves, and return the status to exit with; `parent` is who it was at the very start."""
    processes = lifeline()
    if os.getppid() != parent:
        return 0
    try:
        settings = Settings.load()
        session = Session(settings, Stack(settings), processes)
    except MalformedInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    anyio.run(session.serve, wire)
    return 0
