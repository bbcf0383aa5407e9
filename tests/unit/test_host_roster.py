"""A card that vanishes is reported, never just absent."""

from dataclasses import replace

from warploom.domain.hosts import CardFact, CardFault, ProcessFact
from warploom.host.probe import Reading
from warploom.host.roster import Roster

A = CardFact("GPU-a", 0, "H200", 1000, used_mib=5, utilisation=9, processes=[ProcessFact(1, 1)])
B = CardFact("GPU-b", 1, "H200", 1000, used_mib=5)


def faults(cards: list[CardFact]) -> dict[str, CardFault | None]:
    return {card.uuid: card.fault for card in cards}


def test_cards_that_are_listed_come_as_they_are_by_index():
    assert Roster().complete(Reading([B, A])) == [A, B]


def test_a_card_that_is_not_listed_is_blind_at_first_and_lost_after_three_looks():
    roster = Roster(patience=3)
    roster.complete(Reading([A, B]))

    seen = [faults(roster.complete(Reading([B])))["GPU-a"] for _ in range(4)]

    assert seen == [CardFault.BLIND, CardFault.BLIND, CardFault.LOST, CardFault.LOST]


def test_a_missing_card_keeps_its_name_and_loses_its_readings():
    roster = Roster()
    roster.complete(Reading([A, B]))

    missing, _ = roster.complete(Reading([B]))

    assert (missing.uuid, missing.index, missing.model, missing.memory_mib) == ("GPU-a", 0, "H200", 1000)
    assert (missing.used_mib, missing.utilisation, missing.processes) == (None, None, [])
    assert missing.problem


def test_a_card_that_comes_back_has_all_its_looks_again():
    roster = Roster(patience=2)
    roster.complete(Reading([A, B]))
    roster.complete(Reading([B]))
    roster.complete(Reading([A, B]))

    assert faults(roster.complete(Reading([B])))["GPU-a"] is CardFault.BLIND


def test_cards_of_a_driver_that_does_not_answer_are_blind_for_as_long_as_that_lasts():
    roster = Roster(patience=1)
    roster.complete(Reading([A, B]))

    for _ in range(5):
        cards = roster.complete(Reading([], "the driver is away"))
        assert faults(cards) == {"GPU-a": CardFault.BLIND, "GPU-b": CardFault.BLIND}
        assert {card.problem for card in cards} == {"the driver is away"}


def test_a_missing_card_makes_room_for_one_that_took_its_index():
    roster = Roster()
    roster.complete(Reading([A, B]))

    cards = roster.complete(Reading([replace(B, index=0)]))

    assert [(card.uuid, card.index) for card in cards] == [("GPU-b", 0), ("GPU-a", 1)]


def test_a_gpu_that_is_divided_is_not_missing_and_neither_are_its_instances_once_it_is_whole():
    roster = Roster()
    roster.complete(Reading([A, B]))
    part = replace(B, uuid="MIG-b", index=200, parent_uuid="GPU-b")

    divided, whole = roster.complete(Reading([A, part])), roster.complete(Reading([A, B]))

    assert (divided, whole) == ([A, part], [A, B])
