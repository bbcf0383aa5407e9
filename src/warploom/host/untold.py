"""Keeps what a driver tells only once until the server has heard it."""

from dataclasses import replace

from warploom.domain.hosts import CardFact
from warploom.domain.xids import MOST_XIDS


class Untold:
    """The Xids of each card since the last survey that was answered; the latest, where there are very many."""

    def __init__(self) -> None:
        self._xids: dict[str, list[int]] = {}

    def add_to(self, cards: list[CardFact]) -> list[CardFact]:
        """Return the cards with every Xid that the server may not know yet, and keep those of this look too."""
        for card in cards:
            if card.xids:
                self._xids[card.uuid] = [*self._xids.get(card.uuid, []), *card.xids][-MOST_XIDS:]
        return [replace(card, xids=list(self._xids[card.uuid])) if card.uuid in self._xids else card for card in cards]

    def clear(self) -> None:
        """Forget what the server has heard. An answer that was lost on its way lets it hear the same once more."""
        self._xids.clear()
