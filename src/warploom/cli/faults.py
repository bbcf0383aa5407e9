"""Reads from the lines a job prints whether they speak of broken hardware."""

import re

from warploom.domain.signatures import find_signature

_LONGEST_LINE = 2000
_KEPT = 300
_HINT = re.compile(
    rb"ecc|uncorrect|off the bus|is.lost|xid|nvlink|unavailable|no (?:cuda|rocm)|nodevice|no_device|initialization",
    re.IGNORECASE,
)


class FaultReader:
    """Keeps the last line of a stream of output that speaks of broken hardware."""

    def __init__(self) -> None:
        self.line: str | None = None
        self._tail = b""

    def feed(self, output: bytes) -> None:
        """Take the next piece of output; pieces without a word of that kind cost one search."""
        seen = self._tail + output
        self._tail = re.split(rb"[\r\n]", seen)[-1][-_LONGEST_LINE:]
        if _HINT.search(seen) is None:
            return
        for line in re.split(rb"[\r\n]", seen):
            text = line[-_LONGEST_LINE:].decode(errors="replace")
            if find_signature(text) is not None:
                self.line = " ".join(text.split())[-_KEPT:]
