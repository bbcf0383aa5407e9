"""Many agents want one card at the same moment: one has it, and all others know who."""

import asyncio
from collections import Counter
from typing import Any

import httpx
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from support.invariants import ask, assert_whole
from support.serving import PATIENCE, Caller, Serve

RACERS = 50


async def test_of_fifty_clients_at_once_one_gets_the_card_and_the_rest_learn_its_name(
    serve: Serve, database_url: str
) -> None:
    first, second = serve(2)
    Caller(first.url).survey()
    start = asyncio.Barrier(RACERS)
    racers = [(f"racer-{number}", (first, second)[number % 2].url) for number in range(RACERS)]
    answers = await asyncio.gather(
        *[_over_http(start, *racer) for racer in racers[:40]], *[_over_mcp(start, *racer) for racer in racers[40:]]
    )

    winners = [answer for answer in answers if answer["state"] == "active"]
    assert len(winners) == 1
    lease, winner = winners[0]["lease"], winners[0]["agent"]
    assert Counter(answer["state"] for answer in answers) == {"active": 1, "queued": RACERS - 1}
    queued = [answer for answer in answers if answer["state"] == "queued"]
    assert {answer["reason"].split(", ")[0] for answer in queued} == {f"local/0 is held by {lease} 'train' ({winner})"}
    places = "select 1 + count(*) filter (where ahead.task_id < own.task_id) as place from queue own, queue ahead group by own.task_id"
    assert sorted(row["place"] for row in ask(database_url, places)) == list(range(1, RACERS))
    assert_whole(database_url)


async def _over_http(start: asyncio.Barrier, name: str, url: str) -> dict[str, Any]:
    headers = {"X-Warploom-Agent": name, "X-Warploom-Session": name}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE, verify=False) as client:
        await client.get("/health")
        await start.wait()
        answer = await client.post("/api/v1/tickets", json={"job": "train", "device": "0"})
        assert answer.status_code == 200, answer.text
        return answer.json()


async def _over_mcp(start: asyncio.Barrier, name: str, url: str) -> dict[str, Any]:
    headers = {"X-Warploom-Agent": name, "X-Warploom-Session": name}
    async with Client(StreamableHttpTransport(f"{url}/mcp", headers=headers)) as client:
        await start.wait()
        result = await client.call_tool("gpu_request", {"job": "train", "device": "0"})
        assert result.structured_content is not None
        return result.structured_content


async def test_agents_that_ask_and_leave_over_each_other_leave_the_queue_whole(serve: Serve, database_url: str) -> None:
    first, second = serve(2)
    Caller(first.url).survey(cards=2)
    start = asyncio.Barrier(16)

    async def come_and_go(number: int) -> list[int]:
        headers = {"X-Warploom-Agent": f"a{number}", "X-Warploom-Session": f"a{number}"}
        url = (first, second)[number % 2].url
        seen: list[int] = []
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE, verify=False) as client:
            await start.wait()
            for device in ("0", "any", "0,1"):
                asked = await client.post("/api/v1/tickets", json={"job": "train", "device": device})
                seen.append(asked.status_code)
                answer = asked.json()
                if answer["lease"]:
                    ended = await client.post(f"/api/v1/leases/{answer['lease']}/release")
                else:
                    ended = await client.delete(f"/api/v1/tickets/{answer['ticket']}")
                seen.append(ended.status_code)
        return seen

    statuses = Counter(status for seen in await asyncio.gather(*map(come_and_go, range(16))) for status in seen)
    assert statuses == {200: 96}
    assert_whole(database_url)
