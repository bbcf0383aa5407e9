import asyncio

import pytest

from support.graphs import finish, give_up, make, state_of, task_number
from support.lab import Lab
from support.rows import Sql, add_edge
from warploom.domain.errors import CycleFound, Impossible, MalformedInput, NotFound, NotReady
from warploom.domain.identifiers import TaskId
from warploom.domain.tasks import NeedsWish, TaskChanges, TaskState, TaskWish


async def test_a_task_created_twice_is_one_task(lab: Lab) -> None:
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    first = await lab.app.tasks.create(ada, TaskWish("Write the parser", "all of it"))
    again = await lab.app.tasks.create(bob, TaskWish("  write   the PARSER. ", "All of it"))
    assert (again.task, again.deduplicated) == (first.task, True)
    assert not (await lab.app.tasks.create(bob, TaskWish("Write the parser", "half of it"))).deduplicated
    await finish(lab, ada, task_number(first.task))
    assert not (await lab.app.tasks.create(bob, TaskWish("Write the parser", "all of it"))).deduplicated


async def test_a_task_that_became_urgent_is_still_the_same_and_one_that_says_something_else_is_not(lab: Lab) -> None:
    ada = await lab.agent("ada")
    task = await make(lab, ada, "once")
    await lab.app.tasks.update(ada, task, TaskChanges(priority="p0", minutes=5))
    assert (await lab.app.tasks.create(ada, TaskWish("once"))).task == f"T-{task}"
    await lab.app.tasks.update(ada, task, TaskChanges(title="something else"))
    assert not (await lab.app.tasks.create(ada, TaskWish("once"))).deduplicated


async def test_a_key_names_one_task_even_when_that_is_done(lab: Lab) -> None:
    ada = await lab.agent("ada")
    first = await lab.app.tasks.create(ada, TaskWish("one", key="release-1"))
    await finish(lab, ada, task_number(first.task))
    again = await lab.app.tasks.create(ada, TaskWish("another title", key="release-1"))
    assert (again.task, again.state, again.deduplicated) == (first.task, TaskState.DONE, True)


async def test_fifty_retries_at_once_make_one_task(lab: Lab) -> None:
    ada = await lab.agent("ada")
    answers = await asyncio.gather(*(lab.app.tasks.create(ada, TaskWish("only once")) for _ in range(50)))
    assert len({answer.task for answer in answers}) == 1
    assert sum(not answer.deduplicated for answer in answers) == 1


async def test_a_cycle_is_refused_with_its_path(lab: Lab) -> None:
    ada = await lab.agent("ada")
    one = await make(lab, ada, "one")
    two = await make(lab, ada, "two", one)
    three = await make(lab, ada, "three", two)
    with pytest.raises(CycleFound, match=rf"That would be a cycle: T-{three} -> T-{two} -> T-{one} -> T-{three}\."):
        await lab.app.tasks.update(ada, one, TaskChanges(depends_on=[f"T-{three}"]))
    assert await state_of(lab, ada, one) is TaskState.READY


async def test_a_task_cannot_depend_on_the_epic_it_belongs_to(lab: Lab) -> None:
    ada = await lab.agent("ada")
    epic = await make(lab, ada, "epic", kind="epic")
    with pytest.raises(CycleFound):
        await make(lab, ada, "child", epic, parent_id=f"T-{epic}")
    assert (await lab.app.tasks.read(ada, epic)).unmet == 0


async def test_edges_added_from_both_ends_at_once_never_become_a_cycle(lab: Lab) -> None:
    ada = await lab.agent("ada")
    for turn in range(10):
        one, two = await make(lab, ada, f"a {turn}"), await make(lab, ada, f"b {turn}")
        answers = await asyncio.gather(
            lab.app.tasks.update(ada, one, TaskChanges(depends_on=[f"T-{two}"])),
            lab.app.tasks.update(ada, two, TaskChanges(depends_on=[f"T-{one}"])),
            return_exceptions=True,
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["CycleFound", "TaskAnswer"]


async def test_what_is_created_while_its_upstream_is_finished_is_never_stuck(lab: Lab) -> None:
    ada = await lab.agent("ada")
    for turn in range(20):
        first = await make(lab, ada, f"first {turn}")
        await lab.app.claims.claim(ada, first)
        _, after = await asyncio.gather(
            lab.app.claims.done(ada, first, None), make(lab, ada, f"after {turn}", first), return_exceptions=False
        )
        assert await state_of(lab, ada, after) is TaskState.READY


async def test_dependencies_are_replaced_and_counted_anew(lab: Lab) -> None:
    ada = await lab.agent("ada")
    one, two, done = await make(lab, ada, "one"), await make(lab, ada, "two"), await make(lab, ada, "done")
    await finish(lab, ada, done)
    task = await make(lab, ada, "task", one, two)
    answer = await lab.app.tasks.update(ada, task, TaskChanges(depends_on=[f"T-{two}", f"T-{done}"]))
    assert (answer.state, answer.unmet, answer.depends_on) == (TaskState.PENDING, 1, [f"T-{two}", f"T-{done}"])
    answer = await lab.app.tasks.update(ada, task, TaskChanges(depends_on=[]))
    assert (answer.state, answer.unmet) == (TaskState.READY, 0)
    answer = await lab.app.tasks.update(ada, task, TaskChanges(depends_on=[f"T-{one}"]))
    assert (answer.state, answer.unmet) == (TaskState.PENDING, 1)


async def test_a_claimed_task_gets_no_further_dependency(lab: Lab) -> None:
    ada = await lab.agent("ada")
    one, two = await make(lab, ada, "one"), await make(lab, ada, "two")
    await lab.app.claims.claim(ada, one)
    with pytest.raises(NotReady, match="claimed or waits"):
        await lab.app.tasks.update(ada, one, TaskChanges(depends_on=[f"T-{two}"]))


async def test_an_epic_is_done_when_its_tasks_are_and_frees_what_waits_for_it(lab: Lab) -> None:
    ada = await lab.agent("ada")
    outer = await make(lab, ada, "outer", kind="epic")
    inner = await make(lab, ada, "inner", kind="epic", parent_id=f"T-{outer}")
    one = await make(lab, ada, "one", parent_id=f"T-{inner}")
    two = await make(lab, ada, "two", parent_id=f"T-{inner}")
    after = await make(lab, ada, "after", outer)
    await finish(lab, ada, one)
    assert await state_of(lab, ada, inner) is TaskState.PENDING
    await finish(lab, ada, two)
    assert await state_of(lab, ada, inner) is TaskState.DONE
    assert await state_of(lab, ada, outer) is TaskState.DONE
    assert await state_of(lab, ada, after) is TaskState.READY
    with pytest.raises(NotReady, match="is done"):
        await make(lab, ada, "late", parent_id=f"T-{inner}")


async def test_an_epic_without_tasks_stays_open(lab: Lab) -> None:
    ada = await lab.agent("ada")
    epic = await make(lab, ada, "epic", kind="epic")
    assert await state_of(lab, ada, epic) is TaskState.PENDING
    with pytest.raises(NotReady, match="is an epic"):
        await lab.app.claims.claim(ada, epic)


async def test_a_task_moves_from_one_epic_to_another(lab: Lab) -> None:
    ada = await lab.agent("ada")
    one, two = await make(lab, ada, "one", kind="epic"), await make(lab, ada, "two", kind="epic")
    task = await make(lab, ada, "task", parent_id=f"T-{one}")
    keep = await make(lab, ada, "keep", parent_id=f"T-{one}")
    await lab.app.tasks.update(ada, task, TaskChanges(parent_id=f"T-{two}"))
    await finish(lab, ada, keep)
    assert await state_of(lab, ada, one) is TaskState.DONE
    assert await state_of(lab, ada, two) is TaskState.PENDING


async def test_barriers_pass_on_what_they_wait_for(lab: Lab) -> None:
    ada = await lab.agent("ada")
    first = [await make(lab, ada, f"first {place}") for place in range(3)]
    barrier = await make(lab, ada, "barrier", *first, kind="barrier")
    second = [await make(lab, ada, f"second {place}", barrier) for place in range(3)]
    for task in first:
        await finish(lab, ada, task)
    assert await state_of(lab, ada, barrier) is TaskState.DONE
    assert {await state_of(lab, ada, task) for task in second} == {TaskState.READY}


async def test_a_task_created_behind_one_that_was_given_up_is_blocked_at_once(lab: Lab) -> None:
    ada = await lab.agent("ada")
    lost = await make(lab, ada, "lost")
    await give_up(lab, ada, lost)
    after = await make(lab, ada, "after", lost)
    assert (await lab.app.tasks.read(ada, after)).reason == f"upstream T-{lost} was given up"


async def test_urgency_and_texts_are_changed_and_emptied(lab: Lab) -> None:
    ada = await lab.agent("ada")
    await make(lab, ada, "first")
    task = await make(lab, ada, "task", context="old", done_when="never")
    changes = TaskChanges("new title", "", None, "p0", deadline="2030-01-01", max_attempts=7)
    answer = await lab.app.tasks.update(ada, task, changes)
    assert (answer.title, answer.context, answer.done_when, answer.priority) == ("new title", None, "never", "p0")
    assert (answer.max_attempts, answer.is_overdue) == (7, False)
    assert (await lab.app.tasks.ready(ada)).tasks[0].task == f"T-{task}"


async def test_what_names_nothing_or_something_else_is_refused(lab: Lab) -> None:
    ada = await lab.agent("ada")
    work = await make(lab, ada, "work")
    idea = task_number((await lab.app.tasks.idea(ada, "idea")).task)
    with pytest.raises(NotFound, match="T-999"):
        await make(lab, ada, "task", TaskId(999))
    with pytest.raises(MalformedInput, match="is no epic"):
        await make(lab, ada, "task", parent_id=f"T-{work}")
    with pytest.raises(NotReady, match="only ideas"):
        await make(lab, ada, "task", idea)
    await lab.app.projects.create(ada, "elsewhere")
    with pytest.raises(MalformedInput, match="another project"):
        await lab.app.tasks.create(ada, TaskWish("task", depends_on=[f"T-{work}"]), project="elsewhere")
    with pytest.raises(Impossible):
        await make(lab, ada, "task", needs=NeedsWish(memory_gib=9_000))


async def test_ideas_stay_out_of_the_graph_until_they_are_promoted(lab: Lab) -> None:
    ada = await lab.agent("ada")
    idea, other = [task_number((await lab.app.tasks.idea(ada, title)).task) for title in ("one", "two")]
    assert (await lab.app.tasks.ready(ada)).ideas == 2
    await lab.app.tasks.drop(ada, other)
    many = await lab.app.tasks.promote(ada, [idea, other])
    assert many.done == [f"T-{idea}"]
    assert list(many.refused) == [f"T-{other}"]
    assert [line.task for line in (await lab.app.tasks.ready(ada)).tasks] == [f"T-{idea}"]


async def test_waiting_for_tasks_ends_when_the_last_is_over(lab: Lab) -> None:
    ada = await lab.agent("ada")
    one, two = await make(lab, ada, "one"), await make(lab, ada, "two")
    waiting = asyncio.create_task(lab.app.tasks.wait(ada, [one, two], 30))
    await finish(lab, ada, one)
    await give_up(lab, ada, two)
    async with asyncio.timeout(10):
        answer = await waiting
    assert not answer.timed_out
    assert [line.state for line in answer.tasks] == [TaskState.DONE, TaskState.DEAD_LETTER]
    three = await make(lab, ada, "three")
    assert (await lab.app.tasks.wait(ada, [three], 0)).timed_out


async def test_waiting_for_work_ends_when_there_is_some(lab: Lab) -> None:
    ada = await lab.agent("ada")
    waiting = asyncio.create_task(lab.app.tasks.wait_ready(ada, 30))
    task = await make(lab, ada, "work")
    async with asyncio.timeout(10):
        assert [line.task for line in (await waiting).tasks] == [f"T-{task}"]


async def test_the_counters_hold_against_edges_that_nobody_announced(lab: Lab, sql: Sql) -> None:
    ada = await lab.agent("ada")
    one, two = await make(lab, ada, "one"), await make(lab, ada, "two")
    await add_edge(sql, two, one)
    assert await state_of(lab, ada, two) is TaskState.PENDING
    await sql.execute("delete from dependency")
    assert await state_of(lab, ada, two) is TaskState.READY
