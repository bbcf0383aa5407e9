import asyncio
from datetime import timedelta
from typing import Any

import pytest

from support.databases import Clock
from support.graphs import finish, lease_number, make, state_of, task_number
from support.lab import Lab
from support.rows import Sql
from warploom.domain.errors import LeaseLost, MalformedInput, NotReady, NotYours, Taken
from warploom.domain.failures import FailureClass
from warploom.domain.standings import Standing
from warploom.domain.tasks import NeedsWish, TaskState


async def test_the_next_task_is_the_oldest_of_the_most_urgent(lab: Lab) -> None:
    ada = await lab.agent("ada")
    await make(lab, ada, "later")
    urgent = await make(lab, ada, "urgent", priority="p0")
    answer = await lab.app.claims.claim(ada)
    assert [claim.task.task for claim in answer.claims] == [f"T-{urgent}"]
    assert answer.claims[0].task.state is TaskState.CLAIMED
    assert answer.claims[0].task.attempts == 1


async def test_finishing_a_task_makes_ready_what_waited_only_for_it(lab: Lab) -> None:
    ada = await lab.agent("ada")
    first = await make(lab, ada, "first")
    other = await make(lab, ada, "other")
    second = await make(lab, ada, "second", first)
    both = await make(lab, ada, "both", first, other)
    lease = (await lab.app.claims.claim(ada, first)).claims[0].lease
    await lab.app.claims.done(ada, first, lease_number(lease), {"n": 1}, "feature/x")
    assert await state_of(lab, ada, second) is TaskState.READY
    assert await state_of(lab, ada, both) is TaskState.PENDING
    whole = await lab.app.tasks.read(ada, first)
    assert (whole.state, whole.output, whole.branch) == (TaskState.DONE, {"n": 1}, "feature/x")
    texts = [line.text for line in (await lab.app.events.page(None, 50))[0]]
    assert f"1 ready after T-{first}: T-{second}" in texts
    assert "ada finished 'first'" in texts


async def test_finishing_twice_with_the_same_lease_is_success(lab: Lab) -> None:
    ada = await lab.agent("ada")
    task = await make(lab, ada, "once")
    lease = lease_number((await lab.app.claims.claim(ada)).claims[0].lease)
    await lab.app.claims.done(ada, task, lease)
    assert (await lab.app.claims.done(ada, task, lease)).state is TaskState.DONE


async def test_fifty_racers_have_one_winner_and_the_losers_learn_its_name(lab: Lab) -> None:
    racers = [await lab.agent(f"racer-{place}") for place in range(50)]
    task = await make(lab, racers[0], "the one")
    answers = await asyncio.gather(*(lab.app.claims.claim(racer, task) for racer in racers), return_exceptions=True)
    won = [racer for racer, answer in zip(racers, answers, strict=True) if not isinstance(answer, BaseException)]
    lost = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(won) == 1
    assert {type(error) for error in lost} == {Taken}
    assert all(f"claimed by {won[0].agent_name} (L-" in str(error) for error in lost)


async def test_agents_that_ask_for_the_next_task_at_once_get_different_ones(lab: Lab) -> None:
    agents = [await lab.agent(f"agent-{place}") for place in range(12)]
    tasks = {await make(lab, agents[0], f"task {place}") for place in range(12)}
    answers = await asyncio.gather(*(lab.app.claims.claim(agent) for agent in agents))
    assert {task_number(answer.claims[0].task.task) for answer in answers} == tasks


async def test_a_late_finish_after_somebody_took_over_changes_nothing(lab: Lab, clock: Clock) -> None:
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    task = await make(lab, ada, "contested")
    stale = lease_number((await lab.app.claims.claim(ada)).claims[0].lease)
    clock.advance(minutes=11)
    await lab.duties()
    fresh = lease_number((await lab.app.claims.claim(bob, task)).claims[0].lease)
    for late in (
        lab.app.claims.done(ada, task, stale, "late"),
        lab.app.claims.done(ada, task, None, "late"),
        lab.app.claims.fail(ada, task, stale, "late"),
        lab.app.claims.heartbeat(ada, task, stale, "late", 50),
        lab.app.claims.escalate(ada, task, stale, "late"),
    ):
        with pytest.raises(LeaseLost):
            await late
    whole = await lab.app.tasks.read(bob, task)
    assert (whole.state, whole.agent, whole.lease, whole.output, whole.note) == (
        TaskState.CLAIMED,
        "bob",
        f"L-{fresh}",
        None,
        None,
    )


async def test_nobody_ends_the_claim_of_another_agent(lab: Lab) -> None:
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    task = await make(lab, ada, "mine")
    lease = lease_number((await lab.app.claims.claim(ada)).claims[0].lease)
    with pytest.raises(NotYours):
        await lab.app.claims.done(bob, task, lease)
    with pytest.raises(Taken):
        await lab.app.claims.done(bob, task, None)
    assert await state_of(lab, ada, task) is TaskState.CLAIMED


async def test_a_lease_of_another_task_is_refused(lab: Lab) -> None:
    ada = await lab.agent("ada")
    one, two = await make(lab, ada, "one"), await make(lab, ada, "two")
    lease = lease_number((await lab.app.claims.claim(ada, one)).claims[0].lease)
    with pytest.raises(MalformedInput, match=f"a lease on T-{one}, not on T-{two}"):
        await lab.app.claims.done(ada, two, lease)


async def test_a_task_that_nobody_claimed_cannot_be_finished(lab: Lab) -> None:
    ada = await lab.agent("ada")
    task = await make(lab, ada, "unclaimed")
    with pytest.raises(NotReady, match="Claim it with"):
        await lab.app.claims.done(ada, task, None)
    await finish(lab, ada, task)
    with pytest.raises(NotReady, match="Nothing is left to do"):
        await lab.app.claims.done(await lab.agent("bob"), task, None)


async def test_a_task_that_waits_is_not_claimed_and_says_for_what(lab: Lab) -> None:
    ada = await lab.agent("ada")
    first = await make(lab, ada, "first")
    second = await make(lab, ada, "second", first)
    with pytest.raises(NotReady, match="is pending: waits for 1 task"):
        await lab.app.claims.claim(ada, second)


async def test_a_failure_is_tried_again_after_a_while_and_given_up_in_the_end(lab: Lab, clock: Clock) -> None:
    ada = await lab.agent("ada")
    task = await make(lab, ada, "flaky", max_attempts=2)
    after = await make(lab, ada, "after", task)
    await lab.app.claims.claim(ada, task)
    step = await lab.app.claims.fail(ada, task, None, "network", FailureClass.INFRA)
    assert step.state is TaskState.FAILED
    assert step.retry_at is not None
    with pytest.raises(NotReady, match="tried again in"):
        await lab.app.claims.claim(ada, task)
    await lab.duties()
    assert await state_of(lab, ada, task) is TaskState.FAILED
    clock.advance(seconds=61)
    await lab.duties()
    assert await state_of(lab, ada, task) is TaskState.READY
    await lab.app.claims.claim(ada, task)
    assert (await lab.app.claims.fail(ada, task, None, "again")).state is TaskState.DEAD_LETTER
    blocked = await lab.app.tasks.read(ada, after)
    assert (blocked.state, blocked.reason) == (TaskState.BLOCKED, f"upstream T-{task} was given up")


async def test_a_task_that_is_itself_wrong_is_given_up_at_once(lab: Lab) -> None:
    ada = await lab.agent("ada")
    task = await make(lab, ada, "nonsense")
    await lab.app.claims.claim(ada, task)
    step = await lab.app.claims.fail(ada, task, None, "no such file", FailureClass.USER_ERROR)
    assert step.state is TaskState.DEAD_LETTER


async def test_failing_twice_with_the_same_lease_counts_once(lab: Lab) -> None:
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    task = await make(lab, ada, "flaky")
    lease = lease_number((await lab.app.claims.claim(ada, task)).claims[0].lease)
    await lab.app.claims.fail(ada, task, lease, "no")
    operator = await lab.operator()
    await lab.app.repairs.reset(operator, task)
    await lab.app.claims.claim(bob, task)
    await lab.app.claims.fail(ada, task, lease, "no")
    assert await state_of(lab, ada, task) is TaskState.CLAIMED


async def test_silence_counts_as_an_attempt_and_the_last_one_is_a_dead_letter(lab: Lab, clock: Clock) -> None:
    ada = await lab.agent("ada")
    task = await make(lab, ada, "poison", max_attempts=2)
    for expected in (TaskState.READY, TaskState.DEAD_LETTER):
        await lab.app.claims.claim(await lab.agent("ada"), task)
        clock.advance(minutes=11)
        await lab.duties()
        assert await state_of(lab, ada, task) is expected


async def test_a_claim_may_be_silent_for_as_long_as_was_asked_for(lab: Lab, clock: Clock) -> None:
    ada = await lab.agent("ada")
    task = await make(lab, ada, "long")
    await lab.app.claims.claim(ada, task, life=timedelta(hours=2))
    await lab.agent("ada")
    clock.advance(minutes=110)
    await lab.duties()
    assert await state_of(lab, ada, task) is TaskState.CLAIMED
    clock.advance(minutes=15)
    await lab.duties()
    assert await state_of(lab, ada, task) is TaskState.READY


async def test_a_sign_of_life_that_comes_late_but_first_keeps_the_claim(lab: Lab, clock: Clock) -> None:
    ada = await lab.agent("ada")
    task = await make(lab, ada, "slow")
    lease = lease_number((await lab.app.claims.claim(ada, task)).claims[0].lease)
    clock.advance(minutes=11)
    await lab.app.claims.heartbeat(ada, task, lease, "still at it")
    assert not await lab.app.leases.expire(lease)
    await lab.duties()
    assert await state_of(lab, ada, task) is TaskState.CLAIMED


async def test_a_heartbeat_tells_how_far_a_task_is(lab: Lab) -> None:
    ada = await lab.agent("ada")
    task = await make(lab, ada, "slow")
    await lab.app.claims.claim(ada, task)
    step = await lab.app.claims.heartbeat(ada, task, None, "half of it", 50)
    assert step.percent == 50
    whole = await lab.app.tasks.read(ada, task)
    assert (whole.percent, whole.note) == (50, "half of it")


async def test_an_escalation_waits_for_its_answer_and_costs_no_attempt(lab: Lab) -> None:
    ada, operator = await lab.agent("ada"), await lab.operator()
    task = await make(lab, ada, "unclear")
    await lab.app.claims.claim(ada, task)
    assert (await lab.app.claims.escalate(ada, task, None, "which\ndatabase?")).state is TaskState.BLOCKED
    asked = await lab.app.repairs.escalations(operator)
    assert [(each.task, each.message) for each in asked] == [(f"T-{task}", "which\ndatabase?")]
    await lab.app.repairs.answer(operator, task, "the staging one")
    claim = (await lab.app.claims.claim(ada, task)).claims[0]
    assert claim.task.attempts == 1
    assert [comment.text for comment in claim.task.comments] == ["the staging one"]
    assert await lab.app.repairs.escalations(operator) == []


async def test_an_agent_without_work_learns_of_the_ideas(lab: Lab) -> None:
    ada = await lab.agent("ada")
    idea = await lab.app.tasks.idea(ada, "a phone number")
    answer = await lab.app.claims.claim(ada)
    assert (answer.claims, answer.ideas) == ([], 1)
    assert 'loom_status(filter="idea")' in answer.next
    await lab.app.tasks.promote(ada, [task_number(idea.task)])
    assert (await lab.app.claims.claim(ada)).claims[0].task.task == idea.task


async def test_a_task_and_its_free_card_are_claimed_together(lab: Lab, sql: Sql) -> None:
    host = await lab.host(cards=1)
    ada = await lab.agent("ada")
    task = await make(lab, ada, "train", needs=NeedsWish(device="0"))
    claim = (await lab.app.claims.claim(ada, task)).claims[0]
    assert claim.cards == ["local/0"]
    assert claim.export is not None
    assert claim.export["WARPLOOM_LEASE"] == claim.lease
    with pytest.raises(NotReady, match="loom_done"):
        await lab.app.leases.release(ada, lease_number(claim.lease))
    assert (await lab.app.claims.done(ada, task, lease_number(claim.lease))).state is TaskState.DONE
    await host.survey()
    assert await sql.fetchval("select count(*) from lease_card where live") == 0


async def test_a_task_whose_card_is_busy_waits_in_its_queue_and_is_claimed_with_it(lab: Lab) -> None:
    host = await lab.host(cards=1)
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    held = await lab.request(bob, "eval", "0")
    task = await make(lab, ada, "train", needs=NeedsWish(device="0"))
    waiting = await lab.app.claims.claim(ada, task)
    assert [ticket.state for ticket in waiting.queued] == [Standing.QUEUED]
    with pytest.raises(Taken, match="ada waits for a card"):
        await lab.app.claims.claim(bob, task)
    assert held.lease is not None
    await lab.app.leases.release(bob, lease_number(held.lease))
    await host.survey()
    offer = await lab.app.tickets.explain(ada, task)
    assert offer.state is Standing.OFFERED
    assert offer.lease is not None
    await lab.app.claims.heartbeat(ada, task, lease_number(offer.lease), "started")
    assert (await lab.app.tasks.read(ada, task)).attempts == 1
    await lab.app.claims.fail(ada, task, None, "oom", FailureClass.OOM_DEVICE)
    assert await state_of(lab, ada, task) is TaskState.FAILED


async def test_the_next_task_is_never_one_whose_card_is_busy_while_another_is_ready(lab: Lab) -> None:
    await lab.host(cards=1)
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    await lab.request(bob, "eval", "0")
    busy = await make(lab, ada, "train", needs=NeedsWish(device="0"), priority="p0")
    plain = await make(lab, ada, "write")
    assert (await lab.app.claims.claim(ada)).claims[0].task.task == f"T-{plain}"
    answer = await lab.app.claims.claim(ada)
    assert [ticket.ticket for ticket in answer.queued] == [f"T-{busy}"]


async def test_the_next_task_comes_with_its_card_when_that_is_free_and_it_is_first(lab: Lab) -> None:
    await lab.host(cards=1)
    ada = await lab.agent("ada")
    train = await make(lab, ada, "train", needs=NeedsWish(device="any"), priority="p0")
    await make(lab, ada, "write")
    claim = (await lab.app.claims.claim(ada)).claims[0]
    assert (claim.task.task, claim.cards) == (f"T-{train}", ["local/0"])


async def test_missed_offers_give_a_task_back_to_everybody(lab: Lab, clock: Clock) -> None:
    host = await lab.host(cards=1)
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    held = await lab.request(bob, "eval", "0")
    task = await make(lab, ada, "train", needs=NeedsWish(device="0"))
    await lab.app.claims.claim(ada, task)
    assert held.lease is not None
    await lab.app.leases.release(bob, lease_number(held.lease))
    for _ in range(4):
        await host.survey()
        clock.advance(seconds=181)
        await lab.duties()
    whole = await lab.app.tasks.read(bob, task)
    assert (whole.state, whole.agent, whole.attempts) == (TaskState.READY, None, 0)


async def test_a_named_resource_is_had_by_one_task_at_a_time(lab: Lab) -> None:
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    one = await make(lab, ada, "migrate", needs=NeedsWish(resources=["staging"]))
    two = await make(lab, ada, "load test", needs=NeedsWish(resources=["staging", "load-generator"]))
    first = (await lab.app.claims.claim(ada)).claims[0]
    assert first.task.task == f"T-{one}"
    with pytest.raises(Taken, match=r"waits for staging, which L-\d+ \(ada\) has"):
        await lab.app.claims.claim(bob, two)
    assert (await lab.app.claims.claim(bob)).claims == []
    await lab.app.claims.done(ada, one, lease_number(first.lease))
    assert (await lab.app.claims.claim(bob)).claims[0].task.task == f"T-{two}"


async def test_several_are_claimed_at_once_and_finished_at_once(lab: Lab) -> None:
    ada = await lab.agent("ada")
    tasks = [await make(lab, ada, f"task {place}") for place in range(5)]
    claims = (await lab.app.claims.claim(ada, count=3)).claims
    assert [task_number(claim.task.task) for claim in claims] == tasks[:3]
    steps = await asyncio.gather(
        *(lab.app.claims.done(ada, task, lease_number(claim.lease)) for task, claim in zip(tasks, claims, strict=False))
    )
    assert [step.state for step in steps] == [TaskState.DONE] * 3


async def test_everything_goes_on_without_redis(lab: Lab, open_app: Any) -> None:
    app = await open_app(redis_url="none")
    quiet = Lab(app)
    ada = await quiet.agent("ada")
    first = await make(quiet, ada, "first")
    second = await make(quiet, ada, "second", first)
    await app.claims.claim(ada)
    await app.claims.done(ada, first, None)
    assert await state_of(quiet, ada, second) is TaskState.READY
