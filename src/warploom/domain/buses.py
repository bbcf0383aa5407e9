"""The order of the PCI bus: which number CUDA gives a card, as far as that is certain."""

from collections.abc import Sequence

from warploom.domain.cards import Condition, KnownCard

_UNSURE = (Condition.LOST, Condition.BLIND, Condition.GONE)


def cuda_numbers(cards: Sequence[KnownCard]) -> dict[str, int]:
    """Return by UUID the numbers that CUDA gives these cards of one host under CUDA_DEVICE_ORDER=PCI_BUS_ID.

    Left out are MIG instances, which CUDA names by UUID alone, and every card from the first place on of which it is
    uncertain whether CUDA counts it: a GPU that is divided, lost or blind, or one whose own index is another.
    """
    whole = {card.pci_bus_id: card for card in cards if card.parent_uuid is None}
    if None in whole:
        return {}
    numbers: dict[str, int] = {}
    for place, bus in enumerate(sorted({card.pci_bus_id or "" for card in cards})):
        card = whole.get(bus)
        if card is None or card.condition in _UNSURE or card.index != place:
            break
        numbers[card.uuid] = place
    return numbers
