import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from support.databases import Clock
from support.lab import Lab, LabHost, lease_of, ticket_of
from support.locks import until
from support.proxy import Proxy
from support.rows import Sql
from support.servers import temporary_home
from warploom.app import App
from warploom.bus import hints
from warploom.bus.hints import POLL_SECONDS, BusState
from warploom.domain.errors import NotFound
from warploom.domain.health import Word
from warploom.domain.identifiers import LeaseId, TaskId
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer
from warploom.embedded.valkey import Valkey
from warploom.services.backstop import Backstop

OpenApp = Callable[..., Awaitable[App]]
WAKE_BOUND = 5.0


@pytest.fixture
def valkey() -> Generator[Valkey]:
    """A Valkey of the test's own, which it may stop and start."""
    with ExitStack() as stack:
        valkey = Valkey(temporary_home(stack))
        valkey.start()
        stack.callback(valkey.stop)
        yield valkey


@pytest.fixture
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing but a hint wake anybody."""

    async def look(_: Backstop) -> None:
        return

    monkeypatch.setattr(Backstop, "look", look)


async def queued(lab: Lab) -> tuple[LabHost, Actor, LeaseId, Actor, TicketAnswer]:
    host = await lab.host(cards=1)
    holder, mine = await lab.agent("claude-1"), await lab.agent("claude-2")
    lease = await lab.hold(holder)
    return host, holder, lease, mine, await lab.request(mine)


async def connected(app: App) -> None:
    async def is_connected() -> bool:
        return app.bus.health().state is BusState.CONNECTED

    await until(is_connected)


async def waits(app: App, mine: Actor, ticket: TicketAnswer) -> asyncio.Task[TicketAnswer]:
    """Begin to wait, and return once the waiter listens."""
    before = app.bus.health().listeners
    waiter = asyncio.create_task(app.tickets.wait(mine, ticket_of(ticket), 55))

    async def listens() -> bool:
        return app.bus.health().listeners > before

    await until(listens)
    return waiter


async def free(lab: Lab, host: LabHost, holder: Actor, lease: LeaseId) -> None:
    await lab.app.leases.release(holder, lease)
    await host.survey()


async def test_a_waiter_at_another_server_is_woken_by_a_hint(lab: Lab, open_app: OpenApp, no_poll: None) -> None:
    other = await open_app()
    await connected(lab.app)
    await connected(other)
    host, holder, lease, mine, ticket = await queued(lab)
    waiter = await waits(other, mine, ticket)
    await free(lab, host, holder, lease)
    async with asyncio.timeout(20):
        answer = await waiter
    assert (answer.state, answer.lease) == (Standing.OFFERED, "L-2")


async def test_a_waiter_at_the_same_server_is_woken_without_any_redis(open_app: OpenApp, no_poll: None) -> None:
    lab = Lab(await open_app(redis_url="none"))
    assert lab.app.bus.health().state is BusState.ABSENT
    host, holder, lease, mine, ticket = await queued(lab)
    waiter = await waits(lab.app, mine, ticket)
    await free(lab, host, holder, lease)
    async with asyncio.timeout(20):
        assert (await waiter).state is Standing.OFFERED


async def test_a_waiter_at_another_server_is_woken_within_five_seconds_though_redis_is_stopped(
    open_app: OpenApp, valkey: Valkey
) -> None:
    apps = [await open_app(redis_url=valkey.url) for _ in range(2)]
    for app in apps:
        await connected(app)
    lab = Lab(apps[0])
    host, holder, lease, mine, ticket = await queued(lab)
    waiter = await waits(apps[1], mine, ticket)
    valkey.stop()
    await free(lab, host, holder, lease)
    async with asyncio.timeout(WAKE_BOUND):
        assert (await waiter).state is Standing.OFFERED
    assert POLL_SECONDS < WAKE_BOUND


async def test_the_doctor_says_that_redis_is_stopped_and_that_it_is_back(open_app: OpenApp, valkey: Valkey) -> None:
    app = await open_app(redis_url=valkey.url)
    await connected(app)

    async def bus_check() -> tuple[Word, str]:
        return next((check.word, check.text) for check in await app.health.doctor() if check.name == "bus")

    assert (await bus_check())[0] is Word.OK
    valkey.stop()

    async def is_broken() -> bool:
        return app.bus.health().state is BusState.BROKEN

    await until(is_broken)
    word, text = await bus_check()
    assert word is Word.WARN
    assert "wakes come within 3 s instead of at once" in text
    valkey.start()
    await connected(app)
    assert (await bus_check())[0] is Word.OK


async def test_a_redis_that_stays_silent_is_told_from_one_that_is_quiet_and_hints_flow_again_after_it(
    open_app: OpenApp, redis_url: str, no_poll: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Casebook C68: half-open connections, one that hears and one that sends, are found by a question that stays unanswered."""
    monkeypatch.setattr(hints, "_PING_SECONDS", 0.2)
    lost = Proxy(redis_url)
    try:
        apps = [await open_app(redis_url=lost.url) for _ in range(2)]
        for app in apps:
            await connected(app)
        lab = Lab(apps[0])
        host, holder, lease, mine, ticket = await queued(lab)
        waiter = await waits(apps[1], mine, ticket)
        lost.black_hole()

        async def are_broken() -> bool:
            return all(app.bus.health().state is BusState.BROKEN for app in apps)

        await until(are_broken)
        await free(lab, host, holder, lease)
        assert not waiter.done()
        lost.restore()
        async with asyncio.timeout(20):
            assert (await waiter).state is Standing.OFFERED
        for app in apps:
            await connected(app)
    finally:
        lost.close()


async def test_a_redis_that_answers_and_passes_nothing_on_is_no_connection(open_app: OpenApp, valkey: Valkey) -> None:
    """Casebook C68: what counts is that hints get through, not that somebody answers."""
    app = await open_app(redis_url=valkey.url)
    await connected(app)
    client = redis.Redis.from_url(valkey.url)
    client.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
    app.bus.publish(["events"])

    async def is_broken() -> bool:
        return app.bus.health().state is BusState.BROKEN

    await until(is_broken)
    await app.health.doctor()
    assert client.ping()
    client.execute_command("CLIENT", "UNPAUSE")
    client.close()
    await connected(app)


async def test_hints_flow_again_once_redis_is_back(open_app: OpenApp, valkey: Valkey, no_poll: None) -> None:
    apps = [await open_app(redis_url=valkey.url) for _ in range(2)]
    lab = Lab(apps[0])
    host, holder, lease, mine, ticket = await queued(lab)
    valkey.stop()
    valkey.start()
    for app in apps:
        await connected(app)
    waiter = await waits(apps[1], mine, ticket)
    await free(lab, host, holder, lease)
    async with asyncio.timeout(20):
        assert (await waiter).state is Standing.OFFERED


async def test_a_reconnected_bus_wakes_everybody_to_look_for_what_it_missed(
    open_app: OpenApp, valkey: Valkey, no_poll: None
) -> None:
    apps = [await open_app(redis_url=valkey.url) for _ in range(2)]
    for app in apps:
        await connected(app)
    lab = Lab(apps[0])
    host, holder, lease, mine, ticket = await queued(lab)
    waiter = await waits(apps[1], mine, ticket)
    valkey.stop()
    await free(lab, host, holder, lease)
    valkey.start()
    async with asyncio.timeout(20):
        assert (await waiter).state is Standing.OFFERED


async def test_a_server_starts_and_serves_without_the_redis_it_was_told_of(open_app: OpenApp, tmp_path: Path) -> None:
    lab = Lab(await open_app(redis_url=f"unix://{tmp_path}/nothing.sock"))
    await lab.host()
    assert (await lab.request(await lab.agent())).state is Standing.ACTIVE
    assert lab.app.bus.health().state is BusState.BROKEN


async def test_waiters_hold_no_database_connection(open_app: OpenApp, sql: Sql) -> None:
    lab = Lab(await open_app(pool_size=2))
    host, holder, lease, mine, ticket = await queued(lab)
    waiters = [await waits(lab.app, mine, ticket) for _ in range(40)]
    streams = [lab.app.events.follow(None) for _ in range(10)]
    readers = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await free(lab, host, holder, lease)
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*waiters)
        await asyncio.gather(*readers)
    assert {answer.lease for answer in answers} == {"L-2"}
    used = "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'warploom'"
    assert await sql.fetchval(used) <= 2
    for stream in streams:
        await stream.aclose()
    assert lab.app.bus.health().listeners == 0


async def test_waiting_for_what_does_not_wait_returns_at_once(lab: Lab, no_poll: None) -> None:
    await lab.host()
    mine = await lab.agent()
    held = await lab.request(mine)
    async with asyncio.timeout(20):
        assert (await lab.app.tickets.wait(mine, ticket_of(held), 55)).state is Standing.ACTIVE
        await lab.app.leases.release(mine, lease_of(held))
        assert (await lab.app.tickets.wait(mine, ticket_of(held), 55)).state is Standing.ENDED
        with pytest.raises(NotFound, match="There is no ticket T-99"):
            await lab.app.tickets.wait(mine, TaskId(99), 55)


@pytest.mark.parametrize("seconds", [0, -1, float("-inf"), float("nan"), 1e-9])
async def test_waiting_no_time_at_all_is_a_look(lab: Lab, no_poll: None, seconds: float) -> None:
    *_, mine, ticket = await queued(lab)
    async with asyncio.timeout(20):
        assert (await lab.app.tickets.wait(mine, ticket_of(ticket), seconds)).state is Standing.QUEUED


async def test_a_waiter_learns_that_its_ticket_left_the_queue(lab: Lab, no_poll: None) -> None:
    *_, mine, ticket = await queued(lab)
    waiter = await waits(lab.app, mine, ticket)
    await lab.app.tickets.leave(mine, ticket_of(ticket))
    async with asyncio.timeout(20):
        assert (await waiter).state is Standing.ENDED


async def test_a_waiter_stays_while_only_its_place_changes(lab: Lab, no_poll: None) -> None:
    _, _, _, first, ticket = await queued(lab)
    second = await lab.agent("claude-3")
    behind = await lab.request(second)
    waiter = await waits(lab.app, second, behind)
    await lab.app.tickets.leave(first, ticket_of(ticket))
    assert (await lab.explain(second, behind)).place == 1
    assert not waiter.done()
    await lab.app.tickets.leave(second, ticket_of(behind))
    async with asyncio.timeout(20):
        await waiter


async def test_a_waiter_is_let_go_when_its_server_stops(lab: Lab, no_poll: None) -> None:
    *_, mine, ticket = await queued(lab)
    waiter = await waits(lab.app, mine, ticket)
    lab.app.bus.hang_up()
    async with asyncio.timeout(20):
        assert (await waiter).state is Standing.QUEUED


async def test_a_host_is_asked_for_a_look_by_a_release_at_another_server(lab: Lab, open_app: OpenApp) -> None:
    other = await open_app()
    await connected(lab.app)
    await connected(other)
    _, holder, lease, *_ = await queued(lab)
    order = asyncio.create_task(other.hosts.orders("local", 55))

    async def listens() -> bool:
        return other.bus.health().listeners == 1

    await until(listens)
    await lab.app.leases.release(holder, lease)
    async with asyncio.timeout(20):
        assert (await order).survey


async def test_a_host_that_asks_after_a_release_is_told_at_once(lab: Lab) -> None:
    host, holder, lease, *_ = await queued(lab)
    await lab.app.leases.release(holder, lease)
    async with asyncio.timeout(20):
        assert (await lab.app.hosts.orders("local", 55)).survey
        await host.survey()
        assert not (await lab.app.hosts.orders("local", 0)).survey


async def test_an_expiry_asks_for_a_look_too(lab: Lab, clock: Clock) -> None:
    await queued(lab)
    clock.advance(minutes=11)
    await lab.duties()
    assert (await lab.app.hosts.orders("local", 0)).survey
