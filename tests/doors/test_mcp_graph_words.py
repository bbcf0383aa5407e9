"""The graph tools as a model meets them: what makes no sense gets one sentence, and a long wait tells that it is alive."""

import re
from collections.abc import Generator
from typing import Any

import pytest
from fastapi import FastAPI
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from refusals import counts
from stage import listening
from tools import agent_at

from support.invariants import assert_whole
from support.serving import Caller
from warploom.app import build_app
from warploom.config import Settings
from warploom.mcp import patience
from warploom.server import build_server

ONE_SENTENCE_EACH = re.compile(r"[a-z_]+: [^\n]+[.?!)] [^\n]+\.")
MEGABYTE = "x" * 1_000_000


@pytest.fixture(scope="module")
def server(module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    environment = {
        "WARPLOOM_HOME": str(tmp_path_factory.mktemp("home")),
        "WARPLOOM_DATABASE_URL": module_database_url,
        "WARPLOOM_REDIS_URL": redis_url,
    }
    return build_server(build_app(Settings.load(environment), "http://127.0.0.1:8765"))


@pytest.fixture(scope="module")
def url(server: FastAPI) -> Generator[str]:
    with listening(server) as url:
        caller = Caller(url, "host")
        caller.survey(cards=1)
        caller.close()
        yield url


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("loom_ready", {"priority": "p7"}, "priority"),
    ("loom_ready", {"limit": 0}, "0 tasks"),
    ("loom_ready", {"limit": 10**30}, "tasks"),
    ("loom_claim", {"task_id": "task"}, "'task' is not a task"),
    ("loom_claim", {"task_id": "T-" + "9" * 5_000}, "is not a task"),
    ("loom_claim", {"task_id": "T-999999"}, "no task T-999999"),
    ("loom_claim", {"task_id": "T-1"}, "T-1"),
    ("loom_claim", {"count": 0}, "0 tasks"),
    ("loom_claim", {"count": 21}, "21 tasks"),
    ("loom_claim", {"ttl_seconds": 1}, "1 seconds"),
    ("loom_claim", {"ttl_seconds": 1e300}, "seconds"),
    ("loom_claim", {"agent_id": "me"}, "agent_id"),
    ("loom_heartbeat", {"task_id": "T-2", "percent": 101}, "101"),
    ("loom_heartbeat", {"task_id": "T-2", "progress": MEGABYTE}, "characters"),
    ("loom_heartbeat", {"task_id": "T-2", "progress": "\x00"}, "empty"),
    ("loom_heartbeat", {"task_id": "T-2", "lease": "T-2"}, "'T-2' is not a lease"),
    ("loom_heartbeat", {"task_id": "T-2", "lease": "L-999"}, "L-999"),
    ("loom_heartbeat", {"task_id": "T-3"}, "T-3"),
    ("loom_done", {"task_id": "T-3"}, "T-3"),
    ("loom_done", {"task_id": "T-2", "output": {"log": MEGABYTE}}, "bytes"),
    ("loom_done", {"task_id": "T-2", "output": 17}, "output"),
    ("loom_done", {"task_id": "T-2", "branch_name": "x" * 301}, "branch name"),
    ("loom_done", {"task_id": "T-2", "lease": "L-x"}, "'L-x' is not a lease"),
    ("loom_fail", {"task_id": "T-2"}, "reason"),
    ("loom_fail", {"task_id": "T-2", "reason": " "}, "empty"),
    ("loom_fail", {"task_id": "T-2", "reason": MEGABYTE}, "characters"),
    ("loom_fail", {"task_id": "T-2", "reason": "x", "failure_class": "tired"}, "'tired'"),
    ("loom_escalate", {"task_id": "T-2", "message": "\x1b"}, "empty"),
    ("loom_escalate", {"task_id": "T-2", "message": MEGABYTE}, "characters"),
    ("loom_create", {}, "title"),
    ("loom_create", {"title": "\u202e\x00"}, "empty"),
    ("loom_create", {"title": MEGABYTE}, "characters"),
    ("loom_create", {"title": ["x"]}, "title"),
    ("loom_create", {"title": "x", "context": MEGABYTE}, "context"),
    ("loom_create", {"title": "x", "done_when": MEGABYTE}, "done_when"),
    ("loom_create", {"title": "x", "priority": "now"}, "priority"),
    ("loom_create", {"title": "x", "kind": "job"}, "'job' is not a kind"),
    ("loom_create", {"title": "x", "depends_on": ["T-999999"]}, "no task T-999999"),
    ("loom_create", {"title": "x", "depends_on": ["'; drop table task; --"]}, "is not a task"),
    ("loom_create", {"title": "x", "depends_on": "T-2"}, "depends_on"),
    ("loom_create", {"title": "x", "parent_id": "T-2"}, "T-2 is no epic"),
    ("loom_create", {"title": "x", "device": "wrong/99"}, "no card"),
    ("loom_create", {"title": "x", "cards": -1}, "-1 cards"),
    ("loom_create", {"title": "x", "cards": 9}, "9 such cards"),
    ("loom_create", {"title": "x", "memory_gib": 4_000}, "4000 GiB"),
    ("loom_create", {"title": "x", "model": "Voodoo2"}, "Voodoo2"),
    ("loom_create", {"title": "x", "resources": [""]}, "resource"),
    ("loom_create", {"title": "x", "capabilities": ["y" * 81]}, "capability"),
    ("loom_create", {"title": "x", "env_style": "cuda"}, "style"),
    ("loom_create", {"title": "x", "minutes": 0}, "0 minutes"),
    ("loom_create", {"title": "x", "key": MEGABYTE}, "key"),
    ("loom_create", {"title": "x", "deadline": "tomorrow"}, "'tomorrow'"),
    ("loom_create", {"title": "x", "max_attempts": 0}, "0 attempts"),
    ("loom_create", {"title": "x", "needs": {"cards": 1}}, "needs"),
    ("loom_update", {"task_id": "T-999999", "title": "x"}, "no task T-999999"),
    ("loom_update", {"task_id": "T-3", "depends_on": ["T-3"]}, "T-3"),
    ("loom_update", {"task_id": "T-3", "title": ""}, "empty"),
    ("loom_status", {"task_id": "L-1"}, "'L-1' is not a task"),
    ("loom_status", {"filter": "flying"}, "'flying'"),
    ("loom_status", {"filter": "ready", "limit": 100_000}, "tasks"),
    ("loom_graph", {"format": "png"}, "'png'"),
    ("loom_graph", {"around": "here"}, "'here' is not a task"),
    ("loom_graph", {"around": "T-999999"}, "no task T-999999"),
    ("loom_explain", {"task_id": ""}, "is not a task"),
    ("loom_explain", {"task_id": "T-999999"}, "no task T-999999"),
    ("gpu_wait", {"ticket": "T-999999"}, "no ticket T-999999"),
    ("gpu_wait", {"ticket": "T-2", "minutes": -1}, "-1 minutes"),
    ("loom_await", {"task_ids": []}, "No task was named"),
    ("loom_await", {"task_ids": ["T-999999"]}, "no task T-999999"),
    ("loom_await", {"task_ids": ["T-2"], "timeout_seconds": -1}, "-1 seconds"),
    ("loom_comment", {"task_id": "T-2", "body": ""}, "empty"),
    ("loom_comment", {"task_id": "T-2", "body": MEGABYTE}, "characters"),
    ("loom_idea", {"title": ""}, "empty"),
    ("loom_reset", {"task_id": "T-999999"}, "no task T-999999"),
    ("loom_cancel", {"task_id": "T-2", "reason": MEGABYTE}, "characters"),
    ("loom_batch_done", {"task_ids": []}, "No task was named"),
    ("loom_batch_done", {"task_ids": ["T-2"] * 201}, "201 tasks"),
    ("loom_batch_done", {"task_ids": ["T-2"], "output": {"log": MEGABYTE}}, "bytes"),
    ("loom_dead_letter", {"retry": ["x"]}, "'x' is not a task"),
    ("loom_dead_letter", {"skip": ["T-2"] * 201}, "201 tasks"),
    ("loom_recover", {"execute": "maybe"}, "execute"),
    ("loom_answer", {"task_id": "T-2", "answer": "yes"}, "T-2 asks nothing"),
    ("loom_answer", {"task_id": "T-2", "answer": ""}, "empty"),
    ("loom_promote_ideas", {"task_ids": ["idea"]}, "'idea' is not a task"),
    ("loom_batch_claim", {"task_ids": ["T-3"], "ttl_seconds": 0}, "0 seconds"),
]


async def test_wrong_arguments_get_one_sentence_and_leave_nothing(url: str, module_database_url: str) -> None:
    async with agent_at(url, "wrong", toolsets="all") as agent:
        assert (await agent.call("loom_create", title="an epic", kind="epic"))["task"] == "T-1"
        assert (await agent.call("loom_create", title="held"))["task"] == "T-2"
        await agent.call("loom_claim")
        assert (await agent.call("loom_create", title="free"))["task"] == "T-3"
        before = counts(module_database_url)
        told = [await agent.refusal(tool, **arguments) for tool, arguments, _ in WRONG]
    unfit = [
        (tool, text[:500])
        for (tool, _, named), text in zip(WRONG, told, strict=True)
        if named not in text or not ONE_SENTENCE_EACH.fullmatch(text) or len(text) > 500
    ]
    assert unfit == []
    assert counts(module_database_url) == before
    assert_whole(module_database_url)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_wait_for_a_card_tells_why_it_goes_on_until_its_time_is_up(
    url: str, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    monkeypatch.setattr(patience, "PROGRESS_SECONDS", 0.1)
    host = Caller(url)
    host.survey(f"waits-{mode}")
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert progress <= (total or 0)
        heard.append(message or "")

    first, second = [{"X-Warploom-Session": f"{mode}-{number}"} for number in (1, 2)]
    device = f"waits-{mode}/0"
    async with (
        Client(StreamableHttpTransport(f"{url}/mcp", headers=first), mode=mode) as holder,
        Client(StreamableHttpTransport(f"{url}/mcp", headers=second), mode=mode) as waiter,
    ):
        await holder.call_tool("gpu_request", {"job": "train", "device": device})
        queued = (await waiter.call_tool("gpu_request", {"job": "eval", "device": device})).structured_content or {}
        arguments = {"ticket": queued["ticket"], "minutes": 0.35 / 60}
        answer = await waiter.call_tool("gpu_wait", arguments, progress_handler=hear)
    assert answer.structured_content is not None
    assert (answer.structured_content["state"], answer.structured_content["place"]) == ("queued", 1)
    assert heard
    assert all(message.startswith(f"place 1, starts unknown, because {device} is held") for message in heard)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_long_wait_tells_that_it_is_alive(url: str, monkeypatch: pytest.MonkeyPatch, mode: Any) -> None:
    monkeypatch.setattr(patience, "PROGRESS_SECONDS", 0.1)
    heard: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert message == "still waiting"
        heard.append((progress, total))

    async with Client(f"{url}/mcp", mode=mode) as client:
        task = (await client.call_tool("loom_create", {"title": f"never {mode}"})).structured_content
        assert task is not None
        arguments = {"task_ids": [task["task"]], "timeout_seconds": 0.35}
        answer = await client.call_tool("loom_await", arguments, progress_handler=hear)
    assert answer.structured_content is not None
    assert answer.structured_content["timed_out"] is True
    assert {total for _, total in heard} == {0.35}
    assert heard == sorted(heard)
