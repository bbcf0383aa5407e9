"""Projects and messages over MCP, HTTP and the command line, against a real server process."""

from collections.abc import Generator

import pytest
from tools import agent_at

from support.serving import Caller, Serve, ServerProcess, StartCommand, server_processes
from warploom.client.connection import Client


@pytest.fixture(scope="module")
def server(
    module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ServerProcess]:
    settings: dict[str, object] = {"database_url": module_database_url, "redis_url": redis_url, "toolsets": "all"}
    with server_processes(tmp_path_factory.mktemp("server"), settings) as (server,):
        yield server


@pytest.fixture
def person(server: ServerProcess) -> Generator[Caller]:
    caller = Caller(server.url, "ada")
    yield caller
    caller.close()


async def test_each_session_is_in_the_project_it_switched_to(server: ServerProcess, person: Caller) -> None:
    async with agent_at(server.url, "one") as one, agent_at(server.url, "two") as two:
        made = await one.call("loom_create_project", name="vision", description="Images")
        assert made["project"]["project"] == "vision"
        assert "is_current" not in made["project"]

        switched = await one.call("loom_switch_project", name="vision")
        assert switched["project"]["is_current"]
        assert (await one.call("loom_me"))["project"] == "vision"
        assert (await two.call("loom_me"))["project"] == "default"

        listed = await two.call("loom_projects")
        current = [view["project"] for view in listed["projects"] if view.get("is_current")]
        assert current == ["default"]
        assert person.get("/projects/vision")["description"] == "Images"
        again = await two.refusal("loom_create_project", name="vision")
        assert again.startswith(
            "taken: There is already a project 'vision'. Switch to it: loom_switch_project('vision')"
        )


async def test_an_archived_project_is_hidden_until_it_is_back(server: ServerProcess, person: Caller) -> None:
    async with agent_at(server.url, "three") as agent:
        person.post("/projects", name="old")
        assert (await agent.call("loom_archive_project", name="old"))["project"]["archived_at"]
        assert "old" not in {view["project"] for view in person.get("/projects")["projects"]}
        assert "old" in {view["project"] for view in person.get("/projects", archived=True)["projects"]}
        assert (await agent.refusal("loom_switch_project", name="old")).startswith("not_ready: The project 'old' is ")
        person.post("/projects/old/archive", back=True)
        await agent.call("loom_switch_project", name="old")


async def test_archiving_over_mcp_needs_the_operators_key_where_keys_are_set(serve: Serve) -> None:
    (locked,) = serve(key="agents", operator_key="operators", toolsets="all")
    async with (
        agent_at(locked.url, "one", key="agents") as agent,
        agent_at(locked.url, "ada", key="operators") as operator,
    ):
        await agent.call("loom_create_project", name="vision")
        assert (await agent.refusal("loom_archive_project", name="vision")).startswith("not_allowed: ")
        await operator.call("loom_archive_project", name="vision")


async def test_a_message_reaches_an_agent_with_its_next_call_whatever_the_door(
    server: ServerProcess, person: Caller, command: StartCommand
) -> None:
    async with agent_at(server.url, "claude-7") as agent:
        await agent.call("loom_me")
        sent = person.post("/messages", to="claude-7", text="look at\nT-1")
        assert (sent["to"], sent["heard"]) == (["claude-7"], ["claude-7"])
        status, _, _ = command("message", "claude-7", "and at T-2", url=server.url, agent="bob").finish()
        assert status == 0

        notices = (await agent.call("gpu_survey"))["notices"]

        assert [notice.partition(", ")[2] for notice in notices] == ["from ada: look at T-1", "from bob: and at T-2"]
        assert "notices" not in await agent.call("gpu_survey")

        answer = await agent.call("loom_message", to="ada", message="done")
        assert answer["messages"][0].startswith("M-")
    assert [view["text"] for view in person.get("/messages")] == ["done"]
    assert person.get("/me")["notices"][0].endswith("from claude-7: done")
    assert person.get("/messages") == []


async def test_agents_and_their_log_are_seen_from_the_shell(server: ServerProcess, command: StartCommand) -> None:
    async with agent_at(server.url, "codex-9") as agent:
        await agent.call("loom_create_project", name="speech")
    status, out, _ = command("agent", "list", url=server.url).finish()
    assert status == 0
    assert any(line.startswith("codex-9  alive, heard ") for line in out.splitlines())
    status, out, _ = command("logs", "codex-9", url=server.url).finish()
    assert status == 0
    assert out.splitlines()[-1].endswith("codex-9 created the project 'speech'")
    status, _, err = command("logs", "codex-8", url=server.url).finish()
    assert (status, err.splitlines()[0]) == (3, "There is no agent 'codex-8'.")


async def test_a_shell_that_switched_stays_there(server: ServerProcess, person: Caller, command: StartCommand) -> None:
    person.post("/projects", name="vault")
    settings = {"url": server.url, "session": "shell-1"}
    assert command("project", "switch", "vault", **settings).finish()[0] == 0
    _, out, _ = command("project", "list", **settings).finish()
    assert [line.split()[1] for line in out.splitlines() if line.startswith("*")] == ["vault"]
    _, out, _ = command("me", url=server.url, session="shell-2").finish()
    assert out.splitlines()[0].endswith(" in project vault.")


@pytest.mark.parametrize("name", ["team/vision", "a/switch", "50 % off?", "..", "<b>é 漢</b>", "it's"])
async def test_a_project_of_any_name_can_be_switched_to_and_read(
    server: ServerProcess, command: StartCommand, name: str
) -> None:
    settings = {"url": server.url, "session": f"any {len(name)}"}
    assert command("project", "create", name, **settings).finish()[0] == 0
    status, out, err = command("project", "switch", name, **settings).finish()
    assert (status, err) == (0, "")
    assert f"'{name}'" in out
    with Client(server.url) as client:
        assert client.project(name).project == name
