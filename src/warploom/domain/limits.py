"""What a host agent cannot know where it runs, what that costs, and what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Limit(StrEnum):
    """Each thing that makes a host's surveys tell less; `WORDS` says what."""

    WSL = "wsl"
    CONTAINER = "container"
    OTHER_USERS = "other_users"
    HIDDEN_PROCESSES = "hidden_processes"
    NO_PROC = "no_proc"
    AMD_CARDS = "amd_cards"
    APPLE = "apple"


@dataclass(frozen=True, slots=True)
class Words:
    """How a limit is said: in a few words, in a sentence with what it costs, and what to do.

    `naming` says in a reason why a process cannot be named, where that is the cause.
    """

    short: str
    text: str
    fix: str
    naming: str | None = None


WORDS: Final[dict[Limit, Words]] = {
    Limit.WSL: Words(
        "WSL",
        "it runs under WSL, whose driver may report neither utilisation nor the processes and their memory: nobody is called idle "
        "by what is not reported, and other people's use shows by the memory that it takes",
        "Leases and queues work as they are; only Linux without WSL gives every guarantee.",
        "its host runs under WSL",
    ),
    Limit.CONTAINER: Words(
        "a container",
        "its host agent runs in a container with process numbers of its own: processes outside cannot be named, and count by "
        "the memory that they take",
        "Start it with the host's process numbers: `docker run --pid=host …`, or hostPID: true in Kubernetes.",
        "its host agent runs in a container; started with `--pid=host` it could name it",
    ),
    Limit.OTHER_USERS: Words(
        "other users' environments",
        "its host agent may not read the environment of other users' processes: those of a lease are known by their ancestors "
        "alone, and count as somebody else's once they have left these",
        "Nothing where one user runs every job; otherwise start the host agent as root, or with CAP_SYS_PTRACE.",
    ),
    Limit.HIDDEN_PROCESSES: Words(
        "hidden processes",
        "/proc hides other users' processes from its host agent (hidepid): they cannot be named, and count by the memory that "
        "they take",
        "Start the host agent as root, or as a member of the group that the option gid= of /proc names.",
        "/proc hides other users' processes from its host agent",
    ),
    Limit.NO_PROC: Words(
        "no /proc",
        "its host agent has no /proc: no process can be named, and all count by the memory that they take",
        "Mount /proc where the host agent runs.",
        "its host agent has no /proc",
    ),
    Limit.AMD_CARDS: Words(
        "AMD cards",
        "AMD cards are here, but this version reads only NVIDIA's: they are not listed, and nothing is granted on them",
        "Requests for other cards, and tasks that need none, work as they are.",
    ),
    Limit.APPLE: Words(
        "an Apple GPU",
        "the GPU of an Apple machine is not shared by this version",
        "Requests for other hosts' cards, and tasks that need none, work as they are.",
    ),
}
_UNREAD: Final = (Limit.AMD_CARDS, Limit.APPLE)
_REST: Final = "Everything else works; try WARPLOOM_FAKE_GPUS=2 warploom up"


def words_of(codes: Iterable[str]) -> list[Words]:
    """Return the words for what a host told; a code that this version does not know is passed over."""
    known = {limit.value: words for limit, words in WORDS.items()}
    return [known[code] for code in codes if code in known]


def say_unnamed(codes: Iterable[str]) -> str | None:
    """Say why a process on a host may be one that cannot be named; None where nothing is known against it."""
    return next((words.naming for words in words_of(codes) if words.naming is not None), None)


def say_unread(limits: Sequence[Limit]) -> str | None:
    """Say of a machine without a driver which cards it has instead that cannot be read; None when it has none."""
    unread = next((limit for limit in limits if limit in _UNREAD), None)
    return None if unread is None else f"{WORDS[unread].text}. {_REST}"


def without_unread(limits: Sequence[Limit]) -> list[Limit]:
    """Return the limits but those that `say_unread` tells of."""
    return [limit for limit in limits if limit not in _UNREAD]
