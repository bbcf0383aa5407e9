"""MIG: a GPU that is divided is leased in its instances and not as a whole; one that is whole has no instances."""

from collections.abc import Iterable, Sequence
from typing import Final

from warploom.domain.cards import Condition, KnownCard
from warploom.domain.errors import Impossible
from warploom.domain.hosts import CardFact
from warploom.domain.texts import spoken_list

INSTANCES_FROM: Final = 100
"""The instances of the card at place n of its host are numbered from (n + 1) times this on."""


def say_divided(uuid: str, parent_uuid: str | None, listed: Iterable[CardFact]) -> str | None:
    """Say why a card that its driver no longer lists is not lost: its GPU is divided otherwise by now. None where it is not."""
    instances = [
        card.index for card in listed if card.parent_uuid is not None and card.parent_uuid in (uuid, parent_uuid)
    ]
    if instances and parent_uuid is None:
        return f"it is divided into the MIG instances {spoken_list([str(index) for index in sorted(instances)])}"
    is_whole = parent_uuid is not None and any(card.uuid == parent_uuid for card in listed)
    if instances or is_whole:
        return "it was a MIG instance of a GPU that is divided otherwise by now"
    return None


def refuse_divided(name: str, cards: Sequence[KnownCard]) -> None:
    """Raise Impossible when this is the name or the UUID of a GPU of which only the instances are known."""
    parts = [card for card in cards if card.parent_uuid is not None and name in (_whole_name(card), card.parent_uuid)]
    if parts:
        raise Impossible(
            f"{name[:60]} is divided into MIG instances, which are leased one by one.",
            f"Ask for one of them: {spoken_list([card.name for card in parts])}.",
        )


def _whole_name(instance: KnownCard) -> str:
    return f"{instance.host}/{instance.index // INSTANCES_FROM - 1}"


def refuse_instances(chosen: Sequence[KnownCard]) -> None:
    """Raise Impossible for what MIG does not allow: several instances in one lease, or a card that is not there as such."""
    gone = [card for card in chosen if card.condition is Condition.GONE]
    if gone:
        raise Impossible(
            f"{gone[0].name} cannot be leased: {gone[0].condition_detail or 'its GPU is divided otherwise by now'}.",
            "Name a card that `gpu_survey` or `warploom status` shows, or take any.",
        )
    instances = [card.name for card in chosen if card.parent_uuid is not None]
    if instances and len(chosen) > 1:
        raise Impossible(
            f"{spoken_list(instances)} cannot be one of several cards of a lease: a process can use only one MIG instance.",
            "Ask for one instance at a time, or for several whole cards.",
        )


def fit_for(count: int, cards: Iterable[KnownCard]) -> list[KnownCard]:
    """Leave out what is not there as such, and MIG instances where several cards are needed together."""
    return [card for card in cards if card.condition is not Condition.GONE and (count == 1 or card.parent_uuid is None)]
