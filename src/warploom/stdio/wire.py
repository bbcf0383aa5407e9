"""Takes stdin and stdout for the protocol alone, so that a print anywhere in the process cannot break it."""

import fcntl
import os
import sys
from dataclasses import dataclass

_FIRST_FREE = 3


@dataclass(frozen=True, slots=True)
class Wire:
    """The descriptors the client listens on; no subprocess inherits them."""

    reading: int
    writing: int


def take_wire() -> Wire:
    """Move the protocol to private descriptors; descriptor 1 becomes stderr, descriptor 0 the null device.

    Call it before anything else is imported. What was printed before and still lies in the buffer of `sys.stdout`
    (a `sitecustomize`, say) goes to stderr as well, since the buffer is emptied only after its descriptor has moved.
    """
    wire = Wire(_private(0), _private(1))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2 if _is_open(2) else null, 1)
    os.close(null)
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]  (None where 1 was closed)
        sys.stdout.flush()
    sys.stdout = sys.stderr
    return wire


def _private(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
