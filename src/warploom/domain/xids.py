"""Xids: the numbers with which NVIDIA's driver tells of critical errors of a card, in words, and which speak against the card.

The words and the judgement follow NVIDIA's Xid catalog, https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

MOST_XIDS: Final = 32
"""How many Xids of one card a survey tells at most."""
LARGEST_XID: Final = 2**31 - 1

HARDWARE: Final[dict[int, str]] = {
    46: "the card stopped processing",
    48: "a memory error that could not be corrected",
    54: "the card's power is not connected",
    62: "a micro-controller of the card has halted",
    64: "bad memory could not be remapped",
    74: "an error of an NVLink",
    79: "the card has fallen off the bus",
    94: "a memory error that could not be corrected, kept within one job",
    95: "a memory error that could not be corrected, and is not kept within one job",
    110: "a security fault of the card",
    119: "the card's system processor does not answer",
    120: "an error of the card's system processor",
    136: "a link could not be trained",
    140: "a memory error that nothing recovered from",
    143: "the card could not be initialised",
    155: "an NVLink error that software defines",
    156: "a part of the card is retired, from its next reset on",
    158: "the card does not answer in time any more",
    171: "an error of the card's main memory that could not be corrected",
    172: "an error of the card's on-chip memory that could not be corrected",
}
"""What takes the card from the next job too, until it is reset, restarted or exchanged."""

NOTED: Final[dict[int, str]] = {
    8: "a job stopped processing",
    11: "an invalid command stream",
    13: "an exception of the graphics engine",
    25: "an illegal command stream",
    31: "a page fault in the card's memory",
    32: "a corrupted command stream",
    37: "an error of the driver's firmware",
    38: "the driver's firmware did not answer in time",
    39: "an exception of a copy engine",
    40: "an exception of a copy engine",
    41: "an exception of a copy engine",
    43: "a job was stopped after an error of its own",
    44: "a fault while jobs took turns",
    45: "a job was cleaned up after an earlier error",
    60: "an exception of a video processor",
    63: "bad memory was remapped",
    66: "an illegal access by the driver",
    67: "an illegal access by the driver",
    68: "an exception of a video decoder",
    69: "a class error of the graphics engine",
    80: "corrupted data was sent to the card",
    92: "many memory errors that were corrected",
    93: "the card's information memory is worn",
    109: "jobs could not take turns in time",
    121: "an error between chips",
    137: "a forbidden access over NVLink",
    141: "an error of CUDA's fast path",
    151: "keys could not be changed",
    154: "the driver recommends another way to recover",
    157: "a part of the card could not be retired",
}
"""What a program, the driver or nobody is to blame for: the next job may run well on the card."""


def is_hardware(xid: int) -> bool:
    """Say whether an Xid speaks against the card; one that is not known does not."""
    return xid in HARDWARE


def say_xid(xid: int) -> str:
    """Name an Xid and say what it means: 'Xid 79: the card has fallen off the bus'."""
    words = HARDWARE.get(xid) or NOTED.get(xid)
    return f"Xid {xid}: {words}" if words else f"Xid {xid}"


def say_xids(xids: Sequence[int]) -> str:
    """Name Xids in the order in which they came, each once, with how often where that is more."""
    return "; ".join(_counted(say_xid(xid), times) for xid, times in Counter(xids).items())


def hardware_xids(xids: Iterable[int]) -> list[int]:
    """Return those that speak against the card."""
    return [xid for xid in xids if is_hardware(xid)]


def _counted(words: str, times: int) -> str:
    return words if times == 1 else f"{words} ({times} times)"
