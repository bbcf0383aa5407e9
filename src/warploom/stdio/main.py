"""Starts the MCP server of one agent session: `warploom mcp`, `warploom-mcp`, `python -m warploom.stdio`."""

import os
import signal
import sys
from types import FrameType

from warploom.stdio.wire import take_wire

_HINT = """\
This is an MCP server: an agent's client starts it and speaks to it on stdin and stdout.
`warploom init` sets that up; Ctrl-C leaves.
"""


def main() -> None:
    """Serve the client on stdin and stdout until it leaves; ends with status 0, or 2 when the settings are wrong."""
    parent = os.getppid()
    wire = take_wire()
    if os.isatty(wire.reading):
        sys.stderr.write(_HINT)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, _end)
    # Imported only now, because whatever they print while they load must not reach the wire.
    from warploom.stdio.launch import launch  # noqa: PLC0415

    os._exit(launch(wire, parent))


def _end(_: int, __: FrameType | None) -> None:
    os._exit(0)
