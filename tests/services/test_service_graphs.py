from typing import Any

import pytest

from support.databases import Clock
from support.lab import Lab
from support.rows import Sql
from warploom.domain.errors import MalformedInput, NotFound
from warploom.domain.failures import FailureClass
from warploom.domain.graphs import Explanation, Graph, GraphEdge
from warploom.domain.identifiers import TaskId, parse_task
from warploom.domain.sessions import Actor
from warploom.domain.tasks import NeedsWish, TaskState, TaskWish


async def create(lab: Lab, title: str, *upstreams: str, **wish: Any) -> str:
    answer = await lab.app.tasks.create(await lab.agent("planner"), TaskWish(title, depends_on=list(upstreams), **wish))
    return answer.task


async def claim(lab: Lab, task: str, actor: Actor | None = None) -> str:
    answer = await lab.app.claims.claim(actor or await lab.agent("claude-2"), parse_task(task))
    assert answer.claims, answer
    return answer.claims[0].lease


async def explain(lab: Lab, task: str) -> Explanation:
    return await lab.app.graphs.explain(await lab.agent("asker"), parse_task(task))


async def graph(lab: Lab, around: str | None = None, **options: Any) -> Graph:
    near = None if around is None else parse_task(around)
    return await lab.app.graphs.graph(await lab.agent("asker"), near, **options)


async def chain(lab: Lab, length: int) -> list[str]:
    """Create tasks that each wait for the one before."""
    tasks: list[str] = []
    for place in range(length):
        tasks.append(await create(lab, f"step {place}", *tasks[-1:]))
    return tasks


def names(found: Graph) -> list[str]:
    return [node.task for node in found.nodes]


async def test_the_graph_of_a_project_has_its_tasks_and_edges_and_nothing_of_others(lab: Lab) -> None:
    epic = await create(lab, "epic", kind="epic")
    first = await create(lab, "first", parent_id=epic)
    second = await create(lab, "second", first, parent_id=epic)
    await lab.app.tasks.idea(await lab.agent("planner"), "an idea")
    await lab.app.tasks.create(await lab.agent("codex-1", project="elsewhere"), TaskWish("far away"))
    found = await graph(lab)
    assert (found.project, found.total, found.shown, found.is_cut) == ("default", 3, 3, False)
    assert found.counts == {"pending": 2, "ready": 1}
    assert [(node.task, node.state, node.unmet, node.parent) for node in found.nodes] == [
        (epic, TaskState.PENDING, 2, None),
        (first, TaskState.READY, 0, epic),
        (second, TaskState.PENDING, 1, epic),
    ]
    assert found.edges == [GraphEdge(epic, first), GraphEdge(epic, second), GraphEdge(second, first)]


async def test_a_graph_that_is_cut_shows_open_tasks_first(lab: Lab, sql: Sql) -> None:
    tasks = [await create(lab, f"task {place}") for place in range(6)]
    await sql.execute("update task set state = 'done', finished_at = clock_now() where id <= 4")
    await claim(lab, tasks[5])
    found = await graph(lab, limit=3)
    assert (found.total, found.shown, found.is_cut) == (6, 3, True)
    assert names(found) == [tasks[3], tasks[4], tasks[5]]
    assert found.counts == {"claimed": 1, "done": 4, "ready": 1}


async def test_the_graph_near_a_task_goes_up_and_down_to_a_depth(lab: Lab) -> None:
    tasks = await chain(lab, 7)
    other = await create(lab, "another branch", tasks[0])
    found = await graph(lab, tasks[3], depth=2)
    assert names(found) == tasks[1:6]
    assert found.around == tasks[3]
    assert found.edges == [GraphEdge(tasks[place + 1], tasks[place]) for place in range(1, 5)]
    assert names(await graph(lab, tasks[3], depth=0)) == [tasks[3]]
    assert other not in names(await graph(lab, tasks[3], depth=3))


async def test_a_crowded_neighbourhood_is_cut_with_the_nearest_shown(lab: Lab) -> None:
    hub = await create(lab, "hub")
    spokes = [await create(lab, f"spoke {place}", hub) for place in range(8)]
    far = await create(lab, "far", *spokes)
    found = await graph(lab, hub, limit=5)
    assert (found.shown, found.is_cut, found.total) == (5, True, 6)
    assert names(found) == [hub, *spokes[:4]]
    assert far not in names(found)


@pytest.mark.parametrize("options", [{"limit": 0}, {"limit": 2001}, {"depth": -1}, {"depth": 11}])
async def test_a_graph_of_no_sensible_size_is_refused(lab: Lab, options: dict[str, int]) -> None:
    with pytest.raises(MalformedInput):
        await graph(lab, "T-1", **options)


async def test_nothing_is_near_a_task_that_is_not_there(lab: Lab) -> None:
    with pytest.raises(NotFound, match="T-9"):
        await graph(lab, "T-9")
    with pytest.raises(NotFound, match="T-9"):
        await explain(lab, "T-9")


async def test_a_pending_task_says_who_holds_what_it_waits_for_and_how_far_along_that_is(lab: Lab) -> None:
    train = await create(lab, "train", minutes=90)
    evaluate = await create(lab, "evaluate", train)
    lease = await claim(lab, train)
    await lab.app.claims.heartbeat(await lab.agent("claude-2"), parse_task(train), None, "epoch 6 of 10", 60)
    found = await explain(lab, evaluate)
    assert found.reason == f"waits for {train} (claimed by claude-2, 60 %)"
    (blocker,) = found.blockers
    assert (blocker.task, blocker.behind, blocker.depth) == (train, evaluate, 1)
    assert (blocker.agent, blocker.lease, blocker.percent) == ("claude-2", lease, 60)
    assert blocker.text == f"{train} 'train' is claimed by claude-2, 60 % with {lease}"


async def test_a_pending_task_names_the_head_of_its_chain(lab: Lab) -> None:
    tasks = await chain(lab, 4)
    await claim(lab, tasks[0])
    found = await explain(lab, tasks[3])
    assert found.reason == f"waits for {tasks[2]}; first there is {tasks[0]} (claimed by claude-2)"
    assert [(blocker.task, blocker.behind, blocker.depth) for blocker in found.blockers] == [
        (tasks[2], tasks[3], 1),
        (tasks[1], tasks[2], 2),
        (tasks[0], tasks[1], 3),
    ]
    assert found.blockers[0].text == f"{tasks[2]} 'step 2' is waiting for {tasks[1]}"


async def test_the_head_of_a_very_long_chain_is_found(lab: Lab) -> None:
    plan = [{"key": f"{n}", "title": f"link {n}", "depends_on": [f"{n - 1}"] if n else []} for n in range(1_200)]
    await lab.app.graphs.import_plan(await lab.agent("planner"), {"tasks": plan})
    found = await explain(lab, "T-1200")
    assert found.reason == "waits for T-1199; first there is T-1 (ready, not claimed yet)"


async def test_an_epic_names_its_open_tasks(lab: Lab) -> None:
    epic = await create(lab, "epic", kind="epic")
    assert (await explain(lab, epic)).reason == "has no task yet"
    task = await create(lab, "task", parent_id=epic)
    assert (await explain(lab, epic)).reason == f"has open tasks: {task} (ready, not claimed yet)"


async def test_a_ready_task_says_that_nobody_has_claimed_it(lab: Lab) -> None:
    found = await explain(lab, await create(lab, "work"))
    assert (found.reason, found.blockers) == ("ready: nobody has claimed it yet", [])
    assert 'loom_claim("T-1")' in found.next


async def test_a_ready_task_says_who_holds_the_resource_it_needs(lab: Lab) -> None:
    needs = NeedsWish(resources=["staging"])
    first, second = await create(lab, "first", needs=needs), await create(lab, "second", needs=needs)
    lease = await claim(lab, first)
    found = await explain(lab, second)
    assert found.reason.startswith(f"needs staging, which {first} (claude-2, {lease}) holds; its lease lasts until ")


async def test_a_ready_task_says_that_no_host_can_do_what_it_needs(lab: Lab, sql: Sql) -> None:
    await lab.host("rack-a")
    task = await create(lab, "build", needs=NeedsWish(capabilities=["docker"]))
    assert (await explain(lab, task)).reason == "needs a host with docker, and no host has that"
    await sql.execute("update host set capabilities = '{docker,git}'")
    assert (await explain(lab, task)).reason == "needs a host with docker: rack-a"


async def test_a_ticket_says_what_its_queue_says(lab: Lab) -> None:
    await lab.host(cards=1)
    await lab.hold(await lab.agent("codex-1"), "0")
    task = await create(lab, "train", needs=NeedsWish(device="0"))
    assert "whoever claims it waits for a card" in (await explain(lab, task)).reason
    await lab.app.claims.claim(await lab.agent("claude-2"), parse_task(task))
    found = await explain(lab, task)
    assert found.ticket is not None
    assert (found.ticket.place, found.reason) == (1, found.ticket.reason)
    assert found.reason.startswith("local/0 is held by L-1 'train' (codex-1)")


async def test_a_claimed_task_says_who_works_on_it(lab: Lab) -> None:
    task = await create(lab, "work")
    lease = await claim(lab, task)
    await lab.app.claims.heartbeat(await lab.agent("claude-2"), parse_task(task), None, "halfway", 50)
    found = await explain(lab, task)
    assert found.reason.startswith(f"claude-2 works on it with {lease}, 50 %")
    assert found.chain[1] == "claude-2 says: halfway"


async def test_a_failed_task_says_when_it_is_tried_again(lab: Lab) -> None:
    task, actor = await create(lab, "work"), await lab.agent("claude-2")
    await claim(lab, task, actor)
    await lab.app.claims.fail(actor, parse_task(task), None, "disk full", FailureClass.INFRA)
    after = await create(lab, "after", task)
    assert (await explain(lab, task)).reason.startswith("failed after attempt 1 of 3: disk full; tried again at ")
    assert f"waits for {task} (failed, tried again in " in (await explain(lab, after)).reason


async def test_a_blocked_task_names_its_culprit_and_what_can_be_done(lab: Lab) -> None:
    task, actor = await create(lab, "work"), await lab.agent("claude-2")
    between = await create(lab, "between", task)
    after = await create(lab, "after", between)
    await claim(lab, task, actor)
    await lab.app.claims.fail(actor, parse_task(task), None, "cannot be done", FailureClass.USER_ERROR)
    found = await explain(lab, after)
    assert found.reason == f"waits for {task} 'work', which is given up: cannot be done"
    assert f"warploom dead-letter --retry {task}" in found.next
    assert "--skip" in found.next
    assert "--cancel" in found.next
    assert [blocker.task for blocker in found.blockers] == [between, task]
    assert (await explain(lab, task)).reason == "given up after attempt 1 of 3: cannot be done"


async def test_an_escalated_task_says_what_is_asked(lab: Lab) -> None:
    task, actor = await create(lab, "work"), await lab.agent("claude-2")
    after = await create(lab, "after", task)
    await claim(lab, task, actor)
    await lab.app.claims.escalate(actor, parse_task(task), None, "which branch?")
    assert (await explain(lab, task)).reason == "claude-2 asked for help and waits for an answer to 'which branch?'"
    assert (await explain(lab, after)).reason == f"waits for {task} (waiting for an answer)"


async def test_a_parked_ticket_says_how_it_goes_on(lab: Lab, clock: Clock) -> None:
    await lab.host(cards=1, interval=3600)
    ticket = await lab.request(await lab.agent("codex-1"))
    assert ticket.lease is not None
    waiting = await lab.request(await lab.agent("claude-2"), "eval")
    task = parse_task(waiting.ticket)
    async with lab.app.database.transaction() as conn:
        await conn.execute(
            "update task set state = 'blocked', parked_at = clock_now(), outcome = 'missed' where id = $1", task
        )
        await conn.execute("delete from queue where task_id = $1", task)
    found = await explain(lab, waiting.ticket)
    assert found.reason == "missed"
    assert f"warploom wait {waiting.ticket}" in found.next


async def test_what_is_over_or_only_an_idea_says_so(lab: Lab) -> None:
    actor = await lab.agent("claude-2")
    done, idea = await create(lab, "work"), (await lab.app.tasks.idea(actor, "some day")).task
    await claim(lab, done, actor)
    await lab.app.claims.done(actor, parse_task(done), None)
    assert (await explain(lab, done)).reason.endswith("UTC by claude-2")
    assert (await explain(lab, idea)).reason == "is an idea: nobody works on it before it is promoted"
    await lab.app.tasks.drop(actor, parse_task(idea))
    assert (await explain(lab, idea)).reason.startswith("cancelled at ")


async def why(lab: Lab) -> str | None:
    answer = await lab.app.tasks.ready(await lab.agent("asker"))
    assert answer.tasks == []
    return answer.reason


async def test_nothing_is_ready_in_an_empty_project_for_no_reason(lab: Lab) -> None:
    assert await why(lab) is None


async def test_nothing_is_ready_because_of_what_is_in_the_way(lab: Lab) -> None:
    await lab.host(cards=1)
    await lab.hold(await lab.agent("codex-1"), "0")
    train = await create(lab, "train")
    for place in range(3):
        await create(lab, f"evaluate {place}", train)
    await claim(lab, train)
    await lab.app.claims.heartbeat(await lab.agent("claude-2"), parse_task(train), None, None, 60)
    needing = await create(lab, "needing", needs=NeedsWish(device="0"))
    await lab.app.claims.claim(await lab.agent("claude-3"), parse_task(needing))
    assert await why(lab) == f"3 tasks wait for {train} (claimed by claude-2, 60 %), 1 waits for card local/0"


async def test_nothing_is_ready_because_something_was_given_up_or_is_asked(lab: Lab, clock: Clock) -> None:
    actor = await lab.agent("claude-2")
    lost, asked, failed = [await create(lab, title) for title in ("lost", "asked", "failed")]
    await create(lab, "after lost", lost)
    await claim(lab, lost, actor)
    await lab.app.claims.fail(actor, parse_task(lost), None, "wrong", FailureClass.USER_ERROR)
    await claim(lab, asked, actor)
    await lab.app.claims.escalate(actor, parse_task(asked), None, "how?")
    await claim(lab, failed, actor)
    await lab.app.claims.fail(actor, parse_task(failed), None, "network", FailureClass.INFRA)
    said = await why(lab)
    assert said is not None
    parts = said.split(", ")
    assert parts[0] == "1 task waits for an answer"
    assert parts[1] == f"1 is blocked by {lost} (given up)"
    assert parts[2].startswith("1 failed and is tried again in ")


async def test_nothing_is_ready_while_all_is_being_worked_on(lab: Lab) -> None:
    task = await create(lab, "work")
    await claim(lab, task)
    assert await why(lab) == f"{task} (claimed by claude-2) is being worked on, and nothing waits behind that"


async def test_an_explanation_of_many_obstacles_is_bounded(lab: Lab) -> None:
    upstreams = [await create(lab, f"task {place}") for place in range(40)]
    last = await create(lab, "last", *upstreams)
    found = await explain(lab, last)
    assert len(found.blockers) == 25
    assert found.reason == (
        "waits for T-1 (ready, not claimed yet), T-2 (ready, not claimed yet), T-3 (ready, not claimed yet) and 37 more"
    )
    assert TaskId(41) == parse_task(last)
