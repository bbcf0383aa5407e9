import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any

import asyncpg
import pytest

from support.databases import Clock
from support.graphs import finish, give_up, lease_number, make, state_of, task_number
from support.invariants import broken_rules
from support.lab import Lab
from support.locks import somebody_waits
from support.rows import Sql
from warploom.app import App
from warploom.domain.errors import Collision, LeaseLost, NotReady, WarploomError
from warploom.domain.failures import FailureClass
from warploom.domain.identifiers import TaskId
from warploom.domain.sessions import Actor
from warploom.domain.tasks import NeedsWish, TaskChanges, TaskState, TaskWish
from warploom.orchestrator.lease_reaper import run_once as reap
from warploom.services.changes import repeated

OpenApp = Callable[..., Awaitable[App]]
Race = Callable[..., Awaitable[list[Any]]]
LOCK = "select id from task where id = $1 for no key update"


@pytest.fixture
async def ada(lab: Lab) -> Actor:
    return await lab.agent("ada")


@pytest.fixture
async def boss(lab: Lab) -> Actor:
    return await lab.operator()


@pytest.fixture
async def race(sql: Sql) -> AsyncGenerator[Race]:
    """Start changes one after the other, each once the ones before it wait for a task's row; let them all go at once."""

    async def run(task: TaskId, *changes: Callable[[], Awaitable[Any]]) -> list[Any]:
        async with sql.transaction():
            await sql.execute(LOCK, task)
            racing: list[asyncio.Task[Any]] = []
            for many, change in enumerate(changes, 1):
                racing.append(asyncio.create_task(settled(change())))
                await somebody_waits(sql, many=many)
        return await asyncio.gather(*racing)

    yield run
    assert await broken_rules(sql) == {}


async def settled(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except WarploomError as refusal:
        return refusal


async def is_free(url: str, task: TaskId) -> bool:
    """Say whether nobody holds a task's row."""
    other = await asyncpg.connect(url)
    try:
        await other.execute("select id from task where id = $1 for update nowait", task)
    except asyncpg.LockNotAvailableError:
        return False
    finally:
        await other.close()
    return True


@pytest.mark.parametrize("is_finished_first", [True, False])
async def test_an_upstream_that_is_finished_while_it_is_left_out_counts_once(
    lab: Lab, ada: Actor, race: Race, is_finished_first: bool
) -> None:
    left, kept = await make(lab, ada, "left out"), await make(lab, ada, "kept")
    waiting = await make(lab, ada, "waiting", left, kept)
    await lab.app.claims.claim(ada, left)
    done = partial(lab.app.claims.done, ada, left, None)
    relink = partial(lab.app.tasks.update, ada, waiting, TaskChanges(depends_on=[f"T-{kept}"]))
    await race(waiting, *((done, relink) if is_finished_first else (relink, done)))
    assert await state_of(lab, ada, waiting) is TaskState.PENDING
    await finish(lab, ada, kept)
    assert await state_of(lab, ada, waiting) is TaskState.READY


async def test_two_upstreams_finished_at_once_on_two_servers_free_all_that_waits_for_both(
    lab: Lab, open_app: OpenApp, ada: Actor, race: Race, sql: Sql
) -> None:
    other = await open_app(redis_url="none")
    one, two = await make(lab, ada, "one"), await make(lab, ada, "two")
    waiting = [await make(lab, ada, f"waiting {place}", one, two) for place in range(3)]
    for task in (one, two):
        await lab.app.claims.claim(ada, task)
    await race(waiting[1], partial(lab.app.claims.done, ada, one, None), partial(other.claims.done, ada, two, None))
    assert {await state_of(lab, ada, task) for task in waiting} == {TaskState.READY}
    assert await sql.fetchval("select count(*) from event where kind = 'task.unblocked'") == 1


async def test_what_is_created_behind_a_task_that_is_being_finished_is_ready(lab: Lab, ada: Actor, race: Race) -> None:
    one = await make(lab, ada, "one")
    await lab.app.claims.claim(ada, one)
    _, created = await race(
        one,
        partial(lab.app.claims.done, ada, one, None),
        partial(lab.app.tasks.create, ada, TaskWish("two", depends_on=[f"T-{one}"])),
    )
    assert created.state is TaskState.READY


async def test_a_task_that_is_created_locks_its_epic_after_what_it_depends_on(
    lab: Lab, ada: Actor, sql: Sql, database_url: str
) -> None:
    """Whoever finishes a task of the epic has that task first and then the epic."""
    epic = await make(lab, ada, "epic", kind="epic")
    child = await make(lab, ada, "child", parent_id=f"T-{epic}")
    async with sql.transaction():
        await sql.execute(LOCK, child)
        creating = asyncio.create_task(
            lab.app.tasks.create(ada, TaskWish("next", parent_id=f"T-{epic}", depends_on=[f"T-{child}"]))
        )
        await somebody_waits(sql)
        assert await is_free(database_url, epic)
    assert (await creating).state is TaskState.PENDING


async def test_a_task_that_needs_a_card_is_locked_after_the_card(
    lab: Lab, ada: Actor, sql: Sql, database_url: str
) -> None:
    await lab.host(cards=1)
    task = await make(lab, ada, "training", needs=NeedsWish(device="local/0"))
    async with sql.transaction():
        await sql.execute("select id from card for no key update")
        claiming = asyncio.create_task(lab.app.claims.claim(ada, task))
        await somebody_waits(sql)
        assert await is_free(database_url, task)
    assert (await claiming).claims


async def test_an_epic_that_is_cancelled_takes_the_task_with_it_that_is_being_claimed(
    lab: Lab, ada: Actor, boss: Actor, race: Race
) -> None:
    epic = await make(lab, ada, "epic", kind="epic")
    child = await make(lab, ada, "child", parent_id=f"T-{epic}")
    claimed, _ = await race(
        child, partial(lab.app.claims.claim, ada, child), partial(lab.app.repairs.cancel, boss, epic)
    )
    lease = lease_number(claimed.claims[0].lease)
    assert [await state_of(lab, ada, task) for task in (epic, child)] == [TaskState.CANCELLED] * 2
    assert isinstance(await settled(lab.app.claims.done(ada, child, lease)), LeaseLost)


async def test_a_cancelled_epic_is_not_done_because_its_last_task_is_cancelled_with_it(
    lab: Lab, ada: Actor, boss: Actor
) -> None:
    epic = await make(lab, ada, "epic", kind="epic")
    child = await make(lab, ada, "child", parent_id=f"T-{epic}")
    await lab.app.claims.claim(ada, child)
    await lab.app.repairs.cancel(boss, epic)
    assert [await state_of(lab, ada, task) for task in (epic, child)] == [TaskState.CANCELLED] * 2


async def test_a_task_that_is_finished_first_is_not_skipped(
    lab: Lab, ada: Actor, boss: Actor, race: Race, sql: Sql
) -> None:
    one = await make(lab, ada, "one")
    two = await make(lab, ada, "two", one)
    await lab.app.claims.claim(ada, one)
    _, skipped = await race(one, partial(lab.app.claims.done, ada, one, None), partial(lab.app.repairs.skip, boss, one))
    assert isinstance(skipped, NotReady)
    assert await state_of(lab, ada, two) is TaskState.READY
    assert await sql.fetchval("select count(*) from event where kind = 'task.skipped'") == 0


@pytest.mark.parametrize("is_finished_first", [True, False])
async def test_a_reset_and_an_ending_at_once_have_one_outcome(
    lab: Lab, ada: Actor, boss: Actor, race: Race, is_finished_first: bool
) -> None:
    one = await make(lab, ada, "one")
    await lab.app.claims.claim(ada, one)
    done = partial(lab.app.claims.done, ada, one, None)
    reset = partial(lab.app.repairs.reset, boss, one)
    first, second = await race(one, *((done, reset) if is_finished_first else (reset, done)))
    assert not isinstance(first, WarploomError)
    assert isinstance(second, NotReady if is_finished_first else LeaseLost)
    assert await state_of(lab, ada, one) is (TaskState.DONE if is_finished_first else TaskState.READY)


@pytest.mark.parametrize("is_finished_first", [True, False])
async def test_a_task_that_is_declared_done_while_it_is_finished_is_done_once(
    lab: Lab, ada: Actor, boss: Actor, race: Race, sql: Sql, is_finished_first: bool
) -> None:
    one = await make(lab, ada, "one")
    two = await make(lab, ada, "two", one)
    await lab.app.claims.claim(ada, one)
    done = partial(lab.app.claims.done, ada, one, None)
    declared = partial(lab.app.repairs.batch_done, boss, [one])
    await race(one, *((done, declared) if is_finished_first else (declared, done)))
    assert await state_of(lab, ada, two) is TaskState.READY
    assert await sql.fetchval("select count(*) from event where kind = 'task.done'") == 1


@pytest.mark.parametrize("is_claimed_first", [True, False])
async def test_a_task_that_gets_a_dependency_while_it_is_claimed_has_one_or_the_other(
    lab: Lab, ada: Actor, race: Race, is_claimed_first: bool
) -> None:
    one, two = await make(lab, ada, "one"), await make(lab, ada, "two")
    claim = partial(lab.app.claims.claim, ada, two)
    relink = partial(lab.app.tasks.update, ada, two, TaskChanges(depends_on=[f"T-{one}"]))
    first, second = await race(two, *((claim, relink) if is_claimed_first else (relink, claim)))
    assert not isinstance(first, WarploomError)
    assert isinstance(second, NotReady)


async def test_what_two_tasks_hold_up_is_blocked_by_the_one_that_is_lost_while_the_other_is_found(
    lab: Lab, ada: Actor, boss: Actor, race: Race, sql: Sql
) -> None:
    found, lost = await make(lab, ada, "found"), await make(lab, ada, "lost")
    waiting = await make(lab, ada, "waiting", found, lost)
    await give_up(lab, ada, found)
    await lab.app.claims.claim(ada, lost)
    await race(
        waiting,
        partial(lab.app.repairs.reset, boss, found),
        partial(lab.app.claims.fail, ada, lost, None, "wrong from the start", FailureClass.USER_ERROR),
    )
    assert await sql.fetchval("select culprit_id from task where id = $1", waiting) == lost


async def test_what_is_behind_a_cancelled_task_is_blocked_by_it_and_no_longer_by_what_blocked_it(
    lab: Lab, ada: Actor, boss: Actor, sql: Sql
) -> None:
    root = await make(lab, ada, "root")
    middle = await make(lab, ada, "middle", root)
    last = await make(lab, ada, "last", middle)
    await give_up(lab, ada, root)
    await lab.app.repairs.cancel(boss, middle)
    newest = await make(lab, ada, "newest", last)
    culprits = "select culprit_id from task where id = any($1::bigint[])"
    assert {row["culprit_id"] for row in await sql.fetch(culprits, [last, newest])} == {middle}


async def test_a_task_that_is_reset_behind_a_lost_one_is_blocked_by_that(
    lab: Lab, ada: Actor, boss: Actor, sql: Sql
) -> None:
    root = await make(lab, ada, "root")
    middle = await make(lab, ada, "middle", root)
    await lab.app.repairs.cancel(boss, middle)
    await give_up(lab, ada, root)
    await lab.app.repairs.reset(boss, middle)
    assert await sql.fetchval("select culprit_id from task where id = $1", middle) == root


async def test_a_task_whose_key_another_one_has_by_now_cannot_be_taken_up_again(
    lab: Lab, ada: Actor, boss: Actor
) -> None:
    old = await make(lab, ada, "old", key="deploy")
    await lab.app.repairs.cancel(boss, old)
    await make(lab, ada, "new", key="deploy")
    with pytest.raises(NotReady, match="another task of the same key"):
        await lab.app.repairs.reset(boss, old)


async def test_two_reapers_and_a_sign_of_life_at_once_end_a_claim_once_or_not_at_all(
    lab: Lab, open_app: OpenApp, clock: Clock, ada: Actor, sql: Sql
) -> None:
    other = await open_app(redis_url="none")
    one = await make(lab, ada, "one")
    await lab.app.claims.claim(ada, one)
    clock.advance(minutes=11)
    async with sql.transaction():
        await sql.execute("select id from lease for update")
        racing = [asyncio.create_task(reap(app.duties)) for app in (lab.app, other)]
        await somebody_waits(sql, many=2)
        beat = asyncio.create_task(settled(lab.app.claims.heartbeat(ada, one, None)))
        await somebody_waits(sql, many=3)
    ended = sum(await asyncio.gather(*racing))
    assert ended == isinstance(await beat, LeaseLost)
    assert await sql.fetchval("select count(*) from lease where ended = 'expired'") == ended
    assert await sql.fetchval("select attempts from task") == 1
    assert await broken_rules(sql) == {}


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_task_that_is_given_its_card_while_it_is_given_up_keeps_no_card(
    lab: Lab, ada: Actor, boss: Actor, sql: Sql, is_cancelled: bool
) -> None:
    host = await lab.host(cards=1)
    holder = await lab.agent("holder")
    held = await lab.hold(holder)
    task = await make(lab, ada, "training", needs=NeedsWish(device="local/0"))
    await lab.app.claims.claim(ada, task)
    await lab.app.leases.release(holder, held)
    async with sql.transaction():
        await sql.execute("select id from card for no key update")
        racing: list[asyncio.Task[Any]] = [asyncio.create_task(host.survey())]
        await somebody_waits(sql)
        if is_cancelled:
            await lab.app.repairs.cancel(boss, task)
        else:
            racing.append(asyncio.create_task(lab.app.tickets.leave(ada, task)))
            await somebody_waits(sql, many=2)
    await asyncio.gather(*racing)
    assert await sql.fetchval("select count(*) from lease_card where live") == 0
    assert await broken_rules(sql) == {}


async def test_a_change_that_was_ended_in_a_deadlock_is_repeated(lab: Lab, ada: Actor, sql: Sql) -> None:
    one = await make(lab, ada, "one")
    two = await make(lab, ada, "two", one)
    await lab.app.claims.claim(ada, one)
    await sql.execute("set deadlock_timeout = '1 min'")
    async with sql.transaction():
        await sql.execute(LOCK, two)
        done = asyncio.create_task(lab.app.claims.done(ada, one, None))
        await somebody_waits(sql)
        await sql.execute(LOCK, one)
    assert (await done).state is TaskState.DONE
    assert await state_of(lab, ada, two) is TaskState.READY


async def test_a_change_that_meets_another_one_again_and_again_is_given_up() -> None:
    tries = count(1)

    @repeated
    async def change() -> None:
        raise Collision(f"try {next(tries)}", "Try again.")

    with pytest.raises(Collision, match="try 4"):
        await change()


async def test_a_claim_comes_to_an_end_however_short_lived_what_it_remembers_is(
    lab: Lab, ada: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warploom.services.turns.MEMORY_SECONDS", 0.0)
    await lab.host(cards=1)
    await lab.hold(await lab.agent("holder"))
    training = await make(lab, ada, "training", needs=NeedsWish(device="local/0"), priority="p0")
    plain = await make(lab, ada, "plain")
    first = await lab.app.claims.claim(ada)
    assert [task_number(claim.task.task) for claim in first.claims] == [plain]
    second = await lab.app.claims.claim(ada)
    assert [ticket.ticket for ticket in second.queued] == [f"T-{training}"]
