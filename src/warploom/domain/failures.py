"""Failures of tasks: their classes, and when an attempt is made again."""

from datetime import timedelta
from enum import StrEnum
from random import Random

from warploom.domain.errors import MalformedInput


class FailureClass(StrEnum):
    """Why an attempt failed; `MEANINGS` has one sentence for each."""

    UNKNOWN = "unknown"
    USER_ERROR = "user_error"
    INFRA = "infra"
    OOM_DEVICE = "oom_device"
    OOM_HOST = "oom_host"
    INTERRUPTED = "interrupted"


MEANINGS: dict[FailureClass, str] = {
    FailureClass.UNKNOWN: "nobody said why; tried again",
    FailureClass.USER_ERROR: "the task itself is wrong, so that trying again changes nothing; dead letter at once",
    FailureClass.INFRA: "something around it failed, such as a network or a disk; tried again",
    FailureClass.OOM_DEVICE: "the card's memory was too small; tried again",
    FailureClass.OOM_HOST: "the host's memory was too small; tried again",
    FailureClass.INTERRUPTED: "it was stopped, or its holder fell silent; tried again",
}


def parse_failure(text: str | None) -> FailureClass:
    """Read a class of failure; unknown where none is given."""
    if text is None or not text.strip():
        return FailureClass.UNKNOWN
    try:
        return FailureClass(text.strip().lower())
    except ValueError:
        raise MalformedInput(
            f"{text[:20]!r} is not a class of failure.", f"Use one of {', '.join(FailureClass)}."
        ) from None


def is_worth_trying(failure: FailureClass, attempts: int, most: int) -> bool:
    """Say whether a task that failed for the `attempts`-th time is tried again."""
    return failure is not FailureClass.USER_ERROR and attempts < most


def delay_before(attempt: int, base: timedelta, most: timedelta, random: Random) -> timedelta:
    """Return how long to wait before an attempt (2 is the first repetition).

    Exponential back-off with equal jitter: between half and the whole of base * 2^(attempt - 2), the whole being at most
    `most`.
    """
    whole = min(most, base * 2 ** min(max(attempt - 2, 0), 30))
    return whole * random.uniform(0.5, 1.0)
