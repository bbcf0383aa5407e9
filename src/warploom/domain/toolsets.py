"""Toolsets: groups of tools, so that an agent sees only those it has a use for."""

from enum import StrEnum
from typing import Final

from warploom.domain.errors import MalformedInput
from warploom.domain.texts import spoken_list


class Toolset(StrEnum):
    """A group of tools; `MEANINGS` has one sentence for each."""

    GPU = "gpu"
    GRAPH = "graph"
    ADMIN = "admin"


MEANINGS: dict[Toolset, str] = {
    Toolset.GPU: "Ask for cards, use them and give them back.",
    Toolset.GRAPH: "Claim tasks, finish them, write new ones and look at how they hang together.",
    Toolset.ADMIN: "Put the graph right and keep projects; where keys are set, most of it needs the operators' key.",
}

USUAL: Final = (Toolset.GPU, Toolset.GRAPH)
"""What an agent sees where nobody says otherwise."""

HEADER: Final = "X-Warploom-Toolsets"
"""The header with which a client says which toolsets it wants."""

_EVERY: Final = "all"


def read_toolsets(text: str) -> tuple[Toolset, ...]:
    """Read 'gpu,graph' or 'all', each once and in their own order; none for an empty text."""
    names = {part.strip().lower() for part in text.split(",") if part.strip()}
    unknown = sorted(names - {_EVERY, *Toolset})
    if unknown:
        raise MalformedInput(
            f"{unknown[0][:20]!r} is not a toolset.", f"Use {spoken_list([*Toolset])} with commas between, or {_EVERY}."
        )
    return tuple(toolset for toolset in Toolset if _EVERY in names or toolset in names)
