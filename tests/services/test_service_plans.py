import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from support.lab import Lab
from support.locks import somebody_waits
from support.rows import Sql, whole_database
from warploom.domain.errors import NotReady, PlanRefused
from warploom.domain.tasks import TaskWish

Import = Callable[..., Coroutine[Any, Any, Any]]

HOUSE = [
    {"key": "house", "title": "Build the house", "kind": "epic"},
    {"key": "dig", "title": "Dig", "parent": "house", "priority": "p0"},
    {"key": "walls", "title": "Raise walls", "parent": "house", "depends_on": ["dig"], "done_when": "they stand"},
    {"key": "roof", "title": "Put the roof on", "parent": "house", "depends_on": ["walls"], "max_attempts": 5},
    {"key": "topped", "title": "Topped out", "kind": "barrier", "depends_on": ["roof"]},
    {
        "key": "party",
        "title": "Celebrate",
        "depends_on": ["topped"],
        "context": "with\nmusic",
        "deadline": "2027-01-31T18:00:00+00:00",
        "minutes": 90,
        "needs": {"resources": ["stage"], "capabilities": ["music"]},
    },
]


@pytest.fixture
async def bring(lab: Lab) -> Import:
    """Import tasks as an agent's plan."""
    actor = await lab.agent()

    async def bring(*tasks: dict[str, Any], **options: Any) -> Any:
        return await lab.app.graphs.import_plan(actor, {"tasks": list(tasks)}, **options)

    return bring


async def states(sql: Sql) -> dict[str, str]:
    return {
        row["key"]: row["state"] for row in await sql.fetch("select key, state::text from task where key is not null")
    }


async def test_a_plan_is_written_whole_with_its_edges_and_one_event(bring: Import, sql: Sql) -> None:
    answer = await bring(*HOUSE)
    assert (answer.created, answer.deduplicated, answer.edges) == (6, 0, 7)
    assert answer.keys == {"house": "T-1", "dig": "T-2", "walls": "T-3", "roof": "T-4", "topped": "T-5", "party": "T-6"}
    assert await states(sql) == {
        "house": "pending",
        "dig": "ready",
        "walls": "pending",
        "roof": "pending",
        "topped": "pending",
        "party": "pending",
    }
    assert await sql.fetchval("select facts from event where kind = 'graph.imported'") == (
        '{"agent": "claude-1", "count": "6"}'
    )
    row = await sql.fetchrow("select * from task where key = 'party'")
    assert (row["context"], row["need_resources"], row["need_capabilities"]) == ("with\nmusic", ["stage"], ["music"])
    assert (row["run_time"].total_seconds(), row["unmet"]) == (5400, 1)
    dig = await sql.fetchrow(
        "select ready_at - order_key as ahead, parent_id, max_attempts from task where key = 'dig'"
    )
    assert (dig["ahead"].total_seconds(), dig["parent_id"], dig["max_attempts"]) == (3600, 1, 3)


async def test_the_graph_of_a_plan_is_worked_to_its_end(bring: Import, lab: Lab, sql: Sql) -> None:
    await bring(*HOUSE[:5])
    for _ in range(3):
        await sql.execute("update task set state = 'done', finished_at = clock_now() where state = 'ready'")
    assert set((await states(sql)).values()) == {"done"}


async def test_importing_again_doubles_nothing_and_adds_only_what_is_new(bring: Import, sql: Sql) -> None:
    await bring(*HOUSE[:4])
    again = await bring(*HOUSE)
    assert (again.created, again.deduplicated, again.edges) == (2, 4, 2)
    third = await bring(*HOUSE)
    assert (third.created, third.deduplicated, third.edges) == (0, 6, 0)
    assert third.keys["party"] == "T-6"
    assert await sql.fetchval("select count(*) from event where kind = 'graph.imported'") == 2


async def test_a_plan_may_be_checked_without_a_trace(bring: Import, sql: Sql) -> None:
    before = await whole_database(sql)
    answer = await bring(*HOUSE, check_only=True)
    assert (answer.created, answer.edges, answer.checked_only, answer.keys) == (6, 7, True, {})
    assert await whole_database(sql) == before


async def test_every_fault_of_a_plan_is_named_at_once_and_nothing_is_written(bring: Import, lab: Lab, sql: Sql) -> None:
    await lab.host(cards=1, memory_gib=80)
    other = await lab.agent("codex-1", project="elsewhere")
    strange = (await lab.app.tasks.create(other, TaskWish("far away"))).task
    before = await whole_database(sql)
    with pytest.raises(PlanRefused) as refused:
        await bring(
            {"key": "a", "title": "A", "depends_on": ["b", "T-99", strange]},
            {"key": "b", "title": "B", "depends_on": ["a"], "needs": {"memory_gib": 200}},
            {"key": "c", "title": "", "needs": {"device": "local/7"}},
        )
    said = str(refused.value)
    assert "7 faults" not in said
    assert "cycle: a -> b -> a" in said
    assert "'a' depends on 'T-99', which is no key of the plan or the project, and no task" in said
    assert f"'a' depends on '{strange}', a task of another project" in said
    assert "tasks[1] 'b': No card has 200 GiB; the largest, local/0, has 80 GiB" in said
    assert "tasks[2] 'c': The title is empty" in said
    assert "tasks[2] 'c': There is no card 'local/7'" in said
    assert await whole_database(sql) == before


async def test_a_plan_may_name_tasks_that_are_there_by_number_and_by_key(bring: Import, sql: Sql) -> None:
    await bring({"key": "old", "title": "Old"}, {"key": "epic", "title": "Epic", "kind": "epic"})
    await bring(
        {"key": "x", "title": "X", "depends_on": ["T-1"], "parent": "T-2"},
        {"key": "y", "title": "Y", "depends_on": ["old"]},
    )
    edges = await sql.fetch("select task_id, upstream_id from dependency order by 1, 2")
    assert [tuple(row) for row in edges] == [(2, 3), (3, 1), (4, 1)]
    assert await sql.fetchval("select unmet from task where id = 2") == 1


async def test_a_cycle_through_tasks_that_are_there_is_refused_with_its_path(bring: Import, sql: Sql) -> None:
    await bring(
        {"key": "epic", "title": "Epic", "kind": "epic"}, {"key": "after", "title": "After", "depends_on": ["epic"]}
    )
    before = await whole_database(sql)
    with pytest.raises(PlanRefused, match="cycle: T-2 -> T-1 -> 'new' -> T-2"):
        await bring({"key": "new", "title": "New", "parent": "T-1", "depends_on": ["T-2"]})
    assert await whole_database(sql) == before


async def test_a_closed_epic_takes_no_more_tasks(bring: Import, sql: Sql) -> None:
    await bring({"key": "epic", "title": "Epic", "kind": "epic"}, {"key": "only", "title": "Only", "parent": "epic"})
    await sql.execute("update task set state = 'done', finished_at = clock_now() where key = 'only'")
    with pytest.raises(PlanRefused, match="the epic 'epic' is done: 'more' cannot belong to it any more"):
        await bring(
            {"key": "epic", "title": "Epic", "kind": "epic"}, {"key": "more", "title": "More", "parent": "epic"}
        )


async def test_what_waits_for_nothing_but_what_is_done_is_ready_or_closed_at_once(bring: Import, sql: Sql) -> None:
    await bring({"key": "first", "title": "First"})
    await sql.execute("update task set state = 'done', finished_at = clock_now()")
    await bring(
        {"key": "gate", "title": "Gate", "kind": "barrier"},
        {"key": "second gate", "title": "Second gate", "kind": "barrier", "depends_on": ["gate", "first"]},
        {"key": "open gate", "title": "Open gate", "kind": "barrier", "depends_on": ["gate", "work"]},
        {"key": "work", "title": "Work", "depends_on": ["second gate"]},
        {"key": "empty", "title": "Empty", "kind": "epic"},
    )
    assert await states(sql) == {
        "first": "done",
        "gate": "done",
        "second gate": "done",
        "open gate": "pending",
        "work": "ready",
        "empty": "pending",
    }


async def test_what_depends_on_something_given_up_is_blocked_by_it(bring: Import, sql: Sql) -> None:
    await bring({"key": "lost", "title": "Lost"})
    await sql.execute("update task set state = 'dead_letter', finished_at = clock_now()")
    await bring({"key": "a", "title": "A", "depends_on": ["lost"]}, {"key": "b", "title": "B", "depends_on": ["a"]})
    assert await states(sql) == {"lost": "dead_letter", "a": "blocked", "b": "blocked"}


async def test_a_plan_round_trips_through_another_project(lab: Lab, bring: Import) -> None:
    await lab.host(cards=2)
    here, there = await lab.agent(), await lab.agent("codex-1", project="copy")
    await bring(
        *HOUSE,
        {"key": "named", "title": "Named card", "needs": {"device": "local/1,local/0"}},
        {
            "key": "any",
            "title": "Any cards",
            "needs": {"cards": 2, "memory_gib": 22.5, "model": "H200", "env_style": "index"},
        },
    )
    await lab.app.tasks.create(here, TaskWish("without a key", depends_on=["T-3"]))
    await lab.app.tasks.idea(here, "only an idea")
    await lab.request(here)
    first = await lab.app.graphs.export(here)
    assert [task["key"] for task in first["tasks"]][-3:] == ["named", "any", "t9"]
    assert first["tasks"][5] == HOUSE[5]
    assert first["tasks"][-1] == {"key": "t9", "title": "without a key", "depends_on": ["walls"]}
    answer = await lab.app.graphs.import_plan(there, first)
    assert answer.created == 9
    assert await lab.app.graphs.export(there) == first
    assert (await lab.app.graphs.import_plan(here, await lab.app.graphs.export(there))).created == 1


async def test_a_made_up_key_never_meets_a_chosen_one(lab: Lab) -> None:
    actor = await lab.agent()
    await lab.app.tasks.create(actor, TaskWish("first"))
    await lab.app.tasks.create(actor, TaskWish("second", key="t1"))
    exported = await lab.app.graphs.export(actor)
    assert [task["key"] for task in exported["tasks"]] == ["t1-", "t1"]


async def test_two_imports_of_one_plan_at_once_make_one_graph(lab: Lab, bring: Import, sql: Sql) -> None:
    async with sql.transaction():
        await sql.execute("select pg_advisory_xact_lock(hashtextextended('dependency', 1))")
        both = [asyncio.create_task(bring(*HOUSE)) for _ in range(2)]
        await somebody_waits(sql, 2)
    answers = sorted(await asyncio.gather(*both), key=lambda answer: answer.created)
    assert [(answer.created, answer.deduplicated) for answer in answers] == [(0, 6), (6, 0)]


async def test_importing_again_leaves_the_tasks_that_are_there_to_whoever_works_on_them(
    bring: Import, sql: Sql
) -> None:
    await bring(*HOUSE)
    async with sql.transaction():
        await sql.execute("select id from task for update")
        again = await bring(*HOUSE)
    assert again.deduplicated == 6


async def test_an_upstream_that_is_done_during_an_import_is_counted_right(bring: Import, sql: Sql) -> None:
    await bring(HOUSE[0], HOUSE[1])
    async with sql.transaction():
        await sql.execute("update task set state = 'done', finished_at = clock_now() where key = 'dig'")
        late = asyncio.create_task(bring({"key": "next", "title": "Next", "depends_on": ["dig"]}))
        await somebody_waits(sql)
    assert (await late).created == 1
    assert (await states(sql))["next"] == "ready"
    assert await sql.fetchval("select unmet from task where key = 'next'") == 0


async def test_nothing_is_imported_into_an_archived_project(lab: Lab, bring: Import) -> None:
    await lab.app.projects.create(await lab.agent(), "old")
    await lab.app.projects.archive(await lab.operator(), "old")
    with pytest.raises(NotReady, match="archived"):
        await bring(*HOUSE, project="old")


async def test_an_import_opens_a_completed_project_again(bring: Import, sql: Sql) -> None:
    await sql.execute("update project set completed_at = clock_now()")
    await bring(*HOUSE)
    assert await sql.fetchval("select completed_at from project where id = 1") is None


async def test_a_large_plan_is_written_whole_and_answered_in_part(lab: Lab, bring: Import, sql: Sql) -> None:
    chance = random.Random(3)
    answer = await bring(
        *(
            {
                "key": f"k{place}",
                "title": f"task {place}",
                "depends_on": [f"k{chance.randrange(max(0, place - 60), place)}" for _ in range(min(place, 3))],
            }
            for place in range(2_000)
        )
    )
    assert (answer.created, answer.is_cut, len(answer.keys)) == (2_000, True, 200)
    counted = "select count(*) from dependency where task_id = task.id"
    assert await sql.fetchval(f"select count(*) from task where unmet <> ({counted})") == 0
    graph = await lab.app.graphs.graph(await lab.agent(), limit=50)
    assert (graph.total, graph.shown, graph.is_cut) == (2_000, 50, True)


async def test_the_walk_for_cycles_is_planned_anew_for_each_size(schema: Sql) -> None:
    settings = await schema.fetchval("select proconfig from pg_proc where proname = 'walk_upstream'")
    assert settings == ["plan_cache_mode=force_custom_plan"]
