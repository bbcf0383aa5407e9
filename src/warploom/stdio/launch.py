"""Puts a session together from the settings, once the wire is safe."""

import os
import sys

import anyio

from warploom.client.connection import Client
from warploom.config import Settings
from warploom.domain.errors import MalformedInput
from warploom.stdio.parent import lifeline
from warploom.stdio.stack import Stack
from warploom.stdio.wire import Wire


def launch(wire: Wire, parent: int) -> int:
    """Serve until the client leaves, and return the status to exit with; `parent` is who it was at the very start."""
    processes = lifeline()
    if os.getppid() != parent:
        return 0
    try:
        settings = Settings.load()
        stack = Stack(settings)
        Client(stack.url()).close()  # an address that makes no sense is told of now, not in each call
    except MalformedInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if stack.is_ours:
        stack.start()
    # The protocol takes most of a second to load, in which the stack is already starting.
    from warploom.stdio.session import Session  # noqa: PLC0415

    session = Session(settings, stack, processes)
    anyio.run(session.serve, wire)
    return 0
