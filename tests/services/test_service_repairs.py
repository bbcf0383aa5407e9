import pytest

from support.databases import Clock
from support.graphs import finish, give_up, lease_number, make, state_of, task_number
from support.lab import Lab
from support.rows import Sql
from warploom.domain.errors import NotReady
from warploom.domain.failures import FailureClass
from warploom.domain.repairs import RecoveryWord
from warploom.domain.tasks import NeedsWish, TaskState


async def test_a_dead_letter_blocks_everything_behind_it_with_its_name_until_it_is_tried_again(lab: Lab) -> None:
    ada, operator = await lab.agent("ada"), await lab.operator()
    one = await make(lab, ada, "one")
    two = await make(lab, ada, "two", one)
    three = await make(lab, ada, "three", two)
    await give_up(lab, ada, one)
    for task in (two, three):
        whole = await lab.app.tasks.read(ada, task)
        assert (whole.state, whole.reason) == (TaskState.BLOCKED, f"upstream T-{one} was given up")
    step = await lab.app.repairs.reset(operator, three)
    assert (step.task, step.state) == (f"T-{one}", TaskState.READY)
    assert await state_of(lab, ada, three) is TaskState.PENDING
    for task in (one, two, three):
        await finish(lab, ada, task)


async def test_a_task_blocked_twice_stays_blocked_by_the_other_culprit(lab: Lab) -> None:
    ada, operator = await lab.agent("ada"), await lab.operator()
    one, two = await make(lab, ada, "one"), await make(lab, ada, "two")
    middle = await make(lab, ada, "middle", two)
    last = await make(lab, ada, "last", one, middle)
    await give_up(lab, ada, one)
    await give_up(lab, ada, two)
    await lab.app.repairs.reset(operator, one)
    assert (await lab.app.tasks.read(ada, last)).reason == f"upstream T-{two} was given up"
    await lab.app.repairs.reset(operator, two)
    assert await state_of(lab, ada, last) is TaskState.PENDING


async def test_the_graph_goes_on_without_a_skipped_task(lab: Lab) -> None:
    ada, operator = await lab.agent("ada"), await lab.operator()
    one, other = await make(lab, ada, "one"), await make(lab, ada, "other")
    two = await make(lab, ada, "two", one)
    three = await make(lab, ada, "three", one, other)
    await give_up(lab, ada, one)
    step = await lab.app.repairs.skip(operator, two, "not worth it")
    assert (step.task, step.state, step.reason) == (f"T-{one}", TaskState.CANCELLED, "skipped: not worth it")
    assert await state_of(lab, ada, two) is TaskState.READY
    assert await state_of(lab, ada, three) is TaskState.PENDING
    await finish(lab, ada, other)
    assert await state_of(lab, ada, three) is TaskState.READY


async def test_a_skipped_task_that_is_taken_up_again_is_waited_for_again(lab: Lab) -> None:
    ada, operator = await lab.agent("ada"), await lab.operator()
    one = await make(lab, ada, "one")
    two, started = await make(lab, ada, "two", one), await make(lab, ada, "started", one)
    await lab.app.repairs.skip(operator, one)
    await lab.app.claims.claim(ada, started)
    await lab.app.repairs.reset(operator, one)
    assert await state_of(lab, ada, two) is TaskState.PENDING
    await lab.app.claims.done(ada, started, None)
    await finish(lab, ada, one)
    assert await state_of(lab, ada, two) is TaskState.READY


async def test_cancelling_blocks_what_depends_on_it_and_cascades_on_request(lab: Lab) -> None:
    ada, operator = await lab.agent("ada"), await lab.operator()
    one = await make(lab, ada, "one")
    two = await make(lab, ada, "two", one)
    three = await make(lab, ada, "three", two)
    assert (await lab.app.repairs.cancel(operator, one)).done == [f"T-{one}"]
    assert await state_of(lab, ada, three) is TaskState.BLOCKED
    assert (await lab.app.repairs.cancel(operator, two, cascade=True)).done == [f"T-{two}", f"T-{three}"]
    assert await state_of(lab, ada, three) is TaskState.CANCELLED


async def test_cancelling_a_claimed_task_ends_its_lease_and_tells_the_holder(lab: Lab) -> None:
    host = await lab.host(cards=1)
    ada, operator = await lab.agent("ada"), await lab.operator()
    task = await make(lab, ada, "train", needs=NeedsWish(device="0"))
    claim = (await lab.app.claims.claim(ada, task)).claims[0]
    await lab.app.repairs.cancel(operator, task, "wrong data")
    assert await state_of(lab, ada, task) is TaskState.CANCELLED
    again = await lab.agent("ada")
    notices = await lab.app.sessions.take_notices(again)
    assert [f"your lease {claim.lease} ended" in notice and "wrong data" in notice for notice in notices] == [True]
    await host.survey()
    assert (await lab.request(ada, "eval", "0")).lease is not None


async def test_an_epic_is_cancelled_with_its_tasks_and_closes_without_a_cancelled_one(lab: Lab) -> None:
    ada, operator = await lab.agent("ada"), await lab.operator()
    epic = await make(lab, ada, "epic", kind="epic")
    one, two = [await make(lab, ada, title, parent_id=f"T-{epic}") for title in ("one", "two")]
    await lab.app.repairs.cancel(operator, one)
    assert await state_of(lab, ada, epic) is TaskState.PENDING
    await finish(lab, ada, two)
    assert await state_of(lab, ada, epic) is TaskState.DONE
    other = await make(lab, ada, "other epic", kind="epic")
    child = await make(lab, ada, "child", parent_id=f"T-{other}")
    outside = await make(lab, ada, "outside", child)
    await lab.app.repairs.cancel(operator, other)
    assert await state_of(lab, ada, child) is TaskState.CANCELLED
    assert await state_of(lab, ada, outside) is TaskState.BLOCKED


async def test_a_reset_claim_may_be_claimed_again_and_its_holder_has_lost_it(lab: Lab) -> None:
    ada, bob, operator = await lab.agent("ada"), await lab.agent("bob"), await lab.operator()
    task = await make(lab, ada, "task")
    lease = lease_number((await lab.app.claims.claim(ada, task)).claims[0].lease)
    await lab.app.repairs.reset(operator, task)
    claim = (await lab.app.claims.claim(bob, task)).claims[0]
    assert claim.task.attempts == 1
    with pytest.raises(Exception, match="given back"):
        await lab.app.claims.done(ada, task, lease)


async def test_a_task_that_is_ready_again_is_reset_to_its_first_attempt_and_an_idea_is_not(
    lab: Lab, clock: Clock
) -> None:
    ada, boss = await lab.agent("ada"), await lab.operator()
    task = await make(lab, ada, "tried")
    await lab.app.claims.claim(ada, task)
    await lab.app.claims.fail(ada, task, None, "no network", FailureClass.INFRA)
    clock.advance(hours=2)
    await lab.duties()
    assert (await lab.app.tasks.read(ada, task)).attempts == 1
    assert (await lab.app.repairs.reset(boss, task)).state is TaskState.READY
    assert (await lab.app.tasks.read(ada, task)).attempts == 0
    idea = task_number((await lab.app.tasks.idea(ada, "perhaps")).task)
    with pytest.raises(NotReady, match="only an idea"):
        await lab.app.repairs.reset(boss, idea)


async def test_a_task_that_is_done_stays_done(lab: Lab) -> None:
    ada, operator = await lab.agent("ada"), await lab.operator()
    task = await make(lab, ada, "task")
    await finish(lab, ada, task)
    for decision in (
        lab.app.repairs.reset(operator, task),
        lab.app.repairs.cancel(operator, task),
        lab.app.repairs.skip(operator, task),
    ):
        with pytest.raises(NotReady, match=r"done|holds nothing"):
            await decision


async def test_several_are_declared_done_each_on_its_own(lab: Lab) -> None:
    ada, operator = await lab.agent("ada"), await lab.operator()
    claimed, lost, done = [await make(lab, ada, title) for title in ("claimed", "lost", "done")]
    behind = await make(lab, ada, "behind", claimed, lost)
    last = await make(lab, ada, "last", behind)
    await lab.app.claims.claim(ada, claimed)
    await give_up(lab, ada, lost)
    await finish(lab, ada, done)
    answer = await lab.app.repairs.batch_done(operator, [claimed, lost, done], {"by": "hand"})
    assert answer.done == [f"T-{claimed}", f"T-{lost}"]
    assert list(answer.refused) == [f"T-{done}"]
    assert await state_of(lab, ada, behind) is TaskState.READY
    assert (await lab.app.tasks.read(ada, lost)).output == {"by": "hand"}
    assert (await lab.app.repairs.batch_done(operator, [behind], None, "no", dead_letter=True)).done == [f"T-{behind}"]
    assert [line.task for line in await lab.app.repairs.dead_letters(operator)] == [f"T-{behind}"]
    assert await state_of(lab, ada, last) is TaskState.BLOCKED


async def test_what_is_declared_done_in_the_middle_of_a_blocked_part_frees_what_is_behind_it(lab: Lab) -> None:
    ada, operator = await lab.agent("ada"), await lab.operator()
    one = await make(lab, ada, "one")
    two = await make(lab, ada, "two", one)
    three = await make(lab, ada, "three", two)
    four = await make(lab, ada, "four", one, three)
    await give_up(lab, ada, one)
    await lab.app.repairs.batch_done(operator, [two])
    assert await state_of(lab, ada, three) is TaskState.READY
    assert await state_of(lab, ada, four) is TaskState.BLOCKED
    await lab.app.repairs.reset(operator, one)
    assert await state_of(lab, ada, four) is TaskState.PENDING


async def test_recovery_frees_the_abandoned_and_leaves_the_living_alone(lab: Lab, clock: Clock) -> None:
    host = await lab.host(cards=1)
    operator = await lab.operator()
    gone, working, alive = [await lab.agent(name) for name in ("gone", "working", "alive")]
    stale = await make(lab, gone, "stale")
    training = await make(lab, working, "training", needs=NeedsWish(device="0"))
    fresh = await make(lab, alive, "fresh")
    await lab.app.claims.claim(gone, stale)
    claim = (await lab.app.claims.claim(working, training)).claims[0]
    host.run(0, lease=claim.lease)
    await lab.app.claims.claim(alive, fresh)
    clock.advance(minutes=6)
    await host.survey()
    await lab.agent("alive")
    plan = await lab.app.repairs.recover(operator, execute=False)
    assert {line.task: line.word for line in plan.lines} == {
        f"T-{stale}": RecoveryWord.STALE,
        f"T-{training}": RecoveryWord.CARD_OCCUPIED,
        f"T-{fresh}": RecoveryWord.ACTIVE,
    }
    assert await state_of(lab, gone, stale) is TaskState.CLAIMED
    done = await lab.app.repairs.recover(operator, execute=True)
    assert [line.task for line in done.lines if line.done] == [f"T-{stale}"]
    assert await state_of(lab, gone, stale) is TaskState.READY
    assert await state_of(lab, gone, fresh) is TaskState.CLAIMED


async def test_a_project_that_has_nothing_left_to_do_is_told_of_once(lab: Lab) -> None:
    ada = await lab.agent("ada")
    task = await make(lab, ada, "task")
    assert await lab.app.duties.repairs.complete_projects() == 0
    await finish(lab, ada, task)
    assert await lab.app.duties.repairs.complete_projects() == 1
    assert await lab.app.duties.repairs.complete_projects() == 0
    await finish(lab, ada, await make(lab, ada, "more"))
    assert await lab.app.duties.repairs.complete_projects() == 1


async def test_a_silent_holder_is_told_of_once_for_each_silence(lab: Lab, clock: Clock) -> None:
    ada = await lab.agent("ada")
    await make(lab, ada, "task")
    await lab.app.claims.claim(ada)
    assert await lab.app.repairs.note_silent() == 0
    clock.advance(minutes=6)
    assert [await lab.app.repairs.note_silent() for _ in range(2)] == [1, 0]
    await lab.agent("ada")
    clock.advance(minutes=6)
    assert await lab.app.repairs.note_silent() == 1


async def test_the_nets_find_nothing_where_every_change_did_its_part(lab: Lab) -> None:
    ada = await lab.agent("ada")
    epic = await make(lab, ada, "epic", kind="epic")
    one = await make(lab, ada, "one", parent_id=f"T-{epic}")
    await make(lab, ada, "two", one)
    await give_up(lab, ada, one)
    assert await lab.app.repairs.close_epics() == 0
    assert await lab.app.repairs.block_strays() == 0


async def test_the_nets_catch_what_was_written_past_every_rule(lab: Lab, sql: Sql) -> None:
    ada = await lab.agent("ada")
    epic = await make(lab, ada, "epic", kind="epic")
    one = await make(lab, ada, "one", parent_id=f"T-{epic}")
    two = await make(lab, ada, "two", one)
    await sql.execute("set session_replication_role = replica")
    await sql.execute("delete from dependency where task_id = $1", epic)
    await sql.execute("update task set unmet = 0 where id = $1", epic)
    await sql.execute("update task set state = 'cancelled', finished_at = now() where id = $1", one)
    assert await lab.app.repairs.close_epics() == 1
    assert await lab.app.repairs.block_strays() == 1
    assert await state_of(lab, ada, two) is TaskState.BLOCKED
