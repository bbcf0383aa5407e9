"""Real processes that use fake cards as a training does."""

import subprocess

TRAINS = """
import sys
from warploom.host.fake_context import occupy
context = occupy({memory_mib}, {utilisation}, device={device})
print(context.uuid, flush=True)
for line in sys.stdin:
    context.vacate()
    print("vacated", flush=True)
"""


DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"


class Training:
    """A real process on a fake card."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.pid = process.pid
        self._in, self._out = process.stdin, process.stdout
        self.uuid = self._out.readline().strip()

    def vacate(self) -> None:
        """Let it give its card back while it runs on."""
        self._in.write("vacate\n")
        self._in.flush()
        assert self._out.readline() == "vacated\n"

    def end(self) -> None:
        """Kill it and wait until it is gone."""
        self.process.kill()
        self.process.wait(10)
        self._in.close()
        self._out.close()
