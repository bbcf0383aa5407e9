from types import SimpleNamespace

import mcp_types as types
import pytest

from warploom.domain.errors import Unreachable
from warploom.stdio import waits
from warploom.stdio.upstream import NotSent

OFFERED = types.CallToolResult(content=[], structured_content={"state": "offered"})


class Hours:
    """A clock on which whatever waits spends no time of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("warploom.stdio.waits.time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr("warploom.stdio.waits.asyncio", SimpleNamespace(sleep=self.sleep))

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("held_seconds", [10.0, 59.0, 61.0, 7200.0])
async def test_a_wait_that_a_server_held_for_long_outlives_its_restart(
    monkeypatch: pytest.MonkeyPatch, held_seconds: float
) -> None:
    hours = Hours(monkeypatch)
    calls = 0

    async def send() -> types.CallToolResult:
        nonlocal calls
        calls += 1
        if calls == 1:
            hours.now += held_seconds
            raise Unreachable("The server was killed.", "Call again.")
        if calls < 5:
            raise NotSent("No server is there yet.", "Call again.")
        return OFFERED

    assert await waits.insist(send, {}) is OFFERED
    assert calls == 5


async def test_a_wait_that_no_server_ever_took_is_given_up_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = Hours(monkeypatch)

    async def send() -> types.CallToolResult:
        raise NotSent("No server is there.", "Start one.")

    with pytest.raises(NotSent):
        await waits.insist(send, {})
    assert 60 <= hours.now <= 90
