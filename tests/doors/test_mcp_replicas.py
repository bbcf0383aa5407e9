"""Two servers on one database: any of them serves any call, and wakes reach waiters at either."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from tools import agent_at

from support.invariants import assert_whole
from support.proxy import Proxy
from support.serving import PATIENCE, WAKE_SECONDS, Caller, Serve, StartCommand, eventually


async def test_a_session_goes_on_at_the_other_replica(serve: Serve, database_url: str) -> None:
    """Casebook C49: all state is in Postgres, so any replica serves any call of a session."""
    here, there = serve(2)
    Caller(here.url).survey(cards=2)
    async with (
        agent_at(here.url, "one") as first,
        agent_at(there.url, "one") as other,
        agent_at(there.url, "two") as two,
    ):
        held = await first.call("gpu_request", job="train", device="0")
        queued = await two.call("gpu_request", job="eval", device="0")
        assert (await other.call("loom_me"))["session"] == (await first.call("loom_me"))["session"]
        assert await other.standing() == {"leases": [(held["lease"], "active")], "tickets": []}
        again = await other.call("gpu_request", job="train", device="0")
        assert (again["lease"], again["deduplicated"]) == (held["lease"], True)

        here.kill()
        assert (await other.call("gpu_report", lease=held["lease"], step=1))["state"] == "active"
        assert (await other.call("gpu_release", lease=held["lease"]))["state"] == "ended"
        Caller(there.url).survey(cards=2)
        assert [state for _, state in (await two.standing())["leases"]] == ["offered"]
        assert (await two.call("gpu_explain", ticket=queued["ticket"]))["state"] == "offered"
    assert_whole(database_url)


@pytest.mark.parametrize("redis", ["valkey", "none"])
def test_a_waiter_at_one_replica_is_woken_by_a_release_through_the_other(
    serve: Serve, command: StartCommand, redis_url: str, database_url: str, redis: str
) -> None:
    here, there = serve(2, redis_url=redis_url if redis == "valkey" else "none")
    host = Caller(here.url)
    host.survey()
    first, second = Caller(here.url, "one"), Caller(there.url, "two")
    held = first.request()
    ticket = second.request()["ticket"]
    waiter = command("wait", ticket, url=there.url, session="two")
    assert f"queued  {ticket} on local/0, place 1" in waiter.first_words()
    if redis == "valkey":
        eventually(lambda: second.listeners() == 1)

    first.release(held["lease"])
    host.survey()

    status, printed, _ = waiter.finish(WAKE_SECONDS)
    assert status == 0
    assert second.get("/me")["leases"][0]["lease"] in printed
    hinted = second.doctor("bus")[1]
    assert "last hint" in hinted if redis == "valkey" else "every 3 s" in hinted
    assert_whole(database_url)


@pytest.mark.parametrize("redis", ["valkey", "none"])
async def test_whoever_awaits_a_task_at_one_replica_learns_of_its_end_at_the_other(
    serve: Serve, redis_url: str, database_url: str, redis: str
) -> None:
    here, there = serve(2, redis_url=redis_url if redis == "valkey" else "none")
    async with agent_at(here.url, "one") as one, agent_at(there.url, "two") as two:
        task = (await one.call("loom_create", title="result"))["task"]
        await one.call("loom_claim")
        wait = asyncio.create_task(two.call("loom_await", task_ids=[task], timeout_seconds=55))
        if redis == "valkey":
            await asyncio.to_thread(eventually, lambda: Caller(there.url).listeners() > 0)

        await one.call("loom_done", task_id=task, output="found")

        answer = await asyncio.wait_for(wait, WAKE_SECONDS)
        assert (answer["timed_out"], answer["tasks"][0]["state"]) == (False, "done")
    assert_whole(database_url)


@pytest.mark.parametrize("redis", ["valkey", "none"])
async def test_whoever_waits_for_a_card_at_one_replica_gets_it_when_it_is_released_at_the_other(
    serve: Serve, redis_url: str, database_url: str, redis: str
) -> None:
    here, there = serve(2, redis_url=redis_url if redis == "valkey" else "none")
    host = Caller(here.url)
    host.survey()
    async with agent_at(here.url, "one") as one, agent_at(there.url, "two") as two:
        held = await one.call("gpu_request", job="train", device="0")
        queued = await two.call("gpu_request", job="eval", device="0")
        wait = asyncio.create_task(two.call("gpu_wait", ticket=queued["ticket"]))
        if redis == "valkey":
            await asyncio.to_thread(eventually, lambda: Caller(there.url).listeners() > 0)

        await one.call("gpu_release", lease=held["lease"])
        await asyncio.to_thread(host.survey)

        answer = await asyncio.wait_for(wait, WAKE_SECONDS)
        assert (answer["state"], answer["card"]) == ("offered", "local/0")
        assert (await two.call("gpu_report", lease=answer["lease"], step=1))["state"] == "active"
    assert_whole(database_url)


async def test_a_wait_for_a_card_outlives_a_database_that_is_away_meanwhile(serve: Serve, database_url: str) -> None:
    """Casebook C44, C69."""
    told: asyncio.Queue[str] = asyncio.Queue()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        await told.put(message or "")

    proxy = Proxy(database_url)
    try:
        (server,) = serve(database_url=proxy.url)
        host = Caller(server.url)
        host.survey()
        async with agent_at(server.url, "one") as one, agent_at(server.url, "two") as two:
            held = await one.call("gpu_request", job="train", device="0")
            queued = await two.call("gpu_request", job="eval", device="0")
            wait = asyncio.create_task(two.call("gpu_wait", hear, ticket=queued["ticket"]))
            await asyncio.to_thread(eventually, lambda: host.listeners() > 0)

            await asyncio.to_thread(proxy.cut)
            assert await asyncio.wait_for(told.get(), PATIENCE) == "The database is not reachable at the moment."
            await asyncio.to_thread(proxy.restore)

            await one.call("gpu_release", lease=held["lease"])
            await asyncio.to_thread(host.survey)
            assert (await asyncio.wait_for(wait, PATIENCE))["state"] == "offered"
    finally:
        await asyncio.to_thread(proxy.close)


async def test_a_server_that_stops_answers_whoever_waits_for_a_card(serve: Serve) -> None:
    (server,) = serve()
    Caller(server.url).survey()
    async with agent_at(server.url, "one") as one, agent_at(server.url, "two") as two:
        await one.call("gpu_request", job="train", device="0")
        queued = await two.call("gpu_request", job="eval", device="0")
        wait = asyncio.create_task(two.call("gpu_wait", ticket=queued["ticket"]))
        await asyncio.to_thread(eventually, lambda: Caller(server.url).listeners() > 0)

        await asyncio.to_thread(server.stop)

        assert (await asyncio.wait_for(wait, WAKE_SECONDS))["state"] == "queued"


async def test_a_server_that_stops_answers_whoever_awaits_a_task(serve: Serve) -> None:
    (server,) = serve()
    async with agent_at(server.url, "one") as agent:
        task = (await agent.call("loom_create", title="never"))["task"]
        wait = asyncio.create_task(agent.call("loom_await", task_ids=[task], timeout_seconds=55))
        await asyncio.to_thread(eventually, lambda: Caller(server.url).listeners() > 0)

        await asyncio.to_thread(server.stop)

        assert (await asyncio.wait_for(wait, WAKE_SECONDS))["timed_out"] is True


async def test_agents_that_claim_at_once_at_both_replicas_never_get_the_same_task(
    serve: Serve, database_url: str
) -> None:
    servers = serve(2)
    async with AsyncExitStack() as stack:
        agents = [
            await stack.enter_async_context(agent_at(servers[number % 2].url, f"agent-{number}")) for number in range(6)
        ]
        titles = [f"task {number}" for number in range(10)]
        tasks = [(await agents[0].call("loom_create", title=title))["task"] for title in titles]

        claims = await asyncio.gather(*(agent.call("loom_claim") for agent in agents * 2))

        held = [claim for claim in claims if claim["task"] is not None]
        assert sorted(claim["task"]["task"] for claim in held) == sorted(tasks)
        assert len({claim["lease"] for claim in held}) == 10
        assert all("claimed by agent-" in claim["reason"] for claim in claims if claim["task"] is None)
    assert_whole(database_url)
