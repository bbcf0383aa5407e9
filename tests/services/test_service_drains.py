import pytest

from support.databases import Clock
from support.lab import Lab, lease_of
from support.rows import Sql, whole_database
from warploom.domain.cards import CardState, Service
from warploom.domain.errors import MalformedInput, NotAllowed, NotFound
from warploom.domain.standings import Standing


async def state_of(lab: Lab, index: int = 0) -> tuple[CardState, Service]:
    lane = (await lab.app.cards.survey()).hosts[0].cards[index]
    return lane.state, lane.service


async def test_a_drained_card_is_granted_to_nobody_and_says_why(lab: Lab) -> None:
    host = await lab.host()
    answer = await lab.app.cards.drain(await lab.operator(), "local/0", "new\nfan", preview=False)
    assert (answer.card, answer.service, answer.done) == ("local/0", Service.DRAINED, True)
    assert answer.consequences == ["Nobody waits for it; new requests will queue until the card is undrained."]
    waiting = await lab.request(await lab.agent())
    await host.survey()
    await lab.duties()
    waiting = await lab.explain(await lab.agent(), waiting)
    assert (waiting.state, waiting.reason) == (Standing.QUEUED, "local/0 is drained by an operator: new fan")
    assert await state_of(lab) == (CardState.DRAINED, Service.DRAINED)


async def test_what_runs_on_a_draining_card_goes_on_until_it_ends(lab: Lab) -> None:
    host = await lab.host()
    agent = await lab.agent()
    held = await lab.request(agent, "train")
    waiting = await lab.request(await lab.agent("claude-2"), "eval")
    answer = await lab.app.cards.drain(await lab.operator(), "local/0", None, preview=False)
    assert answer.service is Service.DRAINING
    assert answer.consequences == [
        "L-1 'train' (claude-1) keeps running.",
        "1 waiting ticket keeps its place; nothing more is granted here until the card is undrained.",
    ]
    assert await state_of(lab) == (CardState.LEASED, Service.DRAINING)
    await lab.app.leases.extend(agent, lease_of(held), 10, "still running")
    await lab.app.leases.release(agent, lease_of(held))
    await host.survey()
    assert await state_of(lab) == (CardState.DRAINED, Service.DRAINED)
    assert (await lab.explain(agent, waiting)).state is Standing.QUEUED


async def test_undraining_grants_the_card_in_the_same_change(lab: Lab) -> None:
    await lab.host()
    operator = await lab.operator()
    await lab.app.cards.drain(operator, "local/0", None, preview=False)
    waiting = await lab.request(await lab.agent())
    answer = await lab.app.cards.undrain(operator, "local/0", preview=False)
    assert answer.consequences == ["1 ticket waits; the first is granted as soon as the card is clear."]
    assert (await lab.explain(await lab.agent(), waiting)).state is Standing.OFFERED


async def test_undraining_while_the_holder_still_runs_is_as_if_nothing_had_been(lab: Lab) -> None:
    host = await lab.host()
    agent, operator = await lab.agent(), await lab.operator()
    held = await lab.request(agent)
    waiting = await lab.request(await lab.agent("claude-2"))
    await lab.app.cards.drain(operator, "local/0", None, preview=False)
    await lab.app.cards.undrain(operator, "local/0", preview=False)
    await lab.app.leases.release(agent, lease_of(held))
    await host.survey()
    assert (await lab.explain(agent, waiting)).state is Standing.OFFERED


async def test_an_offer_on_a_draining_card_may_still_be_taken_and_drains_it_when_it_lapses(
    lab: Lab, clock: Clock
) -> None:
    host = await lab.host(interval=600)
    agent, operator = await lab.agent(), await lab.operator()
    held = await lab.request(agent)
    waiting = await lab.request(await lab.agent("claude-2"))
    await lab.app.leases.release(agent, lease_of(held))
    await host.survey()
    await lab.app.cards.drain(operator, "local/0", None, preview=False)
    assert await state_of(lab) == (CardState.OFFERED, Service.DRAINING)
    clock.advance(seconds=181)
    await lab.duties()
    assert await state_of(lab) == (CardState.DRAINED, Service.DRAINED)
    assert (await lab.explain(agent, waiting)).state is Standing.QUEUED


@pytest.mark.parametrize("verb", ["drain", "undrain"])
async def test_a_preview_tells_the_consequences_and_changes_nothing(lab: Lab, sql: Sql, verb: str) -> None:
    await lab.host()
    operator = await lab.operator()
    await lab.request(await lab.agent("claude-1"), "train")
    await lab.request(await lab.agent("claude-2"), "eval")
    if verb == "undrain":
        await lab.app.cards.drain(operator, "local/0", None, preview=False)
    before = await whole_database(sql)
    cards = lab.app.cards
    look = (
        cards.drain(operator, "local/0", "why", preview=True)
        if verb == "drain"
        else cards.undrain(operator, "local/0", preview=True)
    )
    answer = await look
    assert not answer.done
    assert answer.consequences
    assert await whole_database(sql) == before


@pytest.mark.parametrize("verb", ["drain", "undrain"])
async def test_doing_it_twice_is_success_and_told_once(lab: Lab, sql: Sql, verb: str) -> None:
    await lab.host()
    operator = await lab.operator()
    await lab.app.cards.drain(operator, "local/0", "why", preview=False)
    if verb == "undrain":
        await lab.app.cards.undrain(operator, "local/0", preview=False)
        answer = await lab.app.cards.undrain(operator, "local/0", preview=False)
        assert answer.consequences == ["It is in service already."]
    else:
        await lab.app.cards.drain(operator, "local/0", "why", preview=False)
    assert await sql.fetchval("select count(*) from event where kind = $1", f"card.{verb}ed") == 1


async def test_only_operators_drain(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    before = await whole_database(sql)
    for preview in (True, False):
        with pytest.raises(NotAllowed, match="needs the role operator; you are agent"):
            await lab.app.cards.drain(agent, "local/0", None, preview=preview)
        with pytest.raises(NotAllowed):
            await lab.app.cards.undrain(agent, "local/0", preview=preview)
    assert await whole_database(sql) == before


@pytest.mark.parametrize("card", ["local/9", "nowhere/0", "", "\x00", "<b>", "\ud800", "x" * 1_000_000])
async def test_an_unknown_card_is_not_found(lab: Lab, sql: Sql, card: str) -> None:
    await lab.host()
    operator = await lab.operator()
    before = await whole_database(sql)
    for act in (
        lab.app.cards.drain(operator, card, None, preview=False),
        lab.app.cards.undrain(operator, card, preview=False),
    ):
        with pytest.raises((NotFound, MalformedInput)) as refusal:
            await act
        str(refusal.value).encode()
        assert len(str(refusal.value)) < 300
    assert await whole_database(sql) == before


@pytest.mark.parametrize("reason", ["x" * 501, "x" * 1_000_000, "\x00"])
async def test_a_reason_that_makes_no_sense_is_refused(lab: Lab, sql: Sql, reason: str) -> None:
    await lab.host()
    operator = await lab.operator()
    before = await whole_database(sql)
    with pytest.raises(MalformedInput, match="The reason"):
        await lab.app.cards.drain(operator, "local/0", reason, preview=False)
    assert await whole_database(sql) == before


async def test_a_quarantined_card_is_neither_drained_nor_put_back(lab: Lab, sql: Sql) -> None:
    await lab.host()
    operator = await lab.operator()
    await sql.execute("update card set service = 'quarantined' where index = 0")
    with pytest.raises(NotAllowed, match="local/0 is quarantined"):
        await lab.app.cards.undrain(operator, "local/0", preview=False)
    with pytest.raises(NotAllowed, match="local/0 is quarantined"):
        await lab.app.cards.drain(operator, "local/0", None, preview=False)
    assert await state_of(lab) == (CardState.QUARANTINED, Service.QUARANTINED)
