"""The tools over HTTP, from a real MCP client to a real server process: the whole way of a card between agents."""

import asyncio
import re
from collections.abc import Generator
from typing import Any

import pytest
from tools import agent_at

from support.invariants import ask, assert_whole
from support.serving import Caller, ServerProcess, StartCommand, eventually, server_processes

NOTHING = {"leases": [], "tickets": []}
ONE_SENTENCE_EACH = re.compile(r"[a-z_]+: [^\n]+[.?!] [^\n]+\.")


@pytest.fixture(scope="module")
def server(
    module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ServerProcess]:
    """One server for this module; each test brings a host of its own."""
    with server_processes(
        tmp_path_factory.mktemp("server"), {"database_url": module_database_url, "redis_url": redis_url}
    ) as every:
        yield every[0]


@pytest.fixture
def host(server: ServerProcess) -> Generator[Caller]:
    """Whoever surveys in a host agent's place."""
    caller = Caller(server.url)
    yield caller
    caller.close()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_card_goes_from_agent_to_agent_and_loom_me_tells_the_truth_at_each_step(
    server: ServerProcess, host: Caller, command: StartCommand, module_database_url: str, mode: str
) -> None:
    name = f"walk-{mode}"
    card = f"{name}/0"
    host.survey(name)
    async with (
        agent_at(server.url, f"{name}-1", mode=mode) as first,
        agent_at(server.url, f"{name}-2", mode=mode) as second,
        agent_at(server.url, f"{name}-3", mode=mode) as third,
    ):
        lane = next(lane for lane in (await first.call("gpu_survey"))["cards"] if lane["card"] == card)
        assert (lane["state"], len(lane["uuid"])) == ("free", 12)
        assert [await each.standing() for each in (first, second, third)] == [NOTHING] * 3

        held = await first.call("gpu_request", job="train", device=card, minutes=30)
        assert (held["state"], held["card"], held["export"]["WARPLOOM_LEASE"]) == ("active", card, held["lease"])
        assert await first.standing() == {"leases": [(held["lease"], "active")], "tickets": []}

        queued = await second.call("gpu_request", job="eval", device=card, minutes=5)
        later = await third.call("gpu_request", job="plot", device=card)
        assert [(each["state"], each["place"]) for each in (queued, later)] == [("queued", 1), ("queued", 2)]
        assert queued["reason"].startswith(f"{card} is held by {held['lease']} 'train' ({name}-1)")
        assert (queued["eta_source"], later["eta_source"]) == ("declared", "declared")
        assert await second.standing() == {"leases": [], "tickets": [(queued["ticket"], "queued")]}
        again = await second.call("gpu_request", job="eval", device=card)
        assert (again["ticket"], again["deduplicated"]) == (queued["ticket"], True)

        waiter = command("wait", queued["ticket"], url=server.url, session=f"{name}-2")
        await asyncio.to_thread(eventually, lambda: host.listeners() == 1)
        assert (await first.call("gpu_release", lease=held["lease"]))["state"] == "ended"
        assert await first.standing() == NOTHING
        host.survey(name)
        status, printed, _ = await asyncio.to_thread(waiter.finish)
        lease = (await second.call("loom_me"))["leases"][0]["lease"]
        assert status == 0
        assert re.search(rf"^export .*WARPLOOM_LEASE={lease}\b", printed, re.MULTILINE)
        assert await second.standing() == {"leases": [(lease, "offered")], "tickets": []}

        assert (await second.call("gpu_report", lease=lease, step=10, total=100))["state"] == "active"
        assert await second.standing() == {"leases": [(lease, "active")], "tickets": []}
        reported = await second.call("gpu_report", lease=lease, step=40, total=100)
        assert (reported["step"], reported["total"], reported["eta_source"]) == (40, 100, "measured")
        extended = await second.call("gpu_extend", lease=lease, minutes=20, reason="slow data")
        assert extended["state"] == "active"
        assert (await third.call("gpu_explain", ticket=later["ticket"]))["eta_source"] == "measured"

        lost = await first.refusal("gpu_report", lease=held["lease"], step=1)
        assert lost.startswith("lease_lost: ")
        assert "its holder released it" in lost
        assert f"{card} is now held by {lease} ({name}-2)" in lost

        assert (await second.call("gpu_release", lease=lease))["state"] == "ended"
        assert (await second.call("gpu_release", lease=lease))["state"] == "ended"
        assert await second.standing() == NOTHING
        host.survey(name)
        assert [state for _, state in (await third.standing())["leases"]] == ["offered"]
    assert_whole(module_database_url)


async def test_an_expired_lease_is_lost_with_its_fate_and_the_missed_offer_is_told(
    server: ServerProcess, host: Caller, module_database_url: str
) -> None:
    host.survey("late")
    async with agent_at(server.url, "late-1") as first, agent_at(server.url, "late-2") as second:
        held = await first.call("gpu_request", job="train", device="late/0")
        queued = await second.call("gpu_request", job="eval", device="late/0")
        ask(module_database_url, "update lease set expires_at = clock_now() where id = $1", int(held["lease"][2:]))
        await asyncio.to_thread(eventually, lambda: _state(module_database_url, held["lease"]) == "ended")
        lost = await first.refusal("gpu_extend", lease=held["lease"], minutes=5, reason="slow")
        assert "its holder was silent for a whole lease time" in lost
        assert await first.standing() == NOTHING

        host.survey("late")
        offer = (await second.call("loom_me"))["leases"][0]["lease"]
        ask(module_database_url, "update lease set expires_at = clock_now() where id = $1", int(offer[2:]))
        await asyncio.to_thread(eventually, lambda: _state(module_database_url, offer) == "ended")
        answer = await second.call("gpu_survey")
        assert [line for line in answer["notices"] if offer in line and queued["ticket"] in line]
        missed = await second.refusal("gpu_report", lease=offer, step=1)
        assert missed.startswith(f"lease_lost: {offer} ended")
    assert_whole(module_database_url)


async def test_a_model_reads_what_is_reserved_where_it_looks_and_where_it_asks(
    server: ServerProcess, host: Caller, module_database_url: str
) -> None:
    """Casebook C41."""
    host.survey("booked")
    ada = Caller(server.url, "booked-ada")
    made = ada.post("/reservations", card="booked/0", minutes=60, title="sweep")["reservation"]
    async with agent_at(server.url, "booked-1") as agent:
        lane = next(lane for lane in (await agent.call("gpu_survey"))["cards"] if lane["card"] == "booked/0")
        assert (lane["state"], lane["reservations"][0]["reservation"]) == ("reserved", made["reservation"])
        queued = await agent.call("gpu_request", job="eval", device="booked/0")
        assert queued["reason"].startswith("booked/0 is reserved for booked-ada until ")
        told = await agent.call("gpu_explain", ticket=queued["ticket"])
        assert told["chain"] == [queued["reason"]]
    waiter = Caller(server.url, "booked-1")
    waiter.http.delete(f"/api/v1/tickets/{queued['ticket']}").raise_for_status()
    held = ada.request("mine", "booked/0")
    assert held["state"] == "active"
    ada.release(held["lease"])
    ada.http.delete(f"/api/v1/reservations/{made['reservation']}").raise_for_status()
    waiter.close()
    ada.close()
    assert_whole(module_database_url)


async def test_a_reason_has_the_same_words_at_every_door(
    server: ServerProcess, host: Caller, command: StartCommand, module_database_url: str
) -> None:
    """Casebook C42."""
    host.survey("words")
    holder, waiter = Caller(server.url, "words-1"), Caller(server.url, "words-2")
    held = holder.request("train", "words/0", minutes=30)
    async with agent_at(server.url, "words-2") as agent:
        queued = await agent.call("gpu_request", job="eval", device="words/0")
        explained = await agent.call("gpu_explain", ticket=queued["ticket"])
    reason = queued["reason"]
    assert (explained["reason"], explained["place"], explained["eta_source"]) == (reason, 1, "declared")
    assert waiter.get(f"/tickets/{queued['ticket']}")["reason"] == reason
    status, printed, _ = command("explain", queued["ticket"], url=server.url).finish()
    assert (status, reason in printed) == (0, True)
    assert [ticket["reason"] for ticket in waiter.get("/me")["tickets"]] == [reason]
    waiter.http.delete(f"/api/v1/tickets/{queued['ticket']}").raise_for_status()
    holder.release(held["lease"])
    waiter.close()
    holder.close()
    assert_whole(module_database_url)


async def test_a_model_reads_how_far_an_estimate_can_be_trusted(
    server: ServerProcess, host: Caller, module_database_url: str
) -> None:
    """Casebook C43."""
    ask(module_database_url, "delete from promise")
    host.survey("trust")
    holder = Caller(server.url, "trust-1")
    held = holder.request("trusted", "trust/0", minutes=30)
    async with agent_at(server.url, "trust-2") as agent, agent_at(server.url, "trust-3") as other:
        await agent.call("gpu_request", job="trusting", device="trust/0", minutes=5)
        assert "eta_trust" not in await agent.call("gpu_survey")
        holder.release(held["lease"])
        host.survey("trust")
        offer = (await agent.call("loom_me"))["leases"][0]["lease"]
        await agent.call("gpu_extend", lease=offer, minutes=20, reason="slow data")
        queued = await other.call("gpu_request", job="plot", device="trust/0")
        explained = await other.call("gpu_explain", ticket=queued["ticket"])
        assert explained["eta_trust"] == "declared starts: 100 % on time"
        assert explained["p50"] == explained["p90"]
        assert (await other.call("gpu_survey"))["eta_trust"] == ["declared starts: 100 % on time"]
    records = {(each["foretold"], each["word"]): each for each in holder.get("/calibration")["records"]}
    assert records["start", "declared"]["late_minutes"] < 0
    assert records["end", "declared"]["count"] == 1
    holder.close()
    assert_whole(module_database_url)


def _state(database: str, lease: str) -> str:
    return ask(database, "select state::text from lease where id = $1", int(lease[2:]))[0]["state"]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("gpu_request", {}, "job"),
    ("gpu_request", {"job": ""}, "empty"),
    ("gpu_request", {"job": "\x00\x1b\n"}, "empty"),
    ("gpu_request", {"job": "x" * 1_000_000}, "1,000,000 characters"),
    ("gpu_request", {"job": ["train"]}, "job"),
    ("gpu_request", {"job": "train", "device": "\x00"}, "no card"),
    ("gpu_request", {"job": "train", "device": "<script>alert(1)</script>"}, "no card"),
    ("gpu_request", {"job": "train", "device": "wrong/99"}, "no card"),
    ("gpu_request", {"job": "train", "device": ""}, "No card"),
    ("gpu_request", {"job": "train", "device": "," * 10_000}, "No card"),
    ("gpu_request", {"job": "train", "cards": 0}, "0 cards"),
    ("gpu_request", {"job": "train", "cards": 10**30}, "cards"),
    ("gpu_request", {"job": "train", "minutes": -5}, "-5 minutes"),
    ("gpu_request", {"job": "train", "minutes": 1e-12}, "minutes"),
    ("gpu_request", {"job": "train", "minutes": 1e300}, "minutes"),
    ("gpu_request", {"job": "train", "memory_gib": -1}, "-1 GiB"),
    ("gpu_request", {"job": "train", "memory_gib": 0}, "0 GiB"),
    ("gpu_request", {"job": "train", "memory_gib": 4_000}, "No card has 4000 GiB"),
    ("gpu_request", {"job": "train", "model": "x" * 1_000}, "model"),
    ("gpu_request", {"job": "train", "model": "Voodoo2"}, "Voodoo2"),
    ("gpu_request", {"job": "train", "priority": "highest"}, "priority"),
    ("gpu_request", {"job": "train", "env_style": "cuda"}, "style"),
    ("gpu_request", {"job": "train", "purpose": "x" * 1_000_000}, "purpose"),
    ("gpu_request", {"job": "train", "gpu": 0}, "gpu"),
    ("gpu_release", {"lease": "L-x"}, "'L-x' is not a lease"),
    ("gpu_release", {"lease": "T-1"}, "'T-1' is not a lease"),
    ("gpu_release", {"lease": "L-999999"}, "no lease L-999999"),
    ("gpu_release", {"lease": "L-99999999999999999999"}, "is not a lease"),
    ("gpu_release", {"lease": "L-" + "9" * 10_000}, "is not a lease"),
    ("gpu_release", {"lease": "L-1", "error": "it broke", "failure_class": "sabotage"}, "is not a class of failure"),
    ("gpu_release", {"lease": "L-1", "failure_class": "infra"}, "but no error"),
    ("gpu_extend", {"lease": "L-1", "minutes": 5}, "reason"),
    ("gpu_extend", {"lease": "L-1", "minutes": 0, "reason": "x"}, "0 minutes"),
    ("gpu_report", {"lease": "L-1", "step": -1}, "-1"),
    ("gpu_report", {"lease": "L-1", "step": "many"}, "step"),
    ("gpu_report", {"lease": "L-1", "step": 10**40}, "step"),
    ("gpu_report", {"lease": "L-1", "step": 1, "total": 0}, "total of 0"),
    ("gpu_explain", {"ticket": "'; drop table task; --"}, "is not a ticket"),
    ("gpu_explain", {"ticket": "T-999999"}, "no ticket T-999999"),
    ("gpu_fly", {}, "gpu_fly"),
]


async def test_wrong_arguments_get_one_sentence_and_leave_nothing(
    server: ServerProcess, host: Caller, module_database_url: str
) -> None:
    host.survey("wrong")
    async with agent_at(server.url, "wrong") as agent:
        await agent.call("loom_me")
        before = _stored(module_database_url)
        told = [await agent.refusal(tool, **arguments) for tool, arguments, _ in WRONG]
    unfit = [
        (tool, text[:500])
        for (tool, _, named), text in zip(WRONG, told, strict=True)
        if named not in text or not ONE_SENTENCE_EACH.fullmatch(text) or len(text) > 500
    ]
    assert unfit == []
    assert _stored(module_database_url) == before


def _stored(database: str) -> list[dict[str, Any]]:
    counts = ", ".join(f"(select count(*) from {table}) as {table}s" for table in ("task", "lease", "queue", "event"))
    return ask(database, f"select {counts}")
