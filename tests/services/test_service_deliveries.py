import asyncio

import pytest

from support.databases import Clock
from support.lab import Lab, LabHost, lease_of, ticket_of
from support.rows import Sql
from warploom.domain.deliveries import DeliveryWay
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer

PUSHES = (DeliveryWay.MONITOR, DeliveryWay.CHANNEL)
PAST_EVERY_GRACE = {"seconds": 9}


async def an_offer(lab: Lab) -> tuple[LabHost, Actor, TicketAnswer]:
    """One agent released the card, another was away and is offered it; nobody has looked at that yet."""
    host = await lab.host(interval=600)
    holder = await lab.agent("claude-1")
    lease = await lab.hold(holder)
    mine = await lab.agent("claude-2")
    waiting = await lab.request(mine, "eval")
    await lab.app.leases.release(holder, lease)
    await host.survey()
    return host, mine, waiting


async def pushed(lab: Lab, actor: Actor, way: DeliveryWay) -> list[str | None]:
    """Return the leases that a way of pushing takes now."""
    return [grant.lease for grant in (await lab.app.deliveries.news(actor, way)).grants]


async def delivered_by(sql: Sql) -> list[str | None]:
    return [row["way"] for row in await sql.fetch("select delivered_by::text as way from lease order by id")]


@pytest.mark.parametrize("way", [DeliveryWay.WAIT, DeliveryWay.GPU_WAIT])
async def test_what_a_waiter_was_handed_is_pushed_by_nothing(
    lab: Lab, clock: Clock, sql: Sql, way: DeliveryWay
) -> None:
    """Casebook C45: one wake for a grant."""
    _, mine, waiting = await an_offer(lab)
    handed = await lab.app.tickets.wait(mine, ticket_of(waiting), 5, way)
    clock.advance(**PAST_EVERY_GRACE)
    assert [await pushed(lab, mine, push) for push in PUSHES] == [[], []]
    assert (handed.state, handed.lease) == (Standing.OFFERED, "L-2")
    assert await delivered_by(sql) == ["answer", way.value]


async def test_an_offer_is_left_for_a_moment_to_whoever_waits_and_then_pushed_once(
    lab: Lab, clock: Clock, sql: Sql
) -> None:
    """Casebook C45: a push is not acknowledged, so the monitor, which prints, goes before the channel, which may be dropped."""
    _, mine, _ = await an_offer(lab)
    early = await lab.app.deliveries.news(mine, DeliveryWay.MONITOR)
    assert early.grants == []
    assert early.again_in is not None
    assert 0 < early.again_in <= 4
    clock.advance(seconds=5)
    assert await pushed(lab, mine, DeliveryWay.CHANNEL) == []
    assert await pushed(lab, mine, DeliveryWay.MONITOR) == ["L-2"]
    clock.advance(**PAST_EVERY_GRACE)
    assert [await pushed(lab, mine, push) for push in PUSHES] == [[], []]
    assert (await lab.app.deliveries.news(mine, DeliveryWay.CHANNEL)).again_in is None
    assert await delivered_by(sql) == ["answer", "monitor"]


async def test_of_many_pushes_at_once_on_two_servers_one_gets_the_offer(lab: Lab, open_app, clock: Clock) -> None:  # type: ignore[no-untyped-def]
    """Casebook C45."""
    _, mine, _ = await an_offer(lab)
    other = Lab(await open_app())
    clock.advance(**PAST_EVERY_GRACE)
    every = [pushed(each, mine, way) for each in (lab, other) for way in PUSHES for _ in range(5)]
    assert sorted(await asyncio.gather(*every)) == [[]] * 19 + [["L-2"]]


async def test_what_is_asked_for_is_answered_however_often_it_was_delivered(lab: Lab, clock: Clock) -> None:
    _, mine, waiting = await an_offer(lab)
    clock.advance(**PAST_EVERY_GRACE)
    assert await pushed(lab, mine, DeliveryWay.MONITOR) == ["L-2"]
    for answer in (
        await lab.app.tickets.wait(mine, ticket_of(waiting), 0),
        await lab.explain(mine, waiting),
        (await lab.app.tickets.me(mine, [])).leases[0],
        (await lab.app.deliveries.news(mine)).grants[0],
    ):
        assert (answer.state, answer.lease, (answer.delivered or "")[-23:]) == (
            Standing.OFFERED,
            "L-2",
            "UTC by `warploom monitor`"[-23:],
        )


@pytest.mark.parametrize("look", ["explain", "me"])
async def test_an_answer_that_shows_an_offer_to_its_agent_is_its_delivery(
    lab: Lab, clock: Clock, sql: Sql, look: str
) -> None:
    _, mine, waiting = await an_offer(lab)
    await (lab.explain(mine, waiting) if look == "explain" else lab.app.tickets.me(mine, []))
    clock.advance(**PAST_EVERY_GRACE)
    assert [await pushed(lab, mine, push) for push in PUSHES] == [[], []]
    assert await delivered_by(sql) == ["answer", "answer"]


async def test_what_somebody_else_sees_of_an_offer_delivers_nothing(lab: Lab, clock: Clock, sql: Sql) -> None:
    _, mine, waiting = await an_offer(lab)
    assert (await lab.explain(await lab.operator(), waiting)).delivered is None
    lane = (await lab.app.cards.survey()).hosts[0].cards[0]
    assert lane.holder is not None
    assert lane.holder.delivered is None
    clock.advance(**PAST_EVERY_GRACE)
    assert await delivered_by(sql) == ["answer", None]
    assert await pushed(lab, mine, DeliveryWay.CHANNEL) == ["L-2"]


async def test_a_job_that_is_there_first_leaves_nothing_to_push(lab: Lab, clock: Clock, sql: Sql) -> None:
    host, mine, _ = await an_offer(lab)
    host.run(0, "L-2")
    await host.survey()
    clock.advance(**PAST_EVERY_GRACE)
    assert [await pushed(lab, mine, push) for push in PUSHES] == [[], []]
    assert await delivered_by(sql) == ["answer", "job"]


async def test_a_change_of_place_wakes_nobody(lab: Lab, clock: Clock) -> None:
    """Casebook C45."""
    await lab.host()
    await lab.hold(await lab.agent("claude-1"))
    first, second = await lab.agent("claude-2"), await lab.agent("claude-3")
    ahead = await lab.request(first, "eval")
    behind = await lab.request(second, "plot")
    await lab.app.tickets.leave(first, ticket_of(ahead))
    clock.advance(**PAST_EVERY_GRACE)
    assert (await lab.explain(second, behind)).place == 1
    news = await lab.app.deliveries.news(second, DeliveryWay.MONITOR)
    assert (news.grants, news.messages, news.again_in) == ([], [], None)


async def test_the_offer_that_follows_a_missed_one_is_a_wake_of_its_own(lab: Lab, clock: Clock, sql: Sql) -> None:
    host, mine, waiting = await an_offer(lab)
    clock.advance(**PAST_EVERY_GRACE)
    assert await pushed(lab, mine, DeliveryWay.CHANNEL) == ["L-2"]
    clock.advance(seconds=181)
    await host.survey()
    await lab.duties()
    assert lease_of(await lab.explain(await lab.operator(), waiting)) == 3
    clock.advance(**PAST_EVERY_GRACE)
    assert await pushed(lab, mine, DeliveryWay.CHANNEL) == ["L-3"]
    assert await delivered_by(sql) == ["answer", "channel", "channel"]


async def test_a_delivery_is_in_the_log_once_with_its_way_and_on_the_card(lab: Lab) -> None:
    _, mine, waiting = await an_offer(lab)
    for _ in range(2):
        await lab.app.tickets.wait(mine, ticket_of(waiting), 0)
    lines, _ = await lab.app.events.page(None, 50)
    told = [line for line in lines if line.kind.value == "lease.delivered"]
    assert [(line.text, line.lease, line.ticket, line.cards) for line in told] == [
        ("the offer of local/0 reached claude-2 by `warploom wait`", "L-2", waiting.ticket, ["local/0"])
    ]
    holder = (await lab.app.cards.survey()).hosts[0].cards[0].holder
    assert holder is not None
    assert holder.delivered is not None
    assert holder.delivered.endswith(" UTC by `warploom wait`")


async def test_a_message_is_pushed_once_by_whichever_way_and_stays_unread(lab: Lab) -> None:
    await lab.host()
    mine, sender = await lab.agent("claude-1"), await lab.agent("claude-2")
    await lab.app.messages.send(sender, "claude-1", "may I have card 0 at noon?")
    mine = await lab.agent("claude-1")
    every = [await lab.app.deliveries.news(mine, way) for way in (*PUSHES, *PUSHES)]
    assert [[each.text for each in news.messages] for news in every] == [["may I have card 0 at noon?"], [], [], []]
    assert [each.text for each in (await lab.app.deliveries.news(mine)).messages] == ["may I have card 0 at noon?"]
    assert len(await lab.app.sessions.take_notices(mine)) == 1
