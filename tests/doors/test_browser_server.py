"""The rack of a real server in a real browser: two tickets for one card, seen from the request to the release."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chromium import MISSING, find_chromium, open_browser
from playwright.sync_api import Page, expect
from stage import PATIENCE, listening

from warploom.app import build_app
from warploom.config import Settings
from warploom.server import build_server

pytestmark = [pytest.mark.browser, pytest.mark.skipif(find_chromium() is None, reason=MISSING)]
expect.set_options(timeout=PATIENCE * 1000)

CARDS = [
    {
        "uuid": f"GPU-5f3a91c{index}",
        "index": index,
        "model": "NVIDIA H200",
        "memory_mib": 144_384,
        "used_mib": 420,
        "utilisation": 0,
        "processes": [],
    }
    for index in range(2)
]


class Api:
    """Speaks to the server as agents and hosts do."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=f"{url}/api/v1", timeout=PATIENCE)

    def survey(self) -> None:
        self._post(
            "/hosts/local/survey", provider="lab", driver="580.65", version="0", interval_seconds=60, cards=CARDS
        )

    def request(self, agent: str, job: str, **wish: Any) -> dict[str, Any]:
        return self._post("/tickets", agent, job=job, device="0", **wish)

    def report(self, agent: str, lease: str, step: int, total: int) -> None:
        self._post(f"/leases/{lease}/report", agent, step=step, total=total)

    def release(self, agent: str, lease: str) -> None:
        self._post(f"/leases/{lease}/release", agent)

    def close(self) -> None:
        self._client.close()

    def _post(self, address: str, agent: str | None = None, **body: Any) -> dict[str, Any]:
        headers = {"X-Warploom-Agent": agent, "X-Warploom-Session": agent} if agent else {}
        answer = self._client.post(address, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def url(database_url: str, redis_url: str, tmp_path: Path) -> Iterator[str]:
    environment = {
        "WARPLOOM_HOME": str(tmp_path),
        "WARPLOOM_DATABASE_URL": database_url,
        "WARPLOOM_REDIS_URL": redis_url,
    }
    with listening(build_server(build_app(Settings.load(environment), "http://127.0.0.1:8765"))) as url:
        yield url


@pytest.fixture
def api(url: str) -> Iterator[Api]:
    api = Api(url)
    yield api
    api.close()


@pytest.fixture
def page(url: str) -> Iterator[Page]:
    with open_browser() as browser:
        page = browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{url}/dashboard")
        yield page
        assert complaints == []


def test_two_tickets_for_one_card_are_seen_live_from_request_to_release(page: Page, api: Api):
    expect(page.get_by_role("heading", name="No cards yet")).to_be_visible()
    expect(page.locator("#freshness")).to_have_text("live")
    page.evaluate("window.stays = true")

    api.survey()
    lane = page.get_by_role("article", name="Card local/0")
    expect(lane.locator(".state")).to_have_text("free")

    first = api.request("claude-1", "train bert-base", minutes=30)
    expect(lane.locator(".state")).to_have_text("leased")
    expect(lane.locator(".title")).to_contain_text("train bert-base")
    expect(lane.locator(".when")).to_contain_text("declared")

    api.request("codex-1", "eval <b>sweep</b>", minutes=5)
    expect(lane.locator(".queue li")).to_contain_text("eval <b>sweep</b>")
    expect(lane.locator(".queue li")).to_contain_text("codex-1")

    api.report("claude-1", first["lease"], 400, 1000)
    expect(lane.locator(".progress")).to_contain_text("400 / 1,000 steps")

    api.release("claude-1", first["lease"])
    api.survey()
    expect(lane.locator(".title")).to_contain_text("eval <b>sweep</b>")
    expect(lane.locator(".state")).to_have_text(re.compile("leased|offered"))
    expect(lane.locator(".queue")).to_have_count(0)
    expect(page.locator("#feed")).to_contain_text("claude-1 released local/0")
    assert page.evaluate("window.stays")


def test_an_operator_drains_and_undrains_a_card_from_the_page(page: Page, api: Api):
    api.survey()
    lane = page.get_by_role("article", name="Card local/1")
    lane.get_by_role("link", name="Drain local/1…").click()
    dialog = page.get_by_role("dialog", name="Drain local/1?")
    expect(dialog).to_contain_text("Nobody waits for it")
    dialog.get_by_label("Reason").fill("fan replacement")
    dialog.get_by_role("button", name="Drain local/1").click()
    expect(lane.locator(".state")).to_have_text("drained")
    expect(lane).to_contain_text("fan replacement")
    lane.get_by_role("link", name="Undrain local/1…").click()
    page.get_by_role("button", name="Undrain local/1").click()
    expect(lane.locator(".state")).to_have_text("free")
    expect(page.locator("#feed")).to_contain_text("put local/1 back in service")


def test_an_agents_key_drains_nothing_from_the_page(database_url: str, redis_url: str, tmp_path: Path):
    environment = {
        "WARPLOOM_HOME": str(tmp_path),
        "WARPLOOM_DATABASE_URL": database_url,
        "WARPLOOM_REDIS_URL": redis_url,
        "WARPLOOM_KEY": "agents",
        "WARPLOOM_OPERATOR_KEY": "operators",
    }
    survey = {"provider": "lab", "driver": None, "version": "0", "interval_seconds": 60, "cards": CARDS}
    with listening(build_server(build_app(Settings.load(environment), "http://127.0.0.1:8765"))) as url:
        own = {"sec-fetch-site": "same-origin"}
        with httpx.Client(base_url=url, auth=("", "agents"), headers=own, timeout=PATIENCE) as agent:
            assert agent.post("/api/v1/hosts/local/survey", json=survey).status_code == 200
            assert agent.get("/dashboard").status_code == 200
            refused = agent.post("/dashboard/cards/local/0/drain")
        with httpx.Client(base_url=url, auth=("", "operators"), headers=own, timeout=PATIENCE) as operator:
            allowed = operator.post("/dashboard/cards/local/0/drain")
    assert (refused.status_code, allowed.status_code) == (403, 303)
