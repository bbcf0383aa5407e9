"""Which number CUDA gives a card in the order of the PCI bus, where that is certain (casebook C03)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from support.lab import bus
from warploom.domain.buses import cuda_numbers
from warploom.domain.cards import Condition, KnownCard, Service
from warploom.domain.identifiers import CardId, HostId

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def card(index: int, place: int | None = None, **facts: Any) -> KnownCard:
    known: dict[str, Any] = {
        "card": CardId(index + 1),
        "host_id": HostId(1),
        "host": "local",
        "index": index,
        "uuid": f"GPU-{index}",
        "model": "H200",
        "memory_mib": 1000,
        "service": Service.IN_SERVICE,
        "service_reason": None,
        "service_since": NOW,
        "condition": Condition.CLEAR,
        "condition_since": NOW,
        "condition_detail": None,
        "observed_at": NOW,
        "is_fresh": True,
        "used_mib": 0,
        "utilisation": 0,
        "processes": [],
        "holder": None,
        "pci_bus_id": bus(index if place is None else place),
    }
    return KnownCard(**(known | facts))


def test_cards_are_numbered_in_the_order_of_the_bus() -> None:
    assert cuda_numbers([card(2), card(0), card(1)]) == {"GPU-0": 0, "GPU-1": 1, "GPU-2": 2}


@pytest.mark.parametrize("condition", [Condition.LOST, Condition.BLIND, Condition.GONE])
def test_what_follows_a_card_that_cuda_may_leave_out_has_no_certain_number(condition: Condition) -> None:
    assert cuda_numbers([card(0), card(1, condition=condition), card(2)]) == {"GPU-0": 0}


def test_a_mig_instance_has_no_number_and_what_follows_its_gpu_neither() -> None:
    instance = card(200, place=1, parent_uuid="GPU-1")
    assert cuda_numbers([card(0), instance, card(2)]) == {"GPU-0": 0}


def test_an_index_that_is_not_the_place_on_the_bus_is_not_trusted() -> None:
    assert cuda_numbers([card(0, place=1), card(1, place=0)]) == {}


def test_without_bus_ids_nothing_is_certain() -> None:
    assert cuda_numbers([card(0), card(1, pci_bus_id=None)]) == {}
