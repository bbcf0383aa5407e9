"""What every page is guarded by: the content policy, the origin check, files that are ours alone, readable colours."""

import re
from hashlib import sha256

import pytest
from inspector import Inspector
from racks import Shown, page_client

from warploom.assets import asset_dir

STATIC = asset_dir("dashboard") / "static"
DRAIN = "/dashboard/cards/local/0/drain"


@pytest.mark.parametrize(
    "address", ["/dashboard", "/dashboard/rack", "/dashboard/feed", DRAIN, "/dashboard/static/live.js"]
)
async def test_every_answer_carries_the_strict_policy(address: str):
    async with page_client(Shown()) as client:
        answer = await client.get(address)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"


async def test_no_page_holds_an_inline_script_style_or_foreign_address():
    async with page_client(Shown()) as client:
        for address in ("/dashboard", "/dashboard/rack", "/dashboard/feed", DRAIN):
            assert Inspector((await client.get(address)).text).dangers == []


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "http://evil.test"},
        {"sec-fetch-site": "same-site", "origin": "http://other.warploom.test"},
        {"sec-fetch-site": "none"},
        {"origin": "http://evil.test"},
        {"origin": "http://warploom.test.evil.test"},
        {"origin": "null"},
        {},
    ],
)
async def test_a_write_from_anywhere_else_is_refused(headers: dict[str, str]):
    shown = Shown()
    async with page_client(shown) as client:
        answer = await client.post(DRAIN, headers=headers)
    assert answer.status_code == 403
    assert shown.asked == []


@pytest.mark.parametrize(
    "headers", [{"sec-fetch-site": "same-origin", "origin": "null"}, {"origin": "https://warploom.test"}]
)
async def test_a_write_from_our_own_page_is_accepted(headers: dict[str, str]):
    shown = Shown()
    async with page_client(shown) as client:
        answer = await client.post(DRAIN, headers=headers)
    assert answer.status_code == 303


async def test_a_file_is_kept_for_ever_under_the_address_of_its_content():
    async with page_client(Shown()) as client:
        page = Inspector((await client.get("/dashboard")).text)
        addresses = [facts["src"] for facts in page.all("script")] + [
            facts["href"] for facts in page.all("link") if facts["rel"] in ("stylesheet", "icon")
        ]
        for address in addresses:
            answer = await client.get(address)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
            bare = await client.get(address.partition("?")[0])
            assert bare.headers["cache-control"] == "no-cache"
            again = await client.get(address, headers={"if-none-match": answer.headers["etag"]})
            assert again.status_code == 304


@pytest.mark.parametrize("name", ["../templates/base.html", "%2e%2e/templates/base.html", "vendor", "nothing.js", ""])
async def test_nothing_outside_the_folder_is_served(name: str):
    async with page_client(Shown()) as client:
        assert (await client.get(f"/dashboard/static/{name}")).status_code == 404


def test_vendored_files_are_those_their_list_names():
    listed = dict(
        re.findall(r"^\| (\S+\.js) \|.*\| ([0-9a-f]{64}) \|$", (STATIC / "vendor/README.md").read_text(), re.M)
    )
    held = {path.name: sha256(path.read_bytes()).hexdigest() for path in (STATIC / "vendor").glob("*.js")}
    assert listed == held


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_colour_of_text_is_readable_on_every_ground(theme: int):
    css = (STATIC / "warploom.css").read_text()
    tokens = {name: pair for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", css)}
    for text in ("ink", "quiet", "accent", "free", "held", "wait", "bad", "other", "still"):
        for ground in ("paper", "raised", "sunk"):
            assert _contrast(tokens[text][theme], tokens[ground][theme]) >= 4.5, (text, ground)
    assert _contrast(tokens["on-accent"][theme], tokens["accent"][theme]) >= 4.5
