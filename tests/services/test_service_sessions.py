import asyncio

import pytest

from support.databases import Clock
from support.lab import Lab, lease_of
from support.locks import somebody_waits
from support.rows import Sql, whole_database
from warploom.domain.callers import Caller, Role
from warploom.domain.errors import MalformedInput
from warploom.domain.processes import ProcessIdentity
from warploom.domain.sessions import Actor, Liveness
from warploom.services.sessions import base_name

SHELL, CLAUDE, OTHER = ProcessIdentity(400, 7), ProcessIdentity(300, 5), ProcessIdentity(200, 3)


async def identify(lab: Lab, **facts: object) -> Actor:
    return await lab.app.sessions.identify(Caller(**facts))  # type: ignore[arg-type]


async def test_a_process_is_one_session_however_often_it_calls(lab: Lab, sql: Sql) -> None:
    """Casebook C38: an identity is that of its process, and no call makes another."""
    first = await identify(lab, client="claude-code", host="local", process=CLAUDE)
    again = await identify(lab, client="claude-code", host="local", process=CLAUDE)
    assert first == again
    assert first.agent_name == "claude-1"
    assert await sql.fetchval("select count(*) from session") == 1
    assert await sql.fetchval("select count(*) from event where kind = 'session.started'") == 1


@pytest.mark.parametrize("name", ["warploom", "WarpLoom ", "all", "S-3", "s17"])
async def test_no_agent_passes_for_warploom_for_everybody_or_for_a_session(lab: Lab, name: str) -> None:
    with pytest.raises(MalformedInput, match="cannot be called"):
        await identify(lab, agent=name)


async def test_twenty_first_calls_at_once_make_one_session(lab: Lab, sql: Sql) -> None:
    actors = await asyncio.gather(*(identify(lab, client="codex", host="local", process=CLAUDE) for _ in range(20)))
    assert set(actors) == {actors[0]}
    assert await sql.fetchval("select count(*) from session") == 1
    assert await sql.fetchval("select count(*) from event where kind = 'session.started'") == 1


async def test_sessions_that_start_at_once_get_names_of_their_own(lab: Lab) -> None:
    actors = await asyncio.gather(
        *(identify(lab, client="claude-code", host="local", process=ProcessIdentity(pid, 1)) for pid in range(1, 21))
    )
    assert {actor.agent_name for actor in actors} == {f"claude-{number}" for number in range(1, 21)}


async def test_a_reused_pid_is_another_session(lab: Lab) -> None:
    first = await identify(lab, host="local", process=CLAUDE)
    second = await identify(lab, host="local", process=ProcessIdentity(CLAUDE.pid, CLAUDE.started + 1))
    assert first.session != second.session


async def test_the_same_pid_on_another_host_is_another_session(lab: Lab) -> None:
    first = await identify(lab, host="rack-a", process=CLAUDE)
    second = await identify(lab, host="rack-b", process=CLAUDE)
    assert first.session != second.session


async def test_a_command_joins_the_session_of_its_nearest_ancestor(lab: Lab) -> None:
    claude = await identify(lab, agent="claude-1", host="local", process=CLAUDE)
    other = await identify(lab, agent="outer", host="local", process=OTHER)
    command = await identify(lab, host="local", process=SHELL, ancestors=[SHELL, CLAUDE, OTHER])
    assert (command.session, command.agent_name) == (claude.session, "claude-1")
    assert command.session != other.session


async def test_a_command_without_such_an_ancestor_has_the_session_of_its_shell(lab: Lab) -> None:
    one = await identify(lab, host="local", process=SHELL, ancestors=[SHELL, OTHER])
    again = await identify(lab, host="local", process=SHELL, ancestors=[ProcessIdentity(999, 9), SHELL, OTHER])
    assert one == again
    assert one.agent_name == "agent-1"


async def test_a_session_that_names_itself_is_that_one_wherever_it_runs(lab: Lab) -> None:
    await identify(lab, agent="claude-1", host="local", process=CLAUDE)
    one = await identify(lab, session_key="nightly", host="rack-a", process=CLAUDE, ancestors=[CLAUDE])
    two = await identify(lab, session_key="nightly", host="rack-b")
    assert one.session == two.session
    assert one.agent_name != "claude-1"


async def test_a_caller_without_any_identity_is_one_session_for_its_agents_name(lab: Lab) -> None:
    assert (await identify(lab, agent="ada")) == (await identify(lab, agent="ada"))
    assert (await identify(lab)).agent_name == "anonymous"
    assert (await identify(lab)).session != (await identify(lab, agent="ada")).session


async def test_a_name_is_free_again_once_its_session_was_silent_for_half_an_hour_and_owns_nothing(
    lab: Lab, clock: Clock
) -> None:
    await lab.host(interval=3_000)
    owner = await identify(lab, client="claude-code", host="local", process=CLAUDE)
    lease = lease_of(await lab.request(owner))
    clock.advance(minutes=31)
    second = await identify(lab, client="claude-code", host="local", process=OTHER)
    assert second.agent_name == "claude-2"
    await lab.app.leases.release(owner, lease)
    clock.advance(minutes=31)
    third = await identify(lab, client="claude-code", host="local", process=SHELL)
    assert third.agent_name == "claude-1"


@pytest.mark.parametrize(
    ("client", "name"),
    [
        ("claude-code", "claude"),
        ("Codex CLI", "codex-cli"),
        (None, "agent"),
        ("", "agent"),
        ("%_", "agent"),
        ("<b>", "b"),
        ("x" * 500, "x" * 40),
    ],
)
def test_an_agent_is_named_after_its_client(client: str | None, name: str) -> None:
    assert base_name(client) == name


async def test_the_role_is_the_callers_and_never_the_sessions(lab: Lab) -> None:
    operator = await identify(lab, session_key="ada", role=Role.OPERATOR)
    agent = await identify(lab, session_key="ada")
    assert (operator.role, agent.role) == (Role.OPERATOR, Role.AGENT)
    assert operator.session == agent.session


async def test_a_session_belongs_to_the_project_it_started_in(lab: Lab) -> None:
    actor = await identify(lab, session_key="one", project="vision")
    assert (await lab.app.tickets.me(actor, [])).project == "vision"
    same = await identify(lab, session_key="one", project="speech")
    assert (await lab.app.tickets.me(same, [])).project == "vision"


async def test_sessions_that_name_a_new_project_at_once_make_it_once(lab: Lab, sql: Sql) -> None:
    actors = await asyncio.gather(*(identify(lab, session_key=str(number), project="vision") for number in range(8)))
    assert len({actor.project for actor in actors}) == 1
    rows = await sql.fetch("select facts->>'title' as title from event where kind = 'project.created'")
    assert [row["title"] for row in rows] == ["vision"]


async def test_a_new_session_does_not_wait_for_a_request_that_does(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    async with sql.transaction():
        await sql.execute("select id from card for no key update")
        request = asyncio.create_task(lab.request(agent))
        await somebody_waits(sql)
        async with asyncio.timeout(5):
            await lab.agent("claude-2")
        assert not request.done()
    await request


async def test_a_heartbeat_touches_one_narrow_row(lab: Lab, clock: Clock, sql: Sql) -> None:
    await lab.agent()
    before = await whole_database(sql), await sql.fetchval("select seen_at from heartbeat")
    clock.advance(seconds=5)
    await lab.agent()
    assert await whole_database(sql) == before[0]
    assert await sql.fetchval("select seen_at from heartbeat") > before[1]


LONG = "x" * 1_000_000
TEXTS = ["session_key", "agent", "project", "client", "directory", "host"]


@pytest.mark.parametrize("field", TEXTS)
@pytest.mark.parametrize(
    "text", [LONG, "x" * 501, "\x00\x01", "\ud800"], ids=["megabyte", "long", "control", "surrogate"]
)
async def test_a_caller_that_makes_no_sense_is_refused_and_leaves_nothing(
    lab: Lab, sql: Sql, field: str, text: str
) -> None:
    before = await whole_database(sql)
    with pytest.raises(MalformedInput) as refusal:
        await identify(lab, **({"process": CLAUDE} | {field: text}))
    assert len(str(refusal.value)) < 200
    assert await whole_database(sql) == before


@pytest.mark.parametrize("field", TEXTS)
async def test_hostile_marks_in_a_caller_become_one_clean_line(lab: Lab, sql: Sql, field: str) -> None:
    hostile = "a\x00b\n<script>\x1b[31m\u202e\ud800é"
    actor = await identify(lab, **({"process": CLAUDE} | {field: hostile}))
    await lab.app.tickets.me(actor, [])
    row = await sql.fetchrow(
        "select key, client, directory, host_name, agent.name as agent, project.name as project from session "
        "join agent on agent.id = agent_id join project on project.id = project_id"
    )
    assert all(value.isprintable() for value in row if value is not None)
    column = {"session_key": "key", "host": "host_name"}.get(field, field)
    assert "a b <script> [31m é" in row[column]


async def test_sessions_long_gone_are_forgotten_and_those_with_tickets_are_not(
    lab: Lab, clock: Clock, sql: Sql
) -> None:
    """Casebook C38."""
    await lab.host()
    await lab.request(await lab.agent("claude-1"))
    await lab.agent("claude-2")
    await lab.agent("claude-4")
    await sql.execute("delete from heartbeat where session_id = 3")
    clock.advance(days=8)
    await lab.agent("claude-3")
    await lab.duties()
    rows = await sql.fetch("select name from session join agent on agent.id = agent_id order by 1")
    assert [row["name"] for row in rows] == ["claude-1", "claude-3"]


async def test_agents_are_listed_with_their_sessions_what_each_holds_and_waits_for(lab: Lab, clock: Clock) -> None:
    await lab.host(interval=3_000)
    waiting = await lab.agent("claude-2", project="vision")
    holder = await lab.agent("claude-1")
    held = await lab.request(holder)
    queued = await lab.request(waiting)
    clock.advance(minutes=11)
    await identify(lab, agent="claude-1", session_key="nightly")

    first, second = await lab.app.sessions.agents()

    assert (first.agent, first.liveness, len(first.sessions)) == ("claude-1", Liveness.ALIVE, 2)
    old = first.sessions[1]
    assert (old.liveness, old.leases, old.tasks, old.tickets) == (Liveness.SILENT, [held.lease], [held.ticket], [])
    assert (second.agent, second.liveness) == ("claude-2", Liveness.SILENT)
    assert (second.sessions[0].project, second.sessions[0].tickets) == ("vision", [queued.ticket])
