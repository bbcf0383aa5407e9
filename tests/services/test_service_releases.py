"""Ending the record of somebody's lease: nothing is killed, and the card is granted only when it is observed clear."""

import pytest

from support.lab import Lab, lease_of
from support.rows import Sql
from warploom.domain.cards import CardState
from warploom.domain.errors import LeaseLost, NotAllowed, NotFound
from warploom.domain.identifiers import LeaseId, parse_lease
from warploom.domain.leases import ForcedAnswer
from warploom.domain.standings import Standing
from warploom.domain.tasks import TaskState, TaskWish


async def force(lab: Lab, lease: LeaseId, *, preview: bool = False) -> ForcedAnswer:
    return await lab.app.releases.force(await lab.operator(), lease, "its owner is away", preview=preview)


async def test_a_preview_says_what_keeps_running_and_who_is_next(lab: Lab, sql: Sql) -> None:
    host = await lab.host()
    lease = await lab.hold(await lab.agent())
    host.run(0, f"L-{lease}", 9_216)
    await host.survey()
    await lab.request(await lab.agent("codex-1"), job="eval")
    answer = await force(lab, lease, preview=True)
    assert not answer.done
    assert answer.consequences == [
        "L-1 of claude-1 ends at once; nothing is killed.",
        "Its request T-1 'train' ends as failed.",
        "Keeps running on local/0: python (L-1, pid 5001, 9 GiB)",
        "local/0 stays taken until observed clear.",
        "Next is T-2 'eval' (codex-1).",
        "claude-1 is told who did it and why.",
    ]
    assert await sql.fetchval("select state from lease where id = 1") == "active"


async def test_the_next_is_granted_when_the_card_is_observed_clear_and_not_before(lab: Lab) -> None:
    """Casebook C25: the record of a lease is gone, its process is still there."""
    host = await lab.host()
    lease = await lab.hold(await lab.agent())
    host.run(0, f"L-{lease}")
    await host.survey()
    other = await lab.agent("codex-1")
    waiting = await lab.request(other, job="eval")
    await force(lab, lease)
    await host.survey()
    await lab.duties()
    assert (await lab.explain(other, waiting)).state is Standing.QUEUED
    host.end(0)
    await host.survey()
    assert (await lab.explain(other, waiting)).state is Standing.OFFERED


async def test_its_holder_is_told_and_writes_with_it_change_nothing(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    await force(lab, lease)
    (told,) = await lab.app.messages.unread(agent)
    assert told.text.startswith(
        "ada ended your lease L-1 on local/0 for T-1 'train': its owner is away. Nothing was killed"
    )
    with pytest.raises(LeaseLost, match="an operator ended it"):
        await lab.app.leases.report(lease, 5, 10, agent)
    outcome = await sql.fetchval("select state::text || ': ' || outcome from task where id = 1")
    assert outcome == "failed: ada ended its lease: its owner is away"
    events, _ = await lab.app.events.page(None, 1)
    assert events[-1].text == "ada ended L-1 of claude-1 on local/0: its owner is away"


async def test_a_claimed_task_may_be_claimed_by_anybody_again(lab: Lab) -> None:
    await lab.host()
    agent = await lab.agent()
    task = await lab.app.tasks.create(agent, TaskWish(title="write the parser"), "local")
    (claim,) = (await lab.app.claims.claim(agent)).claims
    lease = parse_lease(claim.lease)
    answer = await force(lab, lease)
    assert answer.consequences == [
        "L-1 of claude-1 ends at once; nothing is killed.",
        f"{task.task} 'write the parser' is ready again, for anybody to claim.",
        "claude-1 is told who did it and why.",
    ]
    (again,) = (await lab.app.claims.claim(await lab.agent("codex-1"))).claims
    assert (again.task.task, again.task.state) == (task.task, TaskState.CLAIMED)


async def test_doing_it_twice_says_that_it_is_over(lab: Lab, sql: Sql) -> None:
    await lab.host()
    lease = await lab.hold(await lab.agent())
    await force(lab, lease)
    again = await force(lab, lease)
    assert again.consequences == ["L-1 is over already: an operator ended it. Nothing is left to do."]
    assert await sql.fetchval("select count(*) from event where kind = 'lease.forced'") == 1


async def test_a_lease_that_its_holder_released_is_over_too(lab: Lab) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    await lab.app.leases.release(agent, lease)
    assert (await force(lab, lease)).consequences == [
        "L-1 is over already: its holder released it. Nothing is left to do."
    ]


async def test_an_offer_can_be_ended_and_its_card_passes_on(lab: Lab) -> None:
    host = await lab.host(cards=1)
    first, second, third = await lab.agent(), await lab.agent("codex-1"), await lab.agent("codex-2")
    held = await lab.hold(first)
    await lab.request(second, job="eval")
    waiting = await lab.request(third, job="sweep")
    await lab.app.leases.release(first, held)
    await host.survey()
    await force(lab, LeaseId(2))
    await host.survey()
    answer = await lab.explain(third, waiting)
    assert (answer.state, lease_of(answer)) == (Standing.OFFERED, LeaseId(3))
    assert (await lab.app.cards.survey()).hosts[0].cards[0].state is CardState.OFFERED


async def test_agents_may_not_and_read_whom_to_write_to(lab: Lab) -> None:
    await lab.host()
    lease = await lab.hold(await lab.agent())
    with pytest.raises(NotAllowed) as refused:
        await lab.app.releases.force(await lab.agent("codex-1"), lease, "mine now", preview=False)
    assert refused.value.next_step == 'Write to its holder instead: loom_message("claude-1", "…").'
    with pytest.raises(NotFound):
        await force(lab, LeaseId(99))
