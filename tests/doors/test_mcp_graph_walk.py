"""The graph tools over HTTP, from real MCP clients to a real server process: the whole way of tasks between agents."""

import asyncio
import re
from collections.abc import Generator
from typing import Any

import pytest
from tools import agent_at

from support.invariants import ask, assert_whole
from support.serving import Caller, ServerProcess, eventually, server_processes

ONE_SENTENCE_EACH = re.compile(r"[a-z_]+: [^\n]+[.?!)] [^\n]+\.")


@pytest.fixture(scope="module")
def server(
    module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ServerProcess]:
    """One server for this module, at which failed tasks are tried again almost at once; each test has its own project."""
    settings: dict[str, object] = {"database_url": module_database_url, "redis_url": redis_url}
    with server_processes(tmp_path_factory.mktemp("server"), settings | {"retry_base_seconds": 0.05}) as every:
        Caller(every[0].url).survey("graph", cards=1)
        yield every[0]


def names(tasks: list[dict[str, Any]]) -> list[str]:
    return [each["task"] for each in tasks]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_three_tasks_go_from_agent_to_agent_until_nothing_is_left(
    server: ServerProcess, module_database_url: str, mode: str
) -> None:
    project = f"walk-{mode}"

    def join(name: str, toolsets: str | None = None) -> Any:
        return agent_at(server.url, f"{project}-{name}", mode=mode, project=project, toolsets=toolsets)

    async with join("1") as first, join("2") as second, join("boss", "all") as boss:
        nothing = await first.call("loom_claim")
        assert (nothing["task"], nothing["ideas"]) == (None, 0)
        assert "warploom wait --ready" in nothing["next"]

        plan = await first.call("loom_create", title="Plan", context="Ask Ada.", done_when="It is written.")
        build = await first.call("loom_create", title="Build", depends_on=[plan["task"]])
        ship = await first.call("loom_create", title="Ship", depends_on=[build["task"]], priority="p0")
        assert [each["state"] for each in (plan, build, ship)] == ["ready", "pending", "pending"]
        again = await second.call("loom_create", title="build", depends_on=[plan["task"]])
        assert (again["task"], again["deduplicated"]) == (build["task"], True)
        assert names((await second.call("loom_ready"))["tasks"]) == [plan["task"]]

        held = await first.call("loom_claim")
        assert (held["task"]["title"], held["task"]["context"], held["task"]["done_when"]) == (
            "Plan",
            "Ask Ada.",
            "It is written.",
        )
        assert names((await first.call("loom_me"))["tasks"]) == [plan["task"]]
        waiting = await second.call("loom_claim")
        assert waiting["task"] is None
        assert plan["task"] in waiting["reason"]
        taken = await second.refusal("loom_claim", task_id=plan["task"])
        assert taken.startswith("taken: ")
        assert f"{project}-1" in taken

        beat = await first.call("loom_heartbeat", task_id=plan["task"], progress="half of it", percent=50)
        assert (beat["state"], beat["percent"]) == ("claimed", 50)
        seen = await second.call("loom_status", task_id=plan["task"])
        assert (seen["agent"], seen["percent"], seen["note"]) == (f"{project}-1", 50, "half of it")

        output = {"file": "plan.md", "open": [], "sure": False, "cost": None}
        done = await first.call("loom_done", task_id=plan["task"], output=output, branch_name="plan")
        assert done["state"] == "done"
        assert (await first.call("loom_done", task_id=plan["task"], lease=held["lease"]))["state"] == "done"
        left = await second.call("loom_status", task_id=plan["task"])
        assert (left["state"], left["output"], left["branch"]) == ("done", output, "plan")

        built = await second.call("loom_claim")
        assert built["task"]["task"] == build["task"]
        failed = await second.call("loom_fail", task_id=build["task"], reason="no disk", failure_class="infra")
        assert failed["state"] == "failed"
        assert failed["retry_at"]
        await asyncio.to_thread(eventually, lambda: state_of(module_database_url, build["task"]) == "ready")
        retried = await first.call("loom_claim", task_id=build["task"])
        assert retried["task"]["attempts"] == 2
        await first.call("loom_done", task_id=build["task"])

        await second.call("loom_claim", task_id=ship["task"])
        given_up = await second.call("loom_fail", task_id=ship["task"], reason="wrong", failure_class="user_error")
        assert given_up["state"] == "dead_letter"
        party = await first.call("loom_create", title="Party", depends_on=[ship["task"]])
        assert party["state"] == "blocked"
        dead = await boss.call("loom_dead_letter")
        assert names(dead["tasks"]) == [ship["task"]]
        assert "wrong" in dead["tasks"][0]["reason"]

        settled = await boss.call("loom_dead_letter", retry=[ship["task"]])
        assert (settled["retried"], settled["tasks"]) == ([ship["task"]], [])
        assert (await first.call("loom_status", task_id=party["task"]))["state"] == "pending"
        await second.call("loom_claim")
        reset = await boss.call("loom_reset", task_id=ship["task"])
        assert reset["state"] == "ready"
        told = await second.call("loom_ready")
        assert [line for line in told["notices"] if ship["task"] in line], told
        cancelled = await boss.call("loom_cancel", task_id=ship["task"], reason="no use", cascade=True)
        assert sorted(cancelled["cancelled"]) == sorted([ship["task"], party["task"]])

        overview = await first.call("loom_status")
        assert overview["counts"] == {"done": 2, "cancelled": 2}
        assert (overview["open"], overview["percent"], overview["ready"]) == (0, 100, 0)
        assert names((await first.call("loom_status", filter="cancelled"))["tasks"]) == [party["task"], ship["task"]]
    assert_whole(module_database_url)


def state_of(database: str, task: str) -> str:
    return ask(database, "select state::text from task where id = $1", int(task[2:]))[0]["state"]


@pytest.mark.parametrize("tool", ["loom_done", "loom_fail", "loom_heartbeat", "loom_escalate"])
async def test_a_holder_who_lost_its_task_changes_nothing_any_more(
    server: ServerProcess, module_database_url: str, tool: str
) -> None:
    project = tool.replace("_", "-")
    words = {"loom_fail": {"reason": "late"}, "loom_escalate": {"message": "late?"}}.get(tool, {})
    async with (
        agent_at(server.url, f"{project}-1", project=project) as first,
        agent_at(server.url, f"{project}-2", project=project) as second,
    ):
        task = (await first.call("loom_create", title="Slow"))["task"]
        lost = await first.call("loom_claim")
        ask(module_database_url, "update lease set expires_at = clock_now() where id = $1", int(lost["lease"][2:]))
        await asyncio.to_thread(eventually, lambda: state_of(module_database_url, task) == "ready")
        held = await second.call("loom_claim", task_id=task)
        assert held["lease"] != lost["lease"]
        before = stored(module_database_url)

        named = await first.refusal(tool, task_id=task, lease=lost["lease"], **words)
        unnamed = await first.refusal(tool, task_id=task, **words)

        assert named.startswith(f"lease_lost: {lost['lease']}")
        assert f"{project}-2" in named
        assert unnamed.startswith(("lease_lost: ", "taken: "))
        assert all(ONE_SENTENCE_EACH.fullmatch(told) for told in (named, unnamed)), (named, unnamed)
        assert stored(module_database_url) == before
        assert (await second.call("loom_done", task_id=task))["state"] == "done"
    assert_whole(module_database_url)


def stored(database: str) -> list[dict[str, Any]]:
    """Return all that tasks and their leases come to."""
    return [
        *ask(database, "select task.*, lease.* from task left join lease on lease.id = task.lease_id order by task.id"),
        *ask(database, "select (select count(*) from event) as events, (select count(*) from comment) as comments"),
        *ask(database, "select (select count(*) from progress) as progress, (select count(*) from result) as results"),
    ]


async def test_a_question_is_asked_answered_and_read_by_whoever_goes_on(
    server: ServerProcess, module_database_url: str
) -> None:
    async with (
        agent_at(server.url, "asking-1", project="asking") as first,
        agent_at(server.url, "asking-2", project="asking") as second,
        agent_at(server.url, "asking-boss", project="asking", toolsets="admin,graph") as boss,
    ):
        task = (await first.call("loom_create", title="Choose"))["task"]
        await first.call("loom_claim")
        assert (await first.call("loom_escalate", task_id=task, message="Red or blue?"))["state"] == "blocked"
        overview = await second.call("loom_status")
        assert overview["escalations"] == 1
        assert names(overview["blocked"]) == [task]
        (question,) = (await boss.call("loom_escalations"))["escalations"]
        assert (question["task"], question["agent"], question["message"]) == (task, "asking-1", "Red or blue?")
        assert (await boss.call("loom_answer", task_id=task, answer="Blue."))["state"] == "ready"
        assert (await boss.call("loom_escalations"))["escalations"] == []
        held = await second.call("loom_claim")
        assert [(each["author"], each["text"]) for each in held["task"]["comments"]][-1] == ("asking-boss", "Blue.")
    assert_whole(module_database_url)


async def test_ideas_wait_outside_the_graph_until_they_are_promoted(server: ServerProcess) -> None:
    async with (
        agent_at(server.url, "dreaming-1", project="dreaming") as agent,
        agent_at(server.url, "dreaming-boss", project="dreaming", toolsets="all") as boss,
    ):
        idea = await agent.call("loom_idea", title="Paint it", context="It is grey.")
        assert idea["state"] == "idea"
        ready = await agent.call("loom_ready")
        assert (ready["tasks"], ready["ideas"]) == ([], 1)
        assert 'loom_status(filter="idea")' in ready["next"]
        assert names((await agent.call("loom_status", filter="idea"))["tasks"]) == [idea["task"]]
        promoted = await boss.call("loom_promote_ideas", task_ids=[idea["task"], "T-999999"])
        assert (promoted["promoted"], list(promoted["refused"])) == ([idea["task"]], ["T-999999"])
        assert (await agent.call("loom_claim"))["task"]["title"] == "Paint it"


async def test_a_task_with_a_card_is_claimed_with_it_or_waits_in_its_queue(
    server: ServerProcess, module_database_url: str
) -> None:
    async with (
        agent_at(server.url, "carded-1", project="carded") as first,
        agent_at(server.url, "carded-2", project="carded") as second,
    ):
        train = await first.call("loom_create", title="Train", device="graph/0", minutes=30)
        assert train["needs"]["cards"] == ["graph/0"]
        other = await first.call("loom_create", title="Evaluate", device="graph/0")
        held = await first.call("loom_claim", task_id=train["task"])
        assert held["cards"] == ["graph/0"]
        assert held["export"]["WARPLOOM_LEASE"] == held["lease"]
        queued = await second.call("loom_claim", task_id=other["task"])
        assert queued["task"] is None
        assert [(each["ticket"], each["state"]) for each in queued["queued"]] == [(other["task"], "queued")]
        refused = await first.refusal("gpu_release", lease=held["lease"])
        assert "loom_done" in refused
        assert (await first.call("loom_done", task_id=train["task"]))["state"] == "done"
        await asyncio.to_thread(Caller(server.url).survey, "graph")
        assert [state for _, state in (await second.standing())["leases"]] == ["offered"]
        assert (await second.call("loom_heartbeat", task_id=other["task"]))["state"] == "claimed"
        assert (await second.call("loom_done", task_id=other["task"]))["state"] == "done"
        await asyncio.to_thread(Caller(server.url).survey, "graph")
    assert_whole(module_database_url)


async def test_several_are_claimed_settled_and_put_right_at_once(
    server: ServerProcess, module_database_url: str
) -> None:
    async with agent_at(server.url, "many-boss", project="many", toolsets="all") as boss:
        tasks = [(await boss.call("loom_create", title=f"Step {number}"))["task"] for number in range(4)]
        claimed = await boss.call("loom_batch_claim", task_ids=[*tasks[:2], "T-999999"])
        assert (claimed["claimed"], list(claimed["refused"])) == (tasks[:2], ["T-999999"])
        assert len((await boss.call("loom_claim", count=5))["claims"]) == 2
        recovery = await boss.call("loom_recover")
        assert {line["task"]: line["word"] for line in recovery["lines"]} == dict.fromkeys(tasks, "active")
        settled = await boss.call(
            "loom_batch_done", task_ids=tasks[:2], output={"by": "decision"}, reason="done before"
        )
        assert (settled["done"], settled["refused"]) == (tasks[:2], {})
        dead = await boss.call("loom_batch_done", task_ids=tasks[2:], reason="nobody needs it", dead_letter=True)
        assert dead["dead_letters"] == tasks[2:]
        last = await boss.call("loom_dead_letter", skip=[tasks[2]], cancel=[tasks[3]], retry=["T-999999"])
        assert (last["skipped"], last["cancelled"], list(last["refused"])) == ([tasks[2]], [tasks[3]], ["T-999999"])
        assert last["tasks"] == []
        did = (await boss.call("loom_orchestrate"))["did"]
        assert all(isinstance(count, int) for count in did.values())
        assert len(did) >= 5
    assert_whole(module_database_url)


async def test_waiting_for_others_ends_with_their_tasks_or_with_the_time(server: ServerProcess) -> None:
    async with (
        agent_at(server.url, "await-1", project="await") as first,
        agent_at(server.url, "await-2", project="await") as second,
    ):
        task = (await first.call("loom_create", title="Result"))["task"]
        timed_out = await second.call("loom_await", task_ids=[task], timeout_seconds=0)
        assert (timed_out["timed_out"], timed_out["tasks"][0]["state"]) == (True, "ready")
        await first.call("loom_claim")
        wait = asyncio.create_task(second.call("loom_await", task_ids=[task], timeout_seconds=55))
        await asyncio.to_thread(eventually, lambda: Caller(server.url).listeners() > 0)
        await first.call("loom_done", task_id=task)
        over = await wait
        assert (over["timed_out"], over["tasks"][0]["state"]) == (False, "done")


async def test_changes_and_comments_are_read_by_whoever_looks_next(server: ServerProcess) -> None:
    async with agent_at(server.url, "editing", project="editing") as agent:
        one = (await agent.call("loom_create", title="One"))["task"]
        two = (await agent.call("loom_create", title="Two", depends_on=[one]))["task"]
        circle = await agent.refusal("loom_update", task_id=one, depends_on=[two])
        assert circle.startswith("cycle: ")
        assert one in circle
        assert two in circle
        changed = await agent.call("loom_update", task_id=two, title="Second", priority="p1", depends_on=[])
        assert (changed["title"], changed["priority"], changed["state"]) == ("Second", "p1", "ready")
        said = await agent.call("loom_comment", task_id=two, body="mind the gap")
        assert [(each["author"], each["text"]) for each in said["comments"]] == [("editing", "mind the gap")]


async def test_a_key_decides_who_may_put_the_graph_right(
    module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings: dict[str, object] = {
        "database_url": module_database_url,
        "redis_url": redis_url,
        "key": "agents",
        "operator_key": "operators",
    }
    with server_processes(tmp_path_factory.mktemp("keyed"), settings) as (keyed,):
        async with (
            agent_at(keyed.url, "worker", key="agents", project="keyed", toolsets="all") as worker,
            agent_at(keyed.url, "operator", key="operators", project="keyed", toolsets="all") as operator,
        ):
            task = (await worker.call("loom_create", title="Mine"))["task"]
            await worker.call("loom_claim")
            for tool, arguments in OPERATORS_ONLY.items():
                told = await worker.refusal(tool, **arguments)
                assert told.startswith("not_allowed: "), (tool, told)
            assert (await operator.call("loom_reset", task_id=task))["state"] == "ready"
            assert (await operator.call("loom_orchestrate"))["did"]


OPERATORS_ONLY: dict[str, dict[str, Any]] = {
    "loom_reset": {"task_id": "T-1"},
    "loom_cancel": {"task_id": "T-1"},
    "loom_answer": {"task_id": "T-1", "answer": "yes"},
    "loom_batch_done": {"task_ids": ["T-1"]},
    "loom_recover": {"execute": True},
    "loom_orchestrate": {},
}
