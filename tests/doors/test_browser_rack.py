"""The rack in a real browser: live without reloads, calm under the reader's hands, readable everywhere."""

import dataclasses
import re
from collections.abc import Iterator

import pytest
from chromium import MISSING, find_chromium, open_browser
from playwright.sync_api import Browser, BrowserContext, Page, expect
from racks import HOSTILE_TEXTS, Shown, empty_rack, hostile_events, hostile_rack, lane, leased_lane
from stage import PATIENCE, Stage, serving

from warploom.domain.cards import CardLane, Rack

pytestmark = [pytest.mark.browser, pytest.mark.skipif(find_chromium() is None, reason=MISSING)]
expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Stage, str]]:
    stage = Stage(Shown())
    with serving(stage) as url:
        yield stage, url


@pytest.fixture
def stage(served: tuple[Stage, str]) -> Stage:
    vars(served[0].shown).update(vars(Shown()))
    served[0].speak()
    return served[0]


@pytest.fixture
def context(browser: Browser, served: tuple[Stage, str], stage: Stage) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=served[1], viewport={"width": 1280, "height": 700})
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """The open rack; whatever the browser complains of fails the test."""
    page = context.new_page()
    complaints: list[str] = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto("/dashboard")
    expect(page.locator("#freshness")).to_have_text("live")
    yield page
    assert [text for text in complaints if "503" not in text] == []


def with_lane(rack: Rack, changed: CardLane) -> Rack:
    hosts = [
        dataclasses.replace(host, cards=[changed if each.card == changed.card else each for each in host.cards])
        for host in rack.hosts
    ]
    return dataclasses.replace(rack, hosts=hosts)


def change(stage: Stage, lane: CardLane) -> None:
    stage.shown.rack = with_lane(stage.shown.rack, lane)
    stage.emit()


def state_of(page: Page, card: str):
    return page.get_by_role("article", name=f"Card {card}").locator(".state")


def test_a_grant_moves_a_lane_without_a_reload(page: Page, stage: Stage):
    page.evaluate("window.stays = document.getElementById('card-local/1')")
    expect(state_of(page, "local/1")).to_have_text("free")
    change(stage, leased_lane("local/1"))
    expect(state_of(page, "local/1")).to_have_text("leased")
    assert page.evaluate("window.stays === document.getElementById('card-local/1')")


def test_every_kind_of_event_refreshes_the_rack_and_the_feed(page: Page, stage: Stage):
    stage.shown.events = stage.shown.events[:1]
    stage.emit("card.drained")
    expect(page.locator("#feed li")).to_have_count(1)


def test_a_burst_of_events_asks_for_few_refreshes_and_shows_the_last(page: Page, stage: Stage):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/rack") else None)
    for number in range(200):
        change(stage, lane("local/1", say=f"Change number {number}."))
    expect(page.get_by_text("Change number 199.")).to_be_visible()
    assert len(asked) < 20


def test_half_typed_text_survives_a_swap(page: Page, stage: Stage):
    page.get_by_role("link", name="Drain local/0…").click()
    reason = page.get_by_label("Reason")
    reason.press_sequentially("fan replacement on")
    reason.evaluate("field => field.setSelectionRange(3, 7)")
    change(stage, leased_lane("local/1"))
    expect(state_of(page, "local/1")).to_have_text("leased")
    expect(reason).to_be_focused()
    expect(reason).to_have_value("fan replacement on")
    assert reason.evaluate("field => [field.selectionStart, field.selectionEnd]") == [3, 7]


def test_focus_scroll_and_opened_details_survive_a_swap(page: Page, stage: Stage):
    page.get_by_role("article", name="Card local/0").locator("summary").click()
    action = page.get_by_role("link", name="Drain rack-b/3…")
    action.focus()
    page.evaluate("window.scrollTo(0, 250)")
    change(stage, lane("local/1", say="Somebody took the chair beside it."))
    expect(page.get_by_text("Somebody took the chair beside it.")).to_be_attached()
    expect(action).to_be_focused()
    assert page.evaluate("window.scrollY") == 250
    expect(page.get_by_role("article", name="Card local/0").locator("details")).to_have_attribute("open", "")


def test_draining_asks_first_then_says_what_was_done(page: Page, stage: Stage):
    opener = page.get_by_role("link", name="Drain local/0…")
    opener.press("Enter")
    dialog = page.get_by_role("dialog", name="Drain local/0?")
    expect(dialog).to_contain_text("keeps running until it ends")
    assert stage.shown.asked == []
    page.keyboard.type("noisy fan")
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_have_text("local/0 is drained.")
    expect(dialog).to_be_hidden()
    expect(opener).to_be_focused()
    assert stage.shown.asked == [("drain", "local/0", "noisy fan")]


def test_leaving_the_question_changes_nothing(page: Page, stage: Stage):
    opener = page.get_by_role("link", name="Drain local/0…")
    for leave in (lambda: page.keyboard.press("Escape"), page.get_by_role("link", name="Leave it as it is").click):
        opener.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        leave()
        expect(page.get_by_role("dialog")).to_be_hidden()
    assert stage.shown.asked == []
    assert page.url.endswith("/dashboard")


def test_a_refusal_is_shown_in_the_dialog(page: Page, stage: Stage):
    page.get_by_role("link", name="Drain local/0…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_visible()
    stage.fall_silent()
    dialog.get_by_role("button", name="Drain local/0").click()
    expect(dialog).to_contain_text("The database cannot be reached.")


def test_a_lost_server_is_said_with_the_time_and_found_again(page: Page, stage: Stage):
    stage.fall_silent()
    expect(page.locator("#freshness")).to_have_text(re.compile(r"stale since \d\d:\d\d"))
    expect(page.locator("#announcer")).to_contain_text("does not answer")
    expect(state_of(page, "local/0")).to_have_text("leased")
    stage.speak()
    expect(page.locator("#freshness")).to_have_text("live")
    expect(page.locator("#announcer")).to_have_text("The server answers again.")


def test_without_a_stream_the_page_polls(context: BrowserContext, stage: Stage):
    context.route("**/events", lambda route: route.fulfill(status=503))
    page = context.new_page()
    page.goto("/dashboard")
    expect(page.locator("#freshness")).to_have_text("polling")
    stage.shown.rack = with_lane(stage.shown.rack, leased_lane("local/1"))
    expect(state_of(page, "local/1")).to_have_text("leased")


def test_a_hidden_tab_stops_streaming_and_catches_up_when_it_is_seen(page: Page, stage: Stage):
    """Casebook C71."""
    assert stage.wait_for_streams(1)
    hide = "value => { Object.defineProperty(document, 'hidden', { value, configurable: true });"
    page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange')); }", True)
    assert stage.wait_for_streams(0)
    stage.shown.rack = with_lane(stage.shown.rack, leased_lane("local/1"))
    page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange')); }", False)
    expect(state_of(page, "local/1")).to_have_text("leased")
    assert stage.wait_for_streams(1)


def test_lanes_change_without_a_word_to_screen_readers(page: Page, stage: Stage):
    assert page.locator("#rack, #rack *").evaluate_all(
        "all => all.every(each => !each.ariaLive && each.role !== 'status')"
    )
    assert page.locator("#rack #announcer, #rack #said").count() == 0


def test_the_keyboard_walks_the_page_in_reading_order(page: Page):
    walked: list[str] = []
    for _ in range(6):
        page.keyboard.press("Tab")
        walked.append(page.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent.trim()"))
    assert walked == [
        "Skip to the content", "Warploom", "Rack", "1 process on the card", "Drain local/0…", "Drain local/1…",
    ]  # fmt: skip
    expect(page.get_by_role("link", name="Drain local/1…")).to_be_visible()


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_nothing_overflows_sideways(page: Page, stage: Stage, width: int):
    page.set_viewport_size({"width": width, "height": 800})
    hostile = [(hostile_rack(text), hostile_events(text)) for text in HOSTILE_TEXTS]
    for rack, events in [(stage.shown.rack, stage.shown.events), (empty_rack(), []), *hostile]:
        stage.shown.rack, stage.shown.events = rack, events
        page.goto("/dashboard")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("window.stolen") is None
        assert page.locator(".lane").evaluate_all("all => all.every(each => each.scrollWidth <= each.clientWidth)")


def test_without_javascript_the_page_reads_and_a_card_is_drained(
    browser: Browser, served: tuple[Stage, str], stage: Stage
):
    with browser.new_context(base_url=served[1], java_script_enabled=False) as context:
        page = context.new_page()
        page.goto("/dashboard")
        expect(page.get_by_role("article", name="Card local/0")).to_contain_text("train bert-base on wiki-40b")
        expect(page.locator("#freshness")).to_have_text(re.compile(r"as of \d\d:\d\d UTC"))
        page.get_by_role("link", name="Drain local/0…").click()
        expect(page.get_by_role("heading", name="Drain local/0?")).to_be_visible()
        page.get_by_label("Reason").fill("noisy fan")
        page.get_by_role("button", name="Drain local/0").click()
        expect(page).to_have_url(re.compile(r"/dashboard#card-local/0$"))
    assert stage.shown.asked == [("drain", "local/0", "noisy fan")]


def test_light_and_dark_follow_the_system(page: Page):
    grounds: list[str] = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(250, 249, 246)", "rgb(20, 21, 26)"]


def test_nothing_glides_for_those_who_asked_for_less_motion(page: Page):
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate("getComputedStyle(document.querySelector('.lane')).transitionDuration") == "0s"
    assert page.evaluate("document.getAnimations().length") == 0
