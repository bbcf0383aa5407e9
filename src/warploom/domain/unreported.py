"""What the driver of a card does not report, and what that costs: N/A is unknown, never 0."""

from collections.abc import Callable, Sequence
from typing import Final

from warploom.domain.cards import Condition, KnownCard
from warploom.domain.texts import spoken_list

_UNREAD: Final = (Condition.LOST, Condition.BLIND, Condition.GONE)
_READINGS: Final[dict[str, Callable[[KnownCard], bool]]] = {
    "how much {cards} is used is not reported: nobody is called idle there": lambda card: card.utilisation is None,
    "how much memory of {cards} is in use is not reported: it counts as clear once its processes are gone, though their memory "
    "may still drain, and no ghost is seen there": lambda card: card.used_mib is None,
    "how much memory each process on {cards} holds is not reported: what an ignored one holds cannot be told from what "
    "somebody else does": lambda card: any(process.memory_mib is None for process in card.processes),
    "which processes use {cards} is not reported: other people's use shows by the memory that it takes, and cannot be "
    "named": lambda card: card.hides_processes,
}


def tell_unreported(cards: Sequence[KnownCard]) -> list[str]:
    """Say of the cards of one host, a sentence for each reading, what is not reported; a card that cannot be read at all is left out."""
    read = [card for card in cards if card.condition not in _UNREAD and not card.is_stale]
    return [
        sentence.format(cards=spoken_list(silent))
        for sentence, is_silent in _READINGS.items()
        if (silent := [card.name for card in read if is_silent(card)])
    ]
