"""MIG: a GPU that is divided is leased in its instances, each with a queue of its own (casebook C04)."""

from dataclasses import replace

import pytest

from support.lab import Lab, LabHost, bus
from warploom.domain.cards import CardState
from warploom.domain.errors import Impossible
from warploom.domain.hosts import CardFact, CardFault
from warploom.domain.standings import Standing


async def divide(host: LabHost, place: int = 1, count: int = 3) -> None:
    """Turn MIG on: the driver lists the instances of a card in its place."""
    whole = host.cards[place]
    host.hidden.add(whole.index)
    host.cards += [
        replace(whole, uuid=f"MIG-{whole.index}-{number}", index=(place + 1) * 100 + number, parent_uuid=whole.uuid)
        for number in range(count)
    ]
    await host.survey()


async def states(lab: Lab) -> dict[str, CardState]:
    return {lane.card: lane.state for lane in (await lab.app.cards.survey()).hosts[0].cards}


async def test_the_divided_gpu_is_not_leasable_and_each_instance_is(lab: Lab) -> None:
    host = await lab.host()
    await divide(host)
    assert await states(lab) == {
        "local/0": CardState.FREE,
        "local/1": CardState.GONE,
        "local/200": CardState.FREE,
        "local/201": CardState.FREE,
        "local/202": CardState.FREE,
    }
    with pytest.raises(Impossible) as refused:
        await lab.request(await lab.agent(), device="1")
    assert "local/1 cannot be leased: it is divided into the MIG instances 200, 201 and 202." in refused.value.cause
    one, two = await lab.request(await lab.agent()), await lab.request(await lab.agent("claude-2"), device="201")
    assert (one.state, two.state) == (Standing.ACTIVE, Standing.ACTIVE)
    assert two.export is not None
    assert two.export["CUDA_VISIBLE_DEVICES"] == "MIG-1-1"
    waiting = await lab.request(await lab.agent("claude-3"), device="201")
    assert (waiting.state, waiting.place) == (Standing.QUEUED, 1)


async def test_a_gpu_that_was_divided_before_anybody_saw_it_whole_is_explained_by_its_name(lab: Lab) -> None:
    facts = [
        CardFact(f"MIG-{number}", 100 + number, "H200 MIG 3g", 70_000, bus(0), "GPU-whole", used_mib=5)
        for number in (0, 2)
    ]
    await LabHost(lab.app, "local", facts, 60.0).survey()
    for name in ("0", "GPU-whole"):
        with pytest.raises(Impossible) as refused:
            await lab.request(await lab.agent(), device=name)
        assert "is divided into MIG instances, which are leased one by one" in refused.value.cause
        assert refused.value.next_step == "Ask for one of them: local/100 and local/102."


async def test_several_instances_in_one_request_are_refused_with_the_reason(lab: Lab) -> None:
    host = await lab.host()
    await divide(host)
    for wish in ({"device": "200,201"}, {"device": "0,200"}):
        with pytest.raises(Impossible) as refused:
            await lab.request(await lab.agent(), **wish)
        assert "a process can use only one MIG instance" in refused.value.cause
    with pytest.raises(Impossible) as refused:
        await lab.request(await lab.agent(), device="any", cards=2)
    assert refused.value.cause == "No host has 2 such cards; the most on one host is 1."


async def test_numbers_are_refused_for_instances_and_for_what_follows_them_on_the_bus(lab: Lab) -> None:
    host = await lab.host(cards=3)
    await divide(host)
    agent = await lab.agent()
    for device, mask in (("0", "0"), ("200", "MIG-1-0"), ("2", "GPU-local-0002")):
        answer = await lab.request(agent, device, device=device, env_style="index")
        assert answer.export is not None
        assert answer.export["CUDA_VISIBLE_DEVICES"] == mask
        assert (answer.export_note is None) == (device == "0")


async def test_a_gpu_that_is_whole_again_comes_back_and_its_instances_are_forgotten(lab: Lab) -> None:
    host = await lab.host()
    await divide(host)
    held = await lab.request(await lab.agent(), device="202")
    host.hidden = {200, 201, 202}
    await host.survey()
    assert await states(lab) == {
        "local/0": CardState.FREE,
        "local/1": CardState.FREE,
        "local/202": CardState.GONE,
    }
    assert (await lab.explain(await lab.agent(), held)).state is Standing.ACTIVE


async def test_an_index_is_exported_only_where_the_order_of_the_bus_is_certain(lab: Lab) -> None:
    """Casebook C03."""
    host = await lab.host(cards=3)
    agent = await lab.agent()
    sure = await lab.request(agent, "before", device="2", env_style="index")
    host.report(1, fault=CardFault.LOST)
    await host.survey()
    unsure = await lab.explain(agent, sure)
    assert sure.export is not None
    assert unsure.export is not None
    assert (sure.export["CUDA_VISIBLE_DEVICES"], unsure.export["CUDA_VISIBLE_DEVICES"]) == ("2", "GPU-local-0002")
    assert "is uncertain" in (unsure.export_note or "")
