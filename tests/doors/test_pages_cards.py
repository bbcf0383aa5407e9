"""Draining and undraining through the pages: consequences first, then the change."""

from inspector import Inspector
from racks import Shown, page_client

from warploom.domain.callers import Role
from warploom.domain.errors import NotAllowed, NotFound

OWN = {"origin": "http://warploom.test", "sec-fetch-site": "same-origin"}
DRAIN = "/dashboard/cards/local/0/drain"


async def test_asking_shows_the_consequences_and_changes_nothing():
    shown = Shown()
    async with page_client(shown) as client:
        answer = await client.get(DRAIN)
    page = Inspector(answer.text)
    assert answer.status_code == 200
    assert all(consequence in page.text for consequence in shown.consequences)
    assert page.all("form", method="post", action=DRAIN)
    assert shown.asked == []


async def test_the_pages_own_script_gets_the_question_alone():
    async with page_client(Shown()) as client:
        answer = await client.get(DRAIN, headers={"HX-Request": "true"})
    page = Inspector(answer.text)
    assert page.all("form", action=DRAIN)
    assert not page.all("html")


async def test_confirming_drains_the_card_and_leads_back_to_its_lane():
    shown = Shown()
    async with page_client(shown) as client:
        answer = await client.post(DRAIN, data={"reason": "fan replacement & co"}, headers=OWN)
    assert shown.asked == [("drain", "local/0", "fan replacement & co")]
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard#card-local/0")


async def test_confirming_from_the_dialog_says_what_was_done():
    shown = Shown()
    async with page_client(shown) as client:
        answer = await client.post(DRAIN, data={"reason": " "}, headers=OWN | {"HX-Request": "true"})
    assert shown.asked == [("drain", "local/0", None)]
    assert answer.status_code == 200
    assert "local/0 is drained." in answer.text


async def test_undraining_asks_and_confirms_in_the_same_way():
    shown = Shown()
    async with page_client(shown) as client:
        question = await client.get("/dashboard/cards/rack-b/2/undrain")
        await client.post("/dashboard/cards/rack-b/2/undrain", headers=OWN)
    assert "Undrain rack-b/2?" in question.text
    assert 'name="reason"' not in question.text
    assert shown.asked == [("undrain", "rack-b/2", None)]


async def test_a_card_that_does_not_exist_is_refused_with_what_to_do():
    shown = Shown(failure=NotFound("There is no card local/9.", "`warploom status` lists the cards."))
    async with page_client(shown) as client:
        answer = await client.get("/dashboard/cards/local/9/drain")
    page = Inspector(answer.text)
    assert answer.status_code == 404
    assert "There is no card local/9." in page.text
    assert page.all("code")


async def test_somebody_without_the_role_is_told_so_and_nothing_changes():
    shown = Shown(failure=NotAllowed("Only operators drain cards.", "Ask an operator."))
    async with page_client(shown) as client:
        answer = await client.post(DRAIN, headers=OWN)
    assert answer.status_code == 403
    assert "Only operators drain cards." in answer.text


async def test_an_endless_reason_is_refused():
    shown = Shown()
    async with page_client(shown) as client:
        answer = await client.post(DRAIN, data={"reason": "x" * 1_000_000}, headers=OWN)
    assert answer.status_code == 422
    assert shown.asked == []


async def test_a_body_that_is_no_form_is_refused():
    shown = Shown()
    async with page_client(shown) as client:
        answer = await client.post(DRAIN, content=b"\xff\xfe\x00", headers=OWN)
    assert answer.status_code == 422
    assert shown.asked == []


async def test_a_change_is_made_in_the_role_of_whoever_asks():
    shown = Shown()
    async with page_client(shown, role=Role.OPERATOR) as client:
        await client.get(DRAIN)
        await client.post(DRAIN, headers=OWN)
    async with page_client(shown) as client:
        await client.post(DRAIN, headers=OWN)
    assert shown.roles == [Role.OPERATOR, Role.OPERATOR, Role.AGENT]
