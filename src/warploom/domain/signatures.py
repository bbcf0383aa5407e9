"""Signatures: words in an error text with which drivers and runtimes speak of broken hardware, and never of a program's mistake."""

import re
from dataclasses import dataclass
from typing import Final

from warploom.domain.xids import is_hardware

_LONGEST: Final = 4000

_HINT: Final = re.compile(
    r"ecc|uncorrect|off the bus|is.lost|xid|nvlink|unavailable|no (?:cuda|rocm)|nodevice|no_device|initialization|214|220",
    re.IGNORECASE,
)
_XID: Final = re.compile(r"\bxid\b(?: ?\([^()]{0,60}\))? ?[:=]? ?(\d{1,5})\b", re.IGNORECASE)


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_CERTAIN: Final = (
    (
        _words(
            r"(?<!\b0 )(?<!\bno )uncorrectable ecc error(?!s?\W{0,3}(?:count\W{0,3})?0\b)",
            r"ecc_?uncorrectable|eccnotcorrectable",
            r"double[ -]bit ecc error(?!s?\W{0,3}0\b)",
            r"(?<!\bno )uncorrectable hardware errors? detected",
            r"\b(?:cuda|hip)[ _]?error\W{0,3}(?:code\W{0,3})?214\b",
        ),
        "a memory error that could not be corrected",
    ),
    (_words(r"fallen off the bus"), "the card has fallen off the bus"),
    (_words(r"(?:\b|_)gpu[ _]is[ _]lost\b"), "the card is lost"),
    (
        _words(
            r"uncorrectable nvlink error|nvlink_?uncorrectable|nvlink fatal error",
            r"\bcuda[ _]?error\W{0,3}(?:code\W{0,3})?220\b",
        ),
        "an NVLink error that could not be corrected",
    ),
)
_LIKELY: Final = (
    (
        _words(
            r"capable device(?:\(s\)|s)? (?:is|are|is/are) busy or unavailable",
            r"errordevices?unavailable|error_device_unavailable",
        ),
        "the card is busy or unavailable",
    ),
    (
        _words(r"no (?:cuda|rocm)-capable device", r"\b(?:cuda|hip)errornodevice\b|\bcuda_error_no_device\b"),
        "no card was found",
    ),
    (
        _words(
            r"\b(?:cuda|hip)(?: runtime)? error\W{1,4}(?:\w+\W{1,3})?initialization error",
            r"\b(?:cuda|hip)errorinitializationerror\b",
        ),
        "the card could not be initialised",
    ),
)


@dataclass(frozen=True, slots=True)
class Signature:
    """What an error text says of the hardware. What is not certain may also come of how a program was started."""

    words: str
    is_certain: bool


def find_signature(text: str) -> Signature | None:
    """Return what a text says of broken hardware; None for everything else, such as too little memory or a bad address.

    Reads the first few thousand characters, in time that grows with their number alone.
    """
    line = " ".join(text[:_LONGEST].split())
    if _HINT.search(line) is None:
        return None
    xid = next((int(found[1]) for found in _XID.finditer(line) if is_hardware(int(found[1]))), None)
    if xid is not None:
        return Signature(f"Xid {xid}", is_certain=True)
    return _first(line, _CERTAIN, is_certain=True) or _first(line, _LIKELY, is_certain=False)


def _first(line: str, known: tuple[tuple[re.Pattern[str], str], ...], *, is_certain: bool) -> Signature | None:
    return next((Signature(words, is_certain) for pattern, words in known if pattern.search(line)), None)
