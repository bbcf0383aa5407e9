import asyncio

import pytest

from support.databases import Clock
from support.lab import Lab, lease_of, ticket_of
from support.locks import somebody_waits
from support.rows import Sql
from warploom.domain.errors import MalformedInput, NotFound
from warploom.domain.events import EventKind, EventView

START = "0-0"


async def kinds(lab: Lab, after: str = START) -> list[str]:
    lines, _ = await lab.app.events.page(after, 200)
    return [line.kind.value for line in lines]


async def test_each_change_writes_its_events_in_order(lab: Lab, clock: Clock) -> None:
    host = await lab.host(cards=1, interval=600)
    first, second = await lab.agent("claude-1"), await lab.agent("claude-2")
    lease = await lab.hold(first)
    waiting = await lab.request(second)
    await lab.app.leases.extend(first, lease, 5, "slow")
    await lab.app.leases.release(first, lease)
    await host.survey()
    await lab.app.leases.accept(second, lease_of(await lab.explain(second, waiting)))
    assert await kinds(lab) == [
        "host.found",
        "card.found",
        "session.started",
        "session.started",
        "ticket.queued",
        "lease.granted",
        "ticket.queued",
        "lease.extended",
        "lease.released",
        "card.condition",
        "lease.offered",
        "lease.delivered",
        "lease.accepted",
    ]


async def test_an_event_is_one_sentence_with_its_numbers(lab: Lab) -> None:
    await lab.host()
    await lab.hold(await lab.agent())
    lines, _ = await lab.app.events.page(START, 200)
    granted = lines[-1]
    assert granted.text == "claude-1 holds local/0 for 'train'"
    assert (granted.ticket, granted.lease, granted.session, granted.cards) == ("T-1", "L-1", "S-1", ["local/0"])


async def test_a_change_that_fails_leaves_no_event(lab: Lab) -> None:
    await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent, minutes=86_400)
    before = await kinds(lab)
    with pytest.raises(MalformedInput):
        await lab.app.leases.extend(agent, lease, 10, "beyond sixty days")
    assert await kinds(lab) == before


async def test_pages_go_on_from_their_cursor_without_gap_or_repetition(lab: Lab) -> None:
    host = await lab.host()
    agent = await lab.agent()
    for turn in range(6):
        await lab.app.leases.release(agent, await lab.hold(agent, purpose=f"{turn}"))
        await host.survey()
    whole, end = await lab.app.events.page(START, 200)
    cursor, walked = START, []
    while True:
        lines, cursor = await lab.app.events.page(cursor, 3)
        walked.extend(lines)
        if not lines:
            break
    assert walked == whole
    assert cursor == end
    latest, _ = await lab.app.events.page(None, 4)
    assert latest == whole[-4:]


async def test_a_page_of_a_session_has_only_its_own(lab: Lab) -> None:
    await lab.host()
    mine, other = await lab.agent("claude-1"), await lab.agent("claude-2")
    await lab.hold(mine, "0")
    await lab.hold(other, "1")
    lines, _ = await lab.app.events.page(START, 200, mine.session)
    assert {line.session for line in lines} == {"S-1"}
    assert len(lines) == 3


async def test_a_page_of_an_agent_has_what_it_did_what_became_of_its_own_and_what_it_wrote(lab: Lab) -> None:
    await lab.host()
    first, second = await lab.agent("claude-1"), await lab.agent("claude-2")
    await lab.app.leases.release(first, await lab.hold(first, "0"))
    await lab.hold(second, "1")
    await lab.app.messages.send(first, "claude-2", "hello")
    lines, end = await lab.app.events.page(START, 200, agent="claude-1")
    assert [line.kind.value for line in lines] == [
        "session.started",
        "ticket.queued",
        "lease.granted",
        "lease.released",
        "message.sent",
    ]
    latest, cursor = await lab.app.events.page(None, 2, agent="claude-1")
    assert (latest, cursor) == (lines[-2:], lines[-1].cursor)
    assert await kinds(lab, end) == await kinds(lab, cursor) == []


async def test_whoever_looks_for_their_own_lines_passes_those_of_others_once_and_misses_none(
    lab: Lab, sql: Sql
) -> None:
    await lab.agent("claude-1")
    _, start = await lab.app.events.page(START, 200, agent="claude-1")
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("insert into event (kind, facts) values ('host.silent', '{\"agent\": \"claude-1\"}')")
    await lab.agent("claude-2")
    lines, held = await lab.app.events.page(start, 200, agent="claude-1")
    assert lines == []

    await transaction.commit()

    lines, cursor = await lab.app.events.page(held, 200, agent="claude-1")
    assert [line.kind.value for line in lines] == ["host.silent"]
    assert await kinds(lab, cursor) == []
    assert await kinds(lab, start) == ["host.silent", "session.started"]


async def test_the_events_of_an_agent_that_is_none_are_refused_with_the_nearest_names(lab: Lab) -> None:
    await lab.agent("claude-1")
    await lab.app.events.check(None, "claude-1")
    with pytest.raises(NotFound, match="There is no agent 'claud'") as refusal:
        await lab.app.events.check(None, "claud")
    assert refusal.value.next_step == "Choose one of: claude-1."


async def test_a_row_that_commits_late_is_never_skipped(lab: Lab, sql: Sql) -> None:
    await lab.host()
    _, cursor = await lab.app.events.page(None, 1)
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("insert into event (kind, facts) values ('host.silent', '{\"host\": \"late\"}')")
    await lab.hold(await lab.agent())
    assert await kinds(lab, cursor) == []
    latest, _ = await lab.app.events.page(None, 1)
    assert latest[0].kind is EventKind.CARD_FOUND
    await transaction.commit()
    assert await kinds(lab, cursor) == ["host.silent", "session.started", "ticket.queued", "lease.granted"]


async def test_a_row_that_is_rolled_back_is_never_seen_and_holds_nobody_up(lab: Lab, sql: Sql) -> None:
    await lab.host()
    _, cursor = await lab.app.events.page(None, 1)
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("insert into event (kind) values ('host.silent')")
    await lab.agent()
    await transaction.rollback()
    assert await kinds(lab, cursor) == ["session.started"]


async def test_a_stream_without_a_cursor_begins_now(lab: Lab) -> None:
    await lab.host()
    await lab.hold(await lab.agent())
    stream = lab.app.events.follow(None)
    first = asyncio.ensure_future(anext(stream))
    await listening(lab)
    await lab.agent("claude-2")
    async with asyncio.timeout(20):
        assert (await first).text == "claude-2 started a session"
    await stream.aclose()


async def test_the_end_of_a_log_is_followed_only_by_later_commits(lab: Lab) -> None:
    await lab.host()
    _, cursor = await lab.app.events.page(None, 1)
    await lab.agent("claude-1")
    lines, end = await lab.app.events.page(None, 1)
    assert await kinds(lab, end) == []
    assert await kinds(lab, cursor) == ["session.started"]
    assert lines[0].kind is EventKind.SESSION_STARTED


async def test_a_stream_resumes_right_after_its_cursor(lab: Lab) -> None:
    await lab.host()
    lines, _ = await lab.app.events.page(START, 200)
    await lab.hold(await lab.agent())
    stream = lab.app.events.follow(lines[0].cursor)
    async with asyncio.timeout(20):
        seen = [await anext(stream) for _ in range(5)]
    await stream.aclose()
    assert [line.kind.value for line in seen] == [
        "card.found",
        "card.found",
        "session.started",
        "ticket.queued",
        "lease.granted",
    ]


async def test_a_stream_hears_of_each_change_in_the_order_of_the_log(lab: Lab, sql: Sql) -> None:
    """One transaction is held up in its commit while later ones overtake it."""
    host = await lab.host(cards=1)
    stream = lab.app.events.follow(None)
    seen: list[EventView] = []

    async def read() -> None:
        async for line in stream:
            seen.append(line)
            if line.kind is EventKind.LEASE_RELEASED:
                return

    reader = asyncio.create_task(read())
    await listening(lab)
    agent = await lab.agent()
    async with sql.transaction():
        await sql.execute("select id from card for no key update")
        request = asyncio.create_task(lab.request(agent))
        await somebody_waits(sql)
        await lab.agent("claude-2")
    await lab.app.leases.release(agent, lease_of(await request))
    await host.survey()
    async with asyncio.timeout(20):
        await reader
    await stream.aclose()
    log, _ = await lab.app.events.page(START, 200)
    assert seen == log[log.index(seen[0]) : log.index(seen[-1]) + 1]
    assert len(seen) == len({line.cursor for line in seen})


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "1",
        "1-",
        "-1",
        "1-2-3",
        "²-1",
        "1-²",
        "1-9223372036854775808",
        "9" * 30 + "-1",
        "\x00",
        "1-1; drop",
        "\ud800",
    ],
)
async def test_what_is_no_cursor_is_refused(lab: Lab, cursor: str) -> None:
    with pytest.raises(MalformedInput, match="is not a cursor") as refusal:
        await lab.app.events.page(cursor, 10)
    str(refusal.value).encode()


async def test_the_largest_cursors_are_read(lab: Lab) -> None:
    await lab.host()
    for cursor in ("9999999999999999999-9223372036854775807", "1--9223372036854775808"):
        await lab.app.events.page(cursor, 10)


async def test_a_silent_session_and_a_left_queue_are_told_too(lab: Lab, clock: Clock) -> None:
    await lab.host(interval=600)
    await lab.hold(await lab.agent("claude-1"))
    mine = await lab.agent("claude-2")
    await lab.app.tickets.leave(mine, ticket_of(await lab.request(mine)))
    clock.advance(minutes=11)
    await lab.duties()
    assert (await kinds(lab))[-2:] == ["ticket.left", "lease.expired"]


async def listening(lab: Lab) -> None:
    """Return once somebody listens to the bus and has read the end of the log."""
    async with asyncio.timeout(20):
        while lab.app.bus.health().listeners == 0:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.2)
