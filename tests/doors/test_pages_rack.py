"""The home page, read as text: what a lane says, what is escaped, what an empty rack teaches."""

import dataclasses
from datetime import UTC, timedelta

import pytest
from inspector import Inspector
from racks import (
    HOSTILE_TEXTS,
    NOTHING_KNOWN,
    NOW,
    Shown,
    empty_rack,
    eta,
    every_state_rack,
    holder,
    hostile_events,
    hostile_rack,
    lane,
    leased_lane,
    page_client,
    place,
    reserved,
)

from warploom.domain.cards import GLYPHS, CardState, HostLanes, Rack
from warploom.domain.errors import Unreachable
from warploom.web.pages.templates import SHAPES


async def read(shown: Shown, address: str = "/dashboard") -> Inspector:
    async with page_client(shown) as client:
        answer = await client.get(address)
    assert answer.status_code == 200
    return Inspector(answer.text)


def words(page: Inspector) -> str:
    return " ".join(page.text.split())


async def test_a_leased_lane_tells_who_holds_the_card_how_far_until_when_and_who_waits():
    page = words(await read(Shown()))
    for said in (
        "train bert-base on wiki-40b L-42",
        "claude-1 · claude-code in ~/src/bert · session S-3 · task T-17",
        "18,900 / 30,000 steps",
        "session alive process alive stepping, 3.9 /s",
        "free in 44–51 min measured from its step rate",
        "1 eval-sweep claude-2 · 41 min 44–52 min",
        "2 hotfix-repro codex-1 · p0 · 3 min 64–72 min",
        "3 distil-small claude-1 · 1 min unknown",
        "+2 more",
        "96 / 141 GiB",
    ):
        assert said in page


async def test_a_reservation_stands_in_the_queue_in_order_of_time_with_its_zone():
    """Casebook C41."""
    queue = [place(1, "eval-sweep", "claude-2", 41, eta(5, 9)), place(2, "late", "claude-1", 1, NOTHING_KNOWN)]
    later = dataclasses.replace(reserved(title="sweep"), starts_at=NOW + timedelta(minutes=30))
    busy = leased_lane(queue=queue, waiting=2, reservations=[later], holder=holder(runs_into="R-2"))
    free = lane("local/1", CardState.RESERVED, reservations=[reserved()])
    rack = Rack(NOW, [HostLanes("local", "fake", None, NOW, True, None, [busy, free])], 2, None, "")
    page = words(await read(Shown(rack=rack)))
    window = f"{later.starts_at.astimezone(UTC):%H:%M}–{later.ends_at.astimezone(UTC):%H:%M} UTC"
    assert "runs into R-2" in page
    assert page.index("eval-sweep") < page.index("R-3 sweep ada ") < page.index("2 late claude-1")
    assert window in page
    assert "reserved for 6 min" in page


async def test_the_summary_counts_what_the_lanes_show():
    page = words(await read(Shown()))
    assert "7 cards on 2 hosts · 1 free · 1 leased · 1 offered · 1 overdue · 1 foreign · 1 lost · 1 drained" in page
    assert "5 tickets waiting, longest 41 min" in page


async def test_an_estimate_carries_the_underline_of_its_word():
    page = await read(Shown())
    assert page.all("span", **{"class": "word measured"})
    assert page.all("span", **{"class": "word declared"})
    assert page.all("span", **{"class": "word unknown"})


async def test_every_state_is_drawn_with_the_shape_of_its_glyph_and_said_in_its_word():
    page = await read(Shown(rack=every_state_rack()))
    shapes = [facts["href"] for facts in page.all("use") if facts["href"].startswith("#shape-")]
    assert shapes == [f"#shape-{SHAPES[GLYPHS[state]]}" for state in CardState]
    assert set(shapes) <= {f"#{facts['id']}" for facts in page.all("symbol")}
    assert [facts["class"] for facts in page.all("span") if facts.get("class", "").startswith("state ")] == [
        f"state {state.value}" for state in CardState
    ]


async def test_lanes_stand_in_the_order_of_the_rack():
    page = await read(Shown())
    assert [facts["aria-label"] for facts in page.all("article")] == [
        f"Card {lane.card}" for host in Shown().rack.hosts for lane in host.cards
    ]


async def test_every_lane_has_its_action_after_its_content_and_the_keyboard_reaches_it():
    page = await read(Shown())
    actions = [facts for facts in page.all("a") if facts.get("class") == "button" and "hx-get" in facts]
    assert [facts["href"] for facts in actions[:2]] == [
        "/dashboard/cards/local/0/drain",
        "/dashboard/cards/local/1/drain",
    ]
    assert [facts["href"] for facts in actions if facts["href"].endswith("/undrain")] == [
        "/dashboard/cards/rack-b/0/undrain",
        "/dashboard/cards/rack-b/2/undrain",
    ]
    assert not [facts for _, facts in page.elements if int(facts.get("tabindex", "-1")) > 0]


async def test_times_are_relative_with_the_absolute_one_beside_them():
    page = await read(Shown())
    assert all(facts["datetime"].endswith("+00:00") and facts["title"].endswith("UTC") for facts in page.all("time"))
    assert "for 6 min" in words(page)


async def test_a_card_is_named_by_its_index_and_the_beginning_of_its_uuid_together():
    """Casebook C01: whoever counts cards in another order still sees which one is meant."""
    page = "".join((await read(Shown())).text.split())
    lanes = [lane for host in Shown().rack.hosts for lane in host.cards]
    named = [f"{lane.card}{lane.model}{lane.uuid[:12]}".replace(" ", "") for lane in lanes]
    assert [name for name in named if name not in page] == []


async def test_weights_are_shown_where_cards_differ():
    lanes = [lane("local/0", weight=2.5), lane("local/1", weight=1.0)]
    rack = Rack(NOW, [HostLanes("local", "nvml", None, NOW, True, None, lanes)], 0, None, "")
    assert "weight" not in words(await read(Shown()))
    assert [text in words(await read(Shown(rack=rack))) for text in ("weight 2.5", "weight 1")] == [True, True]


async def test_an_empty_rack_teaches_what_to_run():
    page = words(await read(Shown(rack=empty_rack(), events=[])))
    assert "No cards yet" in page
    assert "warploom up" in page
    assert "WARPLOOM_FAKE_GPUS=2 warploom up" in page
    assert "Nothing has happened yet." in page


async def test_a_host_without_cards_says_its_problem():
    problem = "no NVIDIA driver found (libnvidia-ml.so.1)"
    rack = Rack(NOW, [HostLanes("local", "nvml", None, NOW, True, problem, [])], 0, None, "")
    page = words(await read(Shown(rack=rack)))
    assert problem in page
    assert "No cards yet" in page


async def test_a_silent_host_is_said_to_be_silent():
    rack = every_state_rack()
    silent = dataclasses.replace(rack.hosts[0], is_present=False)
    page = words(await read(Shown(rack=dataclasses.replace(rack, hosts=[silent]))))
    assert "silent, last surveyed" in page


async def test_memory_that_is_not_reported_is_never_shown_as_zero():
    assert "not reported / 80 GiB" in words(await read(Shown()))


async def test_the_parts_that_are_swapped_hold_no_page_around_them():
    for address in ("/dashboard/rack", "/dashboard/feed"):
        page = await read(Shown(), address)
        assert not page.all("html")
        assert page.text.strip()


async def test_the_feed_shows_the_newest_first_and_links_cards_to_their_lanes():
    page = await read(Shown(), "/dashboard/feed")
    said = words(page)
    assert said.index("joined the queue") < said.index("extended by 30 min") < said.index("released local/1")
    assert [facts["href"] for facts in page.all("a")] == ["#card-local/0", "#card-local/1"]


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
async def test_a_hostile_text_in_every_field_stays_text(text: str):
    shown = Shown(rack=hostile_rack(text), events=hostile_events(text), consequences=[text])
    for address in ("/dashboard", "/dashboard/rack", "/dashboard/feed", "/dashboard/cards/local/0/drain"):
        page = await read(shown, address)
        assert page.dangers == []
    assert text.replace("`", "").strip() in (await read(shown, "/dashboard/feed")).text.replace("`", "")


async def test_an_unreachable_database_is_said_in_one_sentence_and_tried_again():
    shown = Shown(failure=Unreachable("The database cannot be reached.", "It is tried again by itself."))
    async with page_client(shown) as client:
        answer = await client.get("/dashboard")
    page = Inspector(answer.text)
    assert answer.status_code == 503
    assert "The database cannot be reached. It is tried again by itself." in words(page)
    assert page.all("meta", **{"http-equiv": "refresh"})


async def test_a_refusal_of_a_part_is_a_part():
    shown = Shown(failure=Unreachable("The database cannot be reached.", "It is tried again by itself."))
    async with page_client(shown) as client:
        answer = await client.get("/dashboard/rack", headers={"HX-Request": "true"})
    assert answer.status_code == 503
    assert not Inspector(answer.text).all("html")
