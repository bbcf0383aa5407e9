"""Reads how far a job is from the lines it prints."""

import re
from dataclasses import dataclass

_LONGEST_LINE = 2000
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COUNT = r"(\d[\d,_]{0,18})\s*(?:/|of)\s*(\d[\d,_]{0,18})"
_STEP = re.compile(rf"\b(?:global[ _])?(?:step|iter(?:ation)?)s?\b\s*[:=#]?\s*\[?\s*{_COUNT}", re.IGNORECASE)
_BAR = re.compile(r"(?<![\d.,/])(\d[\d,_]{0,18})/(\d[\d,_]{0,18})\s*\[")
_EPOCH = re.compile(rf"\bepochs?\b\s*[:=#]?\s*\[?\s*{_COUNT}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Progress:
    """Steps done and steps in all."""

    step: int
    total: int


class ProgressReader:
    """Finds the latest progress in a stream of output: `step 120/3000`, tqdm's `12/300 [`, `epoch 3/10`.

    Epochs count only until the first finer line, since the two do not share a scale.
    """

    def __init__(self) -> None:
        self._tail = ""
        self._has_steps = False

    def feed(self, output: bytes) -> Progress | None:
        """Take the next piece of output; return the last progress that a line completed by it tells, or None."""
        *lines, tail = re.split(r"[\r\n]", self._tail + output.decode(errors="replace"))
        self._tail = tail[-_LONGEST_LINE:]
        found = None
        for line in lines:
            found = self._read(line) or found
        return found

    def _read(self, line: str) -> Progress | None:
        text = _ESCAPES.sub("", line[-_LONGEST_LINE:])
        fine = _STEP.search(text) or _BAR.search(text)
        if fine is not None:
            self._has_steps = True
            return _progress(fine)
        epoch = None if self._has_steps else _EPOCH.search(text)
        return None if epoch is None else _progress(epoch)


def _progress(found: re.Match[str]) -> Progress | None:
    step, total = (int(re.sub(r"\D", "", part)) for part in found.groups())
    return Progress(step, total) if 0 <= step <= total and total >= 1 else None
