"""Remembers which cards a host has, so that one that vanishes is reported and never just absent."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from warploom.domain.hosts import CardFact, CardFault
from warploom.domain.instances import say_divided
from warploom.host.probe import Reading

PATIENCE = 3


class Roster:
    """The cards seen so far. A card that is not listed for `patience` looks in a row is lost; before that it is blind."""

    def __init__(self, patience: int = PATIENCE) -> None:
        self._patience = patience
        self._known: dict[str, CardFact] = {}
        self._missed: dict[str, int] = {}

    def complete(self, reading: Reading) -> list[CardFact]:
        """Return the cards of a reading and those missing from it, by index; no two have the same index."""
        listed = {card.uuid: card for card in reading.cards}
        self._known |= {uuid: replace(card, xids=[]) for uuid, card in listed.items()}
        self._known = {uuid: card for uuid, card in self._known.items() if not _is_gone(card, listed)}
        missing = [self._missing(uuid, reading.problem) for uuid in self._known if uuid not in listed]
        self._missed = {uuid: count for uuid, count in self._missed.items() if uuid not in listed}
        return sorted([*listed.values(), *_renumbered(missing, listed.values())], key=lambda card: card.index)

    def _missing(self, uuid: str, problem: str | None) -> CardFact:
        if problem is not None:
            return faulty(self._known[uuid], CardFault.BLIND, problem)
        looks = self._missed[uuid] = self._missed.get(uuid, 0) + 1
        if looks < self._patience:
            told = f"the driver no longer lists it (look {looks} of {self._patience} before it counts as lost)"
            return faulty(self._known[uuid], CardFault.BLIND, told)
        return faulty(
            self._known[uuid],
            CardFault.LOST,
            "the driver no longer lists it; a restart of the machine, once its other jobs are done, may bring it back",
        )


def _is_gone(card: CardFact, listed: Mapping[str, CardFact]) -> bool:
    """Say whether a card is not missing at all: its GPU is divided otherwise by now."""
    return card.uuid not in listed and say_divided(card.uuid, card.parent_uuid, listed.values()) is not None


def faulty(card: CardFact, fault: CardFault, problem: str) -> CardFact:
    """Return what is left to say of a card that cannot be read: which it is, and why nothing else is known."""
    return replace(
        card,
        used_mib=None,
        utilisation=None,
        temperature=None,
        ecc_errors=None,
        processes=[],
        fault=fault,
        problem=problem,
    )


def _renumbered(missing: list[CardFact], listed: Iterable[CardFact]) -> list[CardFact]:
    """Give a missing card a number after all others when a listed one has moved up to its own."""
    taken = {card.index for card in listed}
    kept: list[CardFact] = []
    for card in missing:
        index = card.index if card.index not in taken else max(taken) + 1
        taken.add(index)
        kept.append(replace(card, index=index))
    return kept
