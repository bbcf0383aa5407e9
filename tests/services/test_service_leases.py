from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from support.databases import Clock
from support.lab import Lab, lease_of, ticket_of
from support.rows import Sql, whole_database
from warploom.domain.callers import Caller
from warploom.domain.errors import LeaseLost, MalformedInput, NotFound, NotYours
from warploom.domain.identifiers import LeaseId
from warploom.domain.leases import LeaseAnswer, LeaseState
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing

Call = Callable[[Lab, Actor, LeaseId], Awaitable[LeaseAnswer]]

WRITES: dict[str, Call] = {
    "accept": lambda lab, actor, lease: lab.app.leases.accept(actor, lease),
    "extend": lambda lab, actor, lease: lab.app.leases.extend(actor, lease, 30, "larger than thought"),
    "report": lambda lab, actor, lease: lab.app.leases.report(lease, 7, 10, actor),
    "report of the job itself": lambda lab, _, lease: lab.app.leases.report(lease, 7, 10),
    "release": lambda lab, actor, lease: lab.app.leases.release(actor, lease),
}
writes = pytest.mark.parametrize("write", WRITES)


async def test_extending_moves_the_declared_end_and_nothing_else(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent, minutes=20)
    before = await sql.fetchrow("select expected_end, granted_at, accepted_at from lease")
    answer = await lab.app.leases.extend(agent, lease, 30, "larger\nthan thought")
    after = await sql.fetchrow("select expected_end, granted_at, accepted_at, state from lease")
    assert after["expected_end"] == before["expected_end"] + timedelta(minutes=30) == answer.expected_end
    assert (after["granted_at"], after["accepted_at"]) == (before["granted_at"], before["accepted_at"])
    assert (answer.state, answer.free_in, answer.eta_source) == (LeaseState.ACTIVE, "~50 min", "declared")
    facts = await sql.fetchval("select facts from event where kind = 'lease.extended'")
    assert '"larger than thought"' in facts
    assert '"30"' in facts


async def test_extending_after_the_declared_end_counts_from_now(lab: Lab, clock: Clock) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent, minutes=5)
    clock.advance(minutes=8)
    assert (await lab.app.leases.extend(agent, lease, 30, "slow")).free_in == "~30 min"


async def test_an_end_is_declared_by_extending_where_there_was_none(lab: Lab) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    assert (await lab.app.leases.extend(agent, lease, 30, "now I know")).free_in == "~30 min"


async def test_passing_the_declared_end_ends_nothing(lab: Lab, clock: Clock) -> None:
    """Casebook C36: only silence ends a lease."""
    await lab.host(interval=600)
    agent = await lab.agent()
    held = await lab.request(agent, minutes=5)
    clock.advance(minutes=8)
    await lab.duties()
    assert (await lab.explain(agent, held)).state is Standing.ACTIVE
    holder = (await lab.app.cards.survey()).hosts[0].cards[0].holder
    assert holder is not None
    assert holder.labels == ["overdue"]


async def test_a_lease_cannot_be_extended_beyond_sixty_days(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent, minutes=86_400)
    before = await whole_database(sql)
    with pytest.raises(MalformedInput, match="more than sixty days"):
        await lab.app.leases.extend(agent, lease, 1, "more")
    assert await whole_database(sql) == before


async def test_reports_measure_the_rate_and_tell_the_end(lab: Lab, clock: Clock) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    first = await lab.app.leases.report(lease, 0, 600, agent)
    assert (first.step, first.total, first.free_in) == (0, 600, "unknown")
    clock.advance(minutes=1)
    second = await lab.app.leases.report(lease, 60, None, agent)
    assert (second.step, second.total) == (60, None)
    third = await lab.app.leases.report(lease, 60, 600, agent)
    assert (third.free_in, third.eta_source) == ("8–10 min", "measured")


async def test_a_report_too_far_from_its_total_to_be_meant_spoils_nobodys_view(lab: Lab, clock: Clock) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    await lab.app.leases.report(lease, 0, 2**53, agent)
    clock.advance(minutes=1)
    await lab.app.leases.report(lease, 1, 2**53, agent)
    waiting = await lab.request(await lab.agent("claude-2"))
    assert waiting.starts is not None
    assert waiting.starts.text == "unknown"
    assert (await lab.app.cards.survey()).hosts[0].cards[0].free.text == "unknown"


async def test_a_job_may_report_without_a_session_but_do_nothing_else(lab: Lab, sql: Sql) -> None:
    await lab.host()
    lease = await lab.hold(await lab.agent())
    assert (await lab.app.leases.report(lease, 5, 10)).step == 5
    assert await sql.fetchrow("select step, total from progress where lease_id = 1") == (5, 10)


async def test_releasing_gives_the_card_back_and_finishes_the_ticket(lab: Lab, sql: Sql) -> None:
    host = await lab.host()
    agent = await lab.agent()
    held = await lab.request(agent)
    answer = await lab.app.leases.release(agent, lease_of(held))
    assert (answer.state, answer.expires_at, answer.free_in) == (LeaseState.ENDED, None, None)
    assert await sql.fetchrow("select state::text, ended::text, ended_at is not null from lease") == (
        "ended",
        "released",
        True,
    )
    assert await sql.fetchrow("select state::text, lease_id, finished_at is not null from task") == ("done", None, True)
    assert (await lab.explain(agent, held)).state is Standing.ENDED
    await host.survey()
    assert (await lab.request(agent, "again")).state is Standing.ACTIVE


async def test_releasing_twice_is_success_and_changes_nothing(lab: Lab, sql: Sql) -> None:
    """Casebook C24."""
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    await lab.app.leases.release(agent, lease)
    before = await whole_database(sql)
    answer = await lab.app.leases.release(agent, lease)
    assert answer.state is LeaseState.ENDED
    assert "released already" in answer.next
    assert await whole_database(sql) == before


@pytest.mark.parametrize("write", ["accept", "extend", "report", "report of the job itself"])
async def test_a_released_lease_is_lost_to_every_other_call(lab: Lab, sql: Sql, write: str) -> None:
    host = await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    await lab.app.leases.release(agent, lease)
    await host.survey()
    await lab.hold(await lab.agent("codex-1"))
    before = await whole_database(sql)
    with pytest.raises(LeaseLost) as lost:
        await WRITES[write](lab, agent, lease)
    assert "its holder released it; local/0 is now held by L-2 (codex-1)" in lost.value.cause
    assert await whole_database(sql) == before


@writes
async def test_a_lease_that_expired_is_lost_and_changes_nothing(lab: Lab, clock: Clock, sql: Sql, write: str) -> None:
    """Casebook C22."""
    host = await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    await lab.app.leases.report(lease, 3, 10)
    clock.advance(minutes=11)
    assert (await lab.duties())["lease reaper"] == 1
    await host.survey()
    await lab.hold(await lab.agent("codex-1"))
    before = await whole_database(sql)
    with pytest.raises(LeaseLost) as lost:
        await WRITES[write](lab, agent, lease)
    assert "silent for a whole lease time; local/0 is now held by L-2 (codex-1)" in lost.value.cause
    assert "gpu_request" in lost.value.next_step
    assert await whole_database(sql) == before


@pytest.mark.parametrize("write", [name for name in WRITES if name != "report of the job itself"])
async def test_somebody_elses_lease_is_not_touched(lab: Lab, sql: Sql, write: str) -> None:
    await lab.host()
    lease = await lab.hold(await lab.agent("claude-1"))
    thief = await lab.agent("codex-1")
    before = await whole_database(sql)
    with pytest.raises(NotYours, match="L-1 belongs to claude-1, not to codex-1"):
        await WRITES[write](lab, thief, lease)
    assert await whole_database(sql) == before


@writes
async def test_a_lease_that_never_was_is_not_found(lab: Lab, sql: Sql, write: str) -> None:
    await lab.host()
    agent = await lab.agent()
    before = await whole_database(sql)
    with pytest.raises(NotFound, match="There is no lease L-999"):
        await WRITES[write](lab, agent, LeaseId(999))
    assert await whole_database(sql) == before


@writes
async def test_every_call_that_names_a_lease_is_a_sign_of_life(lab: Lab, clock: Clock, sql: Sql, write: str) -> None:
    await lab.host(interval=600)
    agent = await lab.agent()
    lease = await lab.hold(agent)
    clock.advance(minutes=9)
    await WRITES[write](lab, agent, lease)
    clock.advance(minutes=9)
    await lab.duties()
    state, left = await sql.fetchrow("select state::text, expires_at - clock_now() from lease")
    assert state == ("ended" if write == "release" else "active")
    if write != "release":
        assert timedelta(0) < left <= timedelta(minutes=1)


async def test_a_sign_of_life_never_shortens_a_lease(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    await sql.execute("update lease set expires_at = expires_at + interval '1 day'")
    before = await sql.fetchval("select expires_at from lease")
    for write in ("accept", "extend", "report"):
        await WRITES[write](lab, agent, lease)
    await lab.agent()
    assert await sql.fetchval("select expires_at from lease") == before


async def test_another_session_of_the_same_agent_takes_the_lease_over_by_naming_it(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    other = await lab.app.sessions.identify(Caller(agent="claude-1", session_key="elsewhere"))
    assert other.session != agent.session
    await lab.app.leases.report(lease, 1, 2, other)
    assert await sql.fetchval("select session_id from lease") == other.session


@pytest.mark.parametrize(
    ("minutes", "reason"),
    [
        (0, "why"),
        (-5, "why"),
        (float("nan"), "why"),
        (float("inf"), "why"),
        (1e300, "why"),
        (1e-300, "why"),
        (5, ""),
        (5, "\x00\n"),
        (5, "x" * 501),
        (5, "x" * 1_000_000),
        (5, "\ud800"),
    ],
)
async def test_an_extension_that_makes_no_sense_is_refused_and_changes_nothing(
    lab: Lab, sql: Sql, minutes: float, reason: str
) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    before = await whole_database(sql)
    with pytest.raises(MalformedInput) as refusal:
        await lab.app.leases.extend(agent, lease, minutes, reason)
    assert len(str(refusal.value)) < 300
    assert await whole_database(sql) == before


@pytest.mark.parametrize(("step", "total"), [(-1, None), (2**63, None), (10**400, 1), (1, 0), (1, -1), (1, 2**63)])
async def test_a_report_that_makes_no_sense_is_refused_and_changes_nothing(
    lab: Lab, sql: Sql, step: int, total: int | None
) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    before = await whole_database(sql)
    with pytest.raises(MalformedInput):
        await lab.app.leases.report(lease, step, total, agent)
    assert await whole_database(sql) == before


async def test_a_lease_in_use_is_not_left_but_released(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    held = await lab.request(agent)
    before = await whole_database(sql)
    with pytest.raises(MalformedInput, match="T-1 does not wait any more: it holds L-1") as refusal:
        await lab.app.tickets.leave(agent, ticket_of(held))
    assert 'gpu_release("L-1")' in refusal.value.next_step
    assert await whole_database(sql) == before
