"""Uses the one visible card a little, through CUDA's driver library alone: a program of its own, because a driver may hang.

Prints one line of JSON: whether the card passed (null: it could not be tried, which says nothing of the card) and why.
"""

import ctypes
import json
import sys
from dataclasses import dataclass
from typing import Any, Final

SIZE: Final = 16 * 1024 * 1024
_LIBRARY: Final = "libcuda.so.1"
_OUT_OF_MEMORY: Final = 2
_NO_FAULT_OF_A_CARD: Final = frozenset({_OUT_OF_MEMORY, 34, 800, 801, 802, 803, 804})
"""Errors that speak against the host's software or its other programs: no memory left, a stub of the library, not permitted or
supported, the system not ready, driver and library that do not fit, compatibility mode not supported."""


@dataclass(frozen=True)
class CudaError(Exception):
    """A call that the driver refused: its number, what was being done, and CUDA's own name and words for it."""

    number: int
    step: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} while {self.step}"


def main() -> int:
    """Probe the card that CUDA_VISIBLE_DEVICES names; return 0 when it passed, else 1."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        passed, text = None, f"no CUDA driver library ({_LIBRARY}) on this host"
    else:
        passed, text = probe(library)
    print(json.dumps({"passed": passed, "text": text}), flush=True)  # noqa: T201  (this is its answer)
    return 0 if passed else 1


def probe(library: Any) -> tuple[bool | None, str]:
    """Allocate memory, copy two patterns there and back and compare them; `library` has the functions of the driver API."""
    try:
        return _try(_Driver(library))
    except CudaError as error:
        if error.number == _OUT_OF_MEMORY:
            return None, f"{error}: the card has no memory left for a probe of {SIZE // 2**20} MiB"
        return (None if error.number in _NO_FAULT_OF_A_CARD else False), str(error)


def _try(driver: "_Driver") -> tuple[bool, str]:
    if driver.count() == 0:
        return False, "CUDA does not see the card"
    context = driver.enter()
    try:
        wrong = driver.wrong_bytes()
    finally:
        driver.leave(context)
    if wrong:
        return False, f"{wrong} of {2 * SIZE} bytes came back from its memory changed"
    return True, f"{2 * SIZE // 2**20} MiB were copied to its memory and back unchanged"


class _Driver:
    """The few calls of CUDA's driver API that a probe needs; each raises CudaError."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._call("initialising", "cuInit", ctypes.c_uint(0))

    def count(self) -> int:
        found = ctypes.c_int(0)
        self._call("counting the cards", "cuDeviceGetCount", ctypes.byref(found))
        return found.value

    def enter(self) -> ctypes.c_int:
        """Make the first visible card's context the current one; return the card."""
        card, context = ctypes.c_int(0), ctypes.c_void_p(0)
        self._call("opening the card", "cuDeviceGet", ctypes.byref(card), ctypes.c_int(0))
        self._call("making a context", "cuDevicePrimaryCtxRetain", ctypes.byref(context), card)
        self._call("entering the context", "cuCtxSetCurrent", context)
        return card

    def leave(self, card: ctypes.c_int) -> None:
        """Give the context back; that it fails after another error says nothing new."""
        self._library.cuDevicePrimaryCtxRelease_v2(card)

    def wrong_bytes(self) -> int:
        """Return how many bytes of a pattern and of its inverse come back changed."""
        place = ctypes.c_uint64(0)
        self._call("allocating memory", "cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(SIZE))
        try:
            return sum(self._changed(place, pattern) for pattern in _patterns())
        finally:
            self._library.cuMemFree_v2(place)

    def _changed(self, place: ctypes.c_uint64, pattern: bytes) -> int:
        back = ctypes.create_string_buffer(SIZE)
        size = ctypes.c_size_t(SIZE)
        self._call("copying to the card", "cuMemcpyHtoD_v2", place, ctypes.c_char_p(pattern), size)
        self._call("copying from the card", "cuMemcpyDtoH_v2", back, place, size)
        return 0 if back.raw == pattern else sum(one != other for one, other in zip(back.raw, pattern, strict=True))

    def _call(self, step: str, name: str, *arguments: Any) -> None:
        number = int(getattr(self._library, name)(*arguments))
        if number:
            raise CudaError(number, step, self._name_of(number))

    def _name_of(self, number: int) -> str:
        name, words = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.cuGetErrorName(ctypes.c_int(number), ctypes.byref(name))
        self._library.cuGetErrorString(ctypes.c_int(number), ctypes.byref(words))
        told = (name.value or b"").decode(errors="replace") or f"CUDA error {number}"
        return f"{told} ({words.value.decode(errors='replace')})" if words.value else told


def _patterns() -> tuple[bytes, bytes]:
    pattern = bytes(range(256)) * (SIZE // 256)
    return pattern, bytes(255 - each for each in range(256)) * (SIZE // 256)


if __name__ == "__main__":
    sys.exit(main())
