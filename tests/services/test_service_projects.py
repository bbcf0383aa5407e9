import asyncio

import pytest

from support.lab import Lab
from support.locks import somebody_waits
from support.rows import Sql, add_edge, add_ticket, add_work, claim, whole_database
from warploom.app import App
from warploom.domain.errors import MalformedInput, NotAllowed, NotFound, NotReady, Taken
from warploom.domain.identifiers import TaskId
from warploom.domain.sessions import Actor
from warploom.domain.tasks import TaskWish
from warploom.services.projects import hold_project, project_of


async def events_of(sql: Sql, kind: str) -> list[str]:
    return [row["facts"] for row in await sql.fetch("select facts::text from event where kind = $1 order by id", kind)]


async def where(lab: Lab, actor: Actor) -> str:
    return (await lab.app.tickets.me(actor, [])).project


async def test_a_new_project_is_listed_beside_the_others_and_nobody_moves(lab: Lab, sql: Sql) -> None:
    agent = await lab.agent()

    made = await lab.app.projects.create(agent, "vision", "Everything about images.")

    assert (made.project.project, made.project.description, made.project.is_current) == (
        "vision",
        "Everything about images.",
        False,
    )
    answer = await lab.app.projects.list(agent)
    assert [(view.project, view.is_current) for view in answer.projects] == [("default", True), ("vision", False)]
    assert len(await events_of(sql, "project.created")) == 1


async def test_a_name_is_given_once(lab: Lab, sql: Sql) -> None:
    agent = await lab.agent()
    results = await asyncio.gather(
        *(lab.app.projects.create(agent, "vision") for _ in range(8)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, Taken)]
    assert len(refused) == 7
    assert "loom_switch_project('vision')" in refused[0].next_step
    assert len(await events_of(sql, "project.created")) == 1


@pytest.mark.parametrize("name", ["", " \n ", "x" * 81, "x" * 100_000])
async def test_a_name_that_is_none_is_refused_and_leaves_nothing(lab: Lab, sql: Sql, name: str) -> None:
    agent = await lab.agent()
    before = await whole_database(sql)
    with pytest.raises(MalformedInput):
        await lab.app.projects.create(agent, name)
    assert await whole_database(sql) == before


async def test_switching_moves_this_session_alone(lab: Lab) -> None:
    one, other = await lab.agent("claude-1"), await lab.agent("claude-2")
    await lab.app.projects.create(one, "vision")

    answer = await lab.app.projects.switch(one, "vision")

    assert answer.project.is_current
    assert (await lab.agent("claude-1")).project != one.project
    assert await where(lab, await lab.agent("claude-1")) == "vision"
    assert await where(lab, await lab.agent("claude-2")) == await where(lab, other) == "default"


async def test_an_unknown_name_is_answered_with_the_nearest_there_are(lab: Lab) -> None:
    agent = await lab.agent()
    await lab.app.projects.create(agent, "vision")
    with pytest.raises(NotFound) as refusal:
        await lab.app.projects.switch(agent, "visoin")
    assert str(refusal.value) == (
        "There is no project 'visoin'. Choose one of: vision, …; loom_create_project makes a new one."
    )


async def test_progress_counts_what_is_open_done_late_and_asked(lab: Lab, sql: Sql) -> None:
    agent = await lab.agent()
    await add_work(sql, "a")
    upstream, waiting = await add_work(sql, "b"), await add_work(sql, "c")
    await add_edge(sql, waiting, upstream)
    await claim(sql, upstream, [])
    now = await sql.fetchval("select clock_now()")
    facts = {"kind": "work", "need_count": 0, "finished_at": now}
    for title in ("d", "e"):
        await add_ticket(sql, state="done", title=title, **facts)
    await add_ticket(sql, state="cancelled", title="f", **facts)
    await add_ticket(sql, state="dead_letter", title="g", **facts)
    await add_ticket(sql, state="failed", title="h", retry_at=now, **facts)
    await add_ticket(sql, state="failed", title="a request for a card", finished_at=now)
    await add_ticket(sql, state="idea", kind="idea", title="i", need_count=0)
    await sql.execute("update task set deadline_at = created_at where title in ('a', 'd')")
    await sql.execute("insert into escalation (task_id, agent, message) values ($1, 'ada', 'how?')", upstream)

    (view,) = (await lab.app.projects.list(agent)).projects

    assert view.counts == {
        "idea": 1,
        "pending": 1,
        "ready": 1,
        "claimed": 1,
        "done": 2,
        "failed": 1,
        "cancelled": 1,
        "dead_letter": 1,
    }
    assert (view.open, view.done, view.percent) == (4, 2, 28)
    assert (view.overdue, view.escalations) == (1, 1)


async def test_a_project_with_claimed_tasks_is_not_archived_and_they_are_named(lab: Lab, sql: Sql) -> None:
    await lab.agent()
    task = await add_work(sql)
    await claim(sql, task, [])
    before = await whole_database(sql)
    with pytest.raises(NotReady, match=f"T-{task} is claimed"):
        await lab.app.projects.archive(await lab.operator(), "default")
    after = await whole_database(sql)
    assert after["project"] == before["project"]


async def test_a_project_whose_tickets_stand_in_queues_is_not_archived(lab: Lab) -> None:
    await lab.host()
    await lab.hold(await lab.agent("claude-1", project="vision"))
    waiting = await lab.request(await lab.agent("claude-2"))
    with pytest.raises(NotReady, match=f"'default' {waiting.ticket} is claimed or in a card's queue"):
        await lab.app.projects.archive(await lab.operator(), "default")


async def test_nothing_is_created_claimed_or_asked_for_in_an_archived_project(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    task = TaskId(await add_work(sql))
    await lab.app.projects.archive(await lab.operator(), "default")
    for refused in (
        lab.app.tasks.create(agent, TaskWish("b")),
        lab.app.tasks.idea(agent, "c"),
        lab.app.claims.claim(agent),
        lab.app.claims.claim(agent, task),
        lab.app.claims.claim(await lab.agent("stranger", project="vision"), task),
        lab.request(agent),
    ):
        with pytest.raises(NotReady, match="'default' is archived"):
            await refused
    assert await sql.fetchval("select count(*) from task where state <> 'ready'") == 0


async def test_an_archived_project_is_hidden_and_closed_until_it_is_brought_back(lab: Lab, sql: Sql) -> None:
    operator = await lab.operator()
    await lab.app.projects.create(operator, "vision")

    archived = await lab.app.projects.archive(operator, "vision")
    again = await lab.app.projects.archive(operator, "vision")

    assert archived.project.archived_at == again.project.archived_at is not None
    assert [view.project for view in (await lab.app.projects.list(operator)).projects] == ["default"]
    everything = await lab.app.projects.list(operator, archived=True)
    assert [view.project for view in everything.projects] == ["default", "vision"]
    assert (await lab.app.projects.read(operator, "vision")).archived_at is not None
    with pytest.raises(NotReady, match="'vision' is archived"):
        await lab.app.projects.switch(operator, "vision")
    with pytest.raises(NotReady, match="'vision' is archived"):
        await write_to(lab.app, operator, "vision")

    back = await lab.app.projects.archive(operator, "vision", back=True)

    assert back.project.archived_at is None
    await write_to(lab.app, operator, "vision")
    assert len(await events_of(sql, "project.archived")) == len(await events_of(sql, "project.restored")) == 1


async def test_a_session_in_an_archived_project_may_look_but_not_write(lab: Lab) -> None:
    agent = await lab.agent()
    await lab.app.projects.archive(await lab.operator(), "default")
    async with lab.app.database.connection() as conn:
        assert await project_of(conn, agent, None) == agent.project
    with pytest.raises(NotReady, match="'default' is archived"):
        await write_to(lab.app, agent, None)
    assert "archived: switch" in (await lab.app.projects.list(agent)).next


async def test_archiving_is_an_operators(lab: Lab) -> None:
    agent = await lab.agent()
    with pytest.raises(NotAllowed):
        await lab.app.projects.archive(agent, "default")


async def test_archiving_waits_for_a_task_that_is_being_written_and_the_next_one_is_refused(lab: Lab, sql: Sql) -> None:
    operator = await lab.operator()
    async with lab.app.database.transaction() as conn:
        await hold_project(conn, operator, "default")
        archiving = asyncio.create_task(lab.app.projects.archive(operator, "default"))
        await somebody_waits(sql)
    assert (await archiving).project.archived_at is not None
    with pytest.raises(NotReady):
        await write_to(lab.app, operator, None)


async def test_a_task_that_comes_while_a_project_is_being_archived_waits_and_is_refused(lab: Lab, sql: Sql) -> None:
    operator = await lab.operator()
    async with sql.transaction():
        await sql.execute("select from project for update")
        writing = asyncio.create_task(write_to(lab.app, operator, None))
        await somebody_waits(sql)
        await sql.execute("update project set archived_at = clock_now()")
    with pytest.raises(NotReady, match="'default' is archived"):
        await writing


async def write_to(app: App, actor: Actor, name: str | None) -> None:
    """Begin to write to a project as everything that creates does."""
    async with app.database.transaction() as conn:
        await hold_project(conn, actor, name)
