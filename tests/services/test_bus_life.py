import asyncio
import gc

import pytest

from warploom.bus.hints import Bus


@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_a_bus_stops_at_whatever_point_of_connecting_it_is_told_to(redis_url: str, turns: int) -> None:
    bus = Bus(redis_url)
    await bus.start()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await bus.stop()


async def test_a_stopped_bus_leaves_no_connection_open(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # what others left behind speaks up before this one listens
    unraisable: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)
    bus = Bus(redis_url)
    await bus.start()
    bus.publish(["ticket:1"])
    await asyncio.sleep(0)
    await bus.stop()
    del bus
    gc.collect()
    assert unraisable == []
