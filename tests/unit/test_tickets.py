from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.cards import Condition, KnownCard, Service
from warploom.domain.errors import Impossible, MalformedInput, NotFound
from warploom.domain.identifiers import CardId, HostId
from warploom.domain.leases import EnvStyle
from warploom.domain.standings import Wish
from warploom.domain.tasks import HeadStarts, Priority, parse_priority
from warploom.domain.tickets import CardNeed, card_by_name, fitting_cards, parse_need, read_wish, resolve_cards

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def card(number: int, host: str = "local", index: int | None = None, **facts: Any) -> KnownCard:
    known = KnownCard(
        card=CardId(number),
        host_id=HostId(sum(map(ord, host))),
        host=host,
        index=number if index is None else index,
        uuid=f"GPU-{host}-{number:04}",
        model="NVIDIA H200",
        memory_mib=141 * 1024,
        service=Service.IN_SERVICE,
        service_reason=None,
        service_since=NOW,
        condition=Condition.CLEAR,
        condition_since=NOW,
        condition_detail=None,
        observed_at=NOW,
        is_fresh=True,
        used_mib=0,
        utilisation=0,
        processes=[],
        holder=None,
    )
    return replace(known, **facts)


LOCAL = [card(0), card(1), card(2, memory_mib=24 * 1024, model="NVIDIA RTX 3090")]
TWO_HOSTS = [card(10, "rack-a", 0), card(11, "rack-a", 1), card(20, "rack-b", 0)]


def resolve(device: str, rack: Sequence[KnownCard] = LOCAL, home: str | None = "local", **need: Any) -> list[int]:
    wanted = {"cards": 1, "memory_gib": None, "model": None} | need
    return [int(number) for number in resolve_cards(parse_need(device, **wanted), rack, home)]


@pytest.mark.parametrize("name", ["1", " 1 ", "01", "local/1", "GPU-local-0001", "gpu-local-0001"])
def test_a_card_is_found_by_index_by_name_and_by_uuid(name: str) -> None:
    assert resolve(name) == [1]


def test_a_uuid_may_be_cut_short_while_it_names_one_card() -> None:
    assert resolve("GPU-rack-b", TWO_HOSTS) == [20]
    with pytest.raises(NotFound):
        resolve("GPU-rack-a", TWO_HOSTS)


@pytest.mark.parametrize("name", ["7", "local/9", "rack/0", "GPU-nobody", "GPU", "\ud800", "a\x00b", "<b>", "-1"])
def test_an_unknown_card_is_refused_with_the_cards_there_are(name: str) -> None:
    with pytest.raises(NotFound) as refusal:
        resolve(name)
    assert "local/0, local/1 and local/2" in refusal.value.next_step
    str(refusal.value).encode()


def test_a_bare_index_means_the_callers_own_host() -> None:
    assert resolve("0", TWO_HOSTS, home="rack-b") == [20]
    with pytest.raises(MalformedInput, match="could be on rack-a and rack-b"):
        resolve("0", TWO_HOSTS, home=None)


def test_a_name_that_two_cards_bore_means_the_one_that_is_there() -> None:
    gone = card(3, index=0, condition=Condition.LOST, uuid="GPU-old")
    assert card_by_name("local/0", [gone, *LOCAL]).card == 0


def test_any_takes_every_card_that_fits() -> None:
    assert resolve("any") == [0, 1, 2]
    assert resolve("ANY", memory_gib=80) == [0, 1]
    assert resolve("any", model="rtx 3090") == [2]
    assert resolve("any", model="h200", cards=2) == [0, 1]


def test_several_cards_are_wanted_of_a_host_that_has_as_many() -> None:
    assert resolve("any", TWO_HOSTS, cards=2) == [10, 11]


def test_named_cards_are_wanted_together() -> None:
    assert parse_need("0,1", 1, None, None) == CardNeed(("0", "1"), 2)
    assert parse_need("0,1", 2, None, None) == CardNeed(("0", "1"), 2)
    assert parse_need("0, 0,", 1, None, None) == CardNeed(("0",), 1)
    assert resolve("0,local/1") == [0, 1]


@pytest.mark.parametrize(
    ("device", "need", "cause", "next_step"),
    [
        ("any", {"memory_gib": 200}, "No card has 200 GiB; the largest, local/0 and local/1, have 141 GiB.", "141 GiB"),
        ("any", {"model": "B300"}, "No card is a 'B300'.", "NVIDIA H200 and NVIDIA RTX 3090"),
        ("any", {"cards": 4}, "No host has 4 such cards; the most on one host is 3.", "at most 3"),
        ("any", {"cards": 3, "memory_gib": 80}, "No host has 3 such cards; the most on one host is 2.", "at most 2"),
        ("2", {"memory_gib": 80}, "local/2 has 24 GiB, less than the 80 GiB asked for.", "any"),
        ("0,2", {"memory_gib": 80}, "local/2 has 24 GiB, less than the 80 GiB asked for.", "any"),
    ],
)
def test_what_could_never_be_had_is_refused_with_the_most_that_could(
    device: str, need: dict[str, Any], cause: str, next_step: str
) -> None:
    with pytest.raises(Impossible) as refusal:
        resolve(device, **need)
    assert refusal.value.cause == cause
    assert next_step in refusal.value.next_step


def test_cards_of_two_hosts_cannot_be_held_by_one_lease() -> None:
    with pytest.raises(Impossible, match="cannot span hosts"):
        resolve("rack-a/0,rack-b/0", TWO_HOSTS)


def test_the_same_card_under_two_names_is_refused() -> None:
    with pytest.raises(MalformedInput, match="named twice"):
        resolve("0,local/0")


def test_without_any_card_every_request_is_refused_with_what_to_start() -> None:
    with pytest.raises(Impossible, match="No host has reported a card") as refusal:
        resolve("0", [])
    assert "warploom up" in refusal.value.next_step


@pytest.mark.parametrize(
    ("device", "cards", "memory_gib"),
    [
        ("", 1, None),
        (" , ,", 1, None),
        ("x" * 121, 1, None),
        (",".join(map(str, range(65))), 1, None),
        ("1" * 1_000_000, 1, None),
        ("any", 0, None),
        ("any", -1, None),
        ("any", 65, None),
        ("any", 10**30, None),
        ("0,1", 3, None),
        ("0,0", 2, None),
        ("any", 1, 0.0),
        ("any", 1, -4.0),
        ("any", 1, float("nan")),
        ("any", 1, float("inf")),
        ("any", 1, 1e300),
    ],
)
def test_a_need_that_makes_no_sense_is_refused(device: str, cards: int, memory_gib: float | None) -> None:
    with pytest.raises(MalformedInput) as refusal:
        parse_need(device, cards, memory_gib, None)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("gib", [1e-9, 0.0001, 0.5, 22.4])
def test_an_amount_of_memory_is_at_least_one_mib(gib: float) -> None:
    assert (parse_need("any", 1, gib, None).memory_mib or 0) >= 1


@pytest.mark.parametrize(
    ("text", "priority"), [("p0", Priority.P0), ("P1", Priority.P1), (" 2 ", Priority.P2), (0, Priority.P0)]
)
def test_a_priority_is_read_as_people_write_it(text: str | int, priority: Priority) -> None:
    assert parse_priority(text) is priority


@pytest.mark.parametrize("text", ["", "p3", "urgent", -1, "pp0", "p0\x00", "p" * 1_000_000])
def test_any_other_priority_is_refused(text: str | int) -> None:
    with pytest.raises(MalformedInput, match="is not a priority"):
        parse_priority(text)


def test_head_starts_are_sixty_and_thirty_minutes_and_none() -> None:
    starts = HeadStarts()
    assert [starts.of(priority) for priority in Priority] == [
        timedelta(minutes=60),
        timedelta(minutes=30),
        timedelta(0),
    ]


def test_a_wish_is_read_with_its_defaults() -> None:
    request = read_wish(Wish(job="  train\nbert "))
    assert request.job == "train bert"
    assert request.need == CardNeed((), 1)
    assert (request.run, request.priority, request.env_style) == (None, Priority.P2, EnvStyle.UUID)
    assert request.purpose == "train bert on any 1"


@pytest.mark.parametrize("minutes", [0, -1, 1e-9, float("nan"), float("inf"), 86_401, 1e300])
def test_a_length_of_time_that_makes_no_sense_is_refused(minutes: float) -> None:
    with pytest.raises(MalformedInput, match="is not a length of time"):
        read_wish(Wish(job="train", minutes=minutes))


wishes = st.builds(
    Wish,
    job=st.text(st.characters()),
    device=st.text(st.characters()) | st.sampled_from(["any", "0", "0,1", "local/0"]),
    cards=st.integers(),
    memory_gib=st.none() | st.floats(),
    model=st.none() | st.text(st.characters()),
    minutes=st.none() | st.floats(),
    priority=st.text(st.characters()) | st.sampled_from(["p0", "p1", "p2"]),
    env_style=st.text(st.characters()) | st.sampled_from(["uuid", "index"]),
    purpose=st.none() | st.text(st.characters()),
)


@given(wishes)
def test_any_wish_is_read_or_refused_in_one_clear_sentence(wish: Wish) -> None:
    try:
        request = read_wish(wish)
    except MalformedInput as refusal:
        str(refusal).encode()
        return
    request.job.encode()
    assert 1 <= len(request.job) <= 200
    assert request.run is None or request.run > timedelta(0)
    assert request.need.memory_mib is None or request.need.memory_mib > 0
    assert 1 <= request.need.count <= 64


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 80)), min_size=1, max_size=6))
def test_what_fits_is_enough_on_each_host_it_is_on(hosts: list[tuple[int, int]]) -> None:
    cards = [
        card(100 * place + index, f"host-{place}", index, memory_mib=gib * 1024)
        for place, (count, gib) in enumerate(hosts, 1)
        for index in range(count)
    ]
    need = CardNeed((), 2, 40 * 1024)
    try:
        chosen = fitting_cards(need, cards)
    except Impossible:
        assert not any(count >= 2 and gib >= 40 for count, gib in hosts)
        return
    assert all(each.memory_mib >= 40 * 1024 for each in chosen)
    assert all(sum(other.host == each.host for other in chosen) >= 2 for each in chosen)
