from datetime import timedelta

from support.databases import Clock
from support.lab import Lab, lease_of, ticket_of
from support.rows import Sql
from warploom.domain.cards import CardState
from warploom.domain.standings import Standing


async def test_a_lease_ends_after_a_whole_lease_time_of_silence_and_not_before(
    lab: Lab, clock: Clock, sql: Sql
) -> None:
    """Casebook C26 and C36: a holder that never started anything has a deadline of its own, and no lease ends before its time."""
    await lab.host(interval=600)
    agent = await lab.agent()
    held = await lab.request(agent)
    clock.advance(minutes=9, seconds=50)
    assert (await lab.duties())["lease reaper"] == 0
    clock.advance(seconds=11)
    assert (await lab.duties())["lease reaper"] == 1
    answer = await lab.explain(agent, held)
    assert (answer.state, answer.reason) == (Standing.ENDED, "its lease expired after 10 min of silence")
    assert await sql.fetchrow("select state::text, ended::text from lease") == ("ended", "expired")
    assert await sql.fetchval("select state::text from task") == "failed"


async def test_only_the_databases_clock_ends_a_lease(lab: Lab, sql: Sql) -> None:
    """Casebook C31."""
    await lab.host()
    lease = lease_of(await lab.request(await lab.agent()))
    await sql.execute("update lease set expires_at = clock_now() + interval '1 second'")
    assert not await lab.app.leases.expire(lease)
    await sql.execute("set warploom.clock_offset = '1 day'")
    assert (await lab.duties())["lease reaper"] == 0


async def test_an_expired_lease_leaves_its_card_taken_until_it_is_observed_clear(lab: Lab, clock: Clock) -> None:
    """Casebook C25."""
    host = await lab.host(interval=600)
    await lab.request(await lab.agent("claude-1"))
    waiting = await lab.request(await lab.agent("claude-2"))
    clock.advance(minutes=11)
    await lab.duties()
    lane = (await lab.app.cards.survey()).hosts[0].cards[0]
    assert (lane.state, lane.holder) == (CardState.SETTLING, None)
    assert (await lab.explain(await lab.agent("claude-2"), waiting)).state is Standing.QUEUED
    host.run(0, lease="L-1")
    await host.survey()
    assert (await lab.explain(await lab.agent("claude-2"), waiting)).state is Standing.QUEUED
    host.end(0)
    await host.survey()
    assert (await lab.explain(await lab.agent("claude-2"), waiting)).state is Standing.OFFERED


async def test_any_call_of_its_session_pushes_a_lease_out(lab: Lab, clock: Clock, sql: Sql) -> None:
    await lab.host(interval=600)
    held = await lab.request(await lab.agent())
    for _ in range(5):
        clock.advance(minutes=9)
        await lab.agent()
        await lab.duties()
    assert (await lab.explain(await lab.agent(), held)).state is Standing.ACTIVE
    left = await sql.fetchval("select expires_at - clock_now() from lease")
    assert timedelta(minutes=9) < left <= timedelta(minutes=10)


async def test_a_call_of_another_session_does_not(lab: Lab, clock: Clock) -> None:
    await lab.host(interval=600)
    held = await lab.request(await lab.agent("claude-1"))
    clock.advance(minutes=9)
    other = await lab.agent("claude-2")
    clock.advance(minutes=2)
    await lab.duties()
    assert (await lab.explain(other, held)).state is Standing.ENDED


async def test_a_heartbeat_does_not_stretch_an_offer(lab: Lab, clock: Clock) -> None:
    host = await lab.host(interval=600)
    holder = await lab.agent("claude-1")
    lease = await lab.hold(holder)
    waiting = await lab.request(await lab.agent("claude-2"))
    await lab.app.leases.release(holder, lease)
    await host.survey()
    for _ in range(4):
        clock.advance(seconds=50)
        await lab.agent("claude-2")
    assert (await lab.duties())["offer lapser"] == 1
    assert (await lab.app.tickets.wait(holder, ticket_of(waiting), 0)).lease == "L-3"


async def test_a_late_heartbeat_keeps_the_lease_while_nobody_ended_it(lab: Lab, clock: Clock) -> None:
    """Casebook C23."""
    await lab.host(interval=600)
    held = await lab.request(await lab.agent())
    clock.advance(minutes=30)
    await lab.agent()
    assert (await lab.duties())["lease reaper"] == 0
    assert (await lab.explain(await lab.agent(), held)).state is Standing.ACTIVE


async def test_a_holder_that_slept_past_its_lease_is_told_at_its_next_contact(lab: Lab, clock: Clock) -> None:
    """Casebook C31."""
    await lab.host(interval=600)
    await lab.request(await lab.agent(), "train")
    clock.advance(minutes=11)
    await lab.duties()
    agent = await lab.agent()
    assert agent.has_unread
    notices = await lab.app.sessions.take_notices(agent)
    assert len(notices) == 1
    assert "L-1 on local/0 for T-1 'train' ended after 10 min of silence" in notices[0]
    assert "gpu_request" in notices[0]


async def test_a_lease_of_very_many_cards_ends_like_any_other(lab: Lab, clock: Clock) -> None:
    await lab.host("h" * 80, cards=64, interval=600)
    await lab.request(await lab.agent(), "t" * 200, "any", cards=64)
    clock.advance(minutes=11)
    assert (await lab.duties())["lease reaper"] == 1
    notices = await lab.app.sessions.take_notices(await lab.agent())
    assert "/7 and 56 more for T-1" in notices[0]


async def test_a_jump_of_the_clock_ends_only_leases_whose_holders_stay_silent(lab: Lab, clock: Clock, sql: Sql) -> None:
    """Casebook C31: one sweep after a jump never ends the leases of those who were heard or seen since."""
    host = await lab.host(cards=3, interval=600)
    working, alive, gone = [await lab.agent(f"claude-{number}") for number in range(1, 4)]
    for device, agent in enumerate((working, alive, gone)):
        await lab.hold(agent, str(device))
    host.run(0, lease="L-1")
    clock.advance(hours=8)
    await host.survey()
    await lab.agent("claude-2")
    assert (await lab.duties())["lease reaper"] == 1
    live = [row["id"] for row in await sql.fetch("select id from lease where state = 'active' order by id")]
    assert live == [1, 2]


async def test_a_dead_holder_keeps_its_card_no_longer_for_a_clock_that_is_set_back(
    lab: Lab, clock: Clock, sql: Sql
) -> None:
    """Casebook C32: what was given before the clock was set back is no more than its usual time, and its holder is told."""
    await lab.host(interval=600)
    held = await lab.request(await lab.agent())
    clock.advance(hours=-1)
    assert (await lab.duties())["lease reaper"] == 1
    assert (
        timedelta(minutes=9) < await sql.fetchval("select expires_at - clock_now() from lease") <= timedelta(minutes=10)
    )
    assert await sql.fetchval("select count(*) from event where kind = 'lease.shortened' and lease_id = 1") == 1
    assert (await lab.duties())["lease reaper"] == 0
    clock.advance(minutes=10, seconds=1)
    assert (await lab.duties())["lease reaper"] == 1
    agent = await lab.agent()
    assert (await lab.explain(agent, held)).state is Standing.ENDED
    first, last = await lab.app.sessions.take_notices(agent)
    assert "the clock was set back by 1 h: L-1 on local/0 for T-1" in first
    assert "ended after 10 min of silence" in last


async def test_an_offer_is_held_out_no_longer_for_a_clock_that_is_set_back(lab: Lab, clock: Clock) -> None:
    """Casebook C32."""
    host = await lab.host(interval=600)
    holder = await lab.agent("claude-1")
    lease = await lab.hold(holder)
    await lab.request(await lab.agent("claude-2"))
    await lab.app.leases.release(holder, lease)
    await host.survey()
    clock.advance(hours=-1)
    await lab.duties()
    clock.advance(seconds=181)
    assert (await lab.duties())["offer lapser"] == 1


async def test_a_small_step_back_of_the_clock_changes_no_lease(lab: Lab, clock: Clock) -> None:
    """Casebook C32."""
    await lab.host(interval=600)
    await lab.request(await lab.agent())
    clock.advance(seconds=-29)
    assert (await lab.duties())["lease reaper"] == 0


async def test_the_lease_time_is_a_setting(open_app, clock: Clock) -> None:  # type: ignore[no-untyped-def]
    lab = Lab(await open_app(lease_minutes=1))
    await lab.host(interval=600)
    await lab.request(await lab.agent())
    clock.advance(seconds=61)
    assert (await lab.duties())["lease reaper"] == 1
