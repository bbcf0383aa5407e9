"""Cards as they really are: what is reported of them in public, played on fake cards and judged by the server."""

import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from support.databases import Clock
from support.fakes import FakeRack
from support.lab import Lab, lease_of
from support.rows import Sql
from warploom.client.processes import identity_of
from warploom.domain.callers import Caller
from warploom.domain.cards import CardLane, CardState, Owner
from warploom.domain.leases import Label
from warploom.domain.standings import Standing, TicketAnswer

Meanwhile = Callable[[], Awaitable[None]]
WAITS = "import sys; sys.stdin.read()"


@pytest.fixture
def rack(lab: Lab, tmp_path: Path) -> FakeRack:
    """Two fake cards."""
    return FakeRack(lab, tmp_path / "home")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """A real process that waits until it is ended."""
    running = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, text=True)
    yield running
    running.kill()
    running.communicate(timeout=20)


async def a_waiter_behind_a_job(rack: FakeRack) -> tuple[int, TicketAnswer, TicketAnswer]:
    """Return the pid of a job on card 0, the lease that it has, and the ticket that waits behind it."""
    await rack.look()
    held = await rack.lab.request(await rack.lab.agent(), "train")
    pid = rack.run(0, held.lease)
    waiting = await rack.lab.request(await rack.lab.agent("claude-2"), "eval")
    await rack.look()
    return pid, held, waiting


async def release(rack: FakeRack, held: TicketAnswer) -> None:
    await rack.lab.app.leases.release(await rack.lab.agent(), lease_of(held))


async def stay(
    rack: FakeRack, clock: Clock, times: int, minutes: float, meanwhile: Meanwhile | None = None
) -> CardLane:
    """Let minutes pass again and again, with a look and the orchestrator's duties after each; return the lane of card 0."""
    lanes: list[CardLane] = []
    for _ in range(times):
        clock.advance(minutes=minutes)
        if meanwhile is not None:
            await meanwhile()
        lanes = await rack.look()
        await rack.lab.duties()
    return lanes[0]


async def test_a_card_that_is_renumbered_keeps_its_lease_and_its_queue(rack: FakeRack) -> None:
    """Casebook C02."""
    _, held, waiting = await a_waiter_behind_a_job(rack)
    rack.cards.set_index(0, 1)
    rack.cards.set_index(1, 0)
    lanes = await rack.look()
    assert [(lane.card, lane.state) for lane in lanes] == [
        ("local/0", CardState.FREE),
        ("local/1", CardState.LEASED),
    ]
    explained = await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)
    assert (explained.state, explained.cards) == (Standing.QUEUED, ["local/1"])
    again = await rack.lab.explain(await rack.lab.agent(), held)
    assert again.export is not None
    assert again.export["CUDA_VISIBLE_DEVICES"] == rack.cards.uuid(0)


async def test_numbers_are_exported_only_while_the_order_of_the_bus_is_certain(rack: FakeRack) -> None:
    """Casebook C01 and C03."""
    await rack.look()
    agent = await rack.lab.agent()
    by_number = await rack.lab.request(agent, device="1", env_style="index")
    by_uuid = await rack.lab.request(agent, "eval", device="0")
    rack.cards.set_lost(0)
    await rack.look()
    unsure = await rack.lab.explain(agent, by_number)
    exports = [answer.export or {} for answer in (by_number, by_uuid, unsure)]
    assert [export["CUDA_VISIBLE_DEVICES"] for export in exports] == ["1", rack.cards.uuid(0), rack.cards.uuid(1)]
    assert {export["CUDA_DEVICE_ORDER"] for export in exports} == {"PCI_BUS_ID"}


async def test_a_gpu_is_leased_in_its_mig_instances_while_it_is_divided(rack: FakeRack) -> None:
    """Casebook C04."""
    await rack.look()
    rack.cards.set_instances(1, 2)
    lanes = await rack.look(times=4)
    assert [(lane.card, lane.state) for lane in lanes] == [
        ("local/0", CardState.FREE),
        ("local/1", CardState.GONE),
        ("local/200", CardState.FREE),
        ("local/201", CardState.FREE),
    ]
    rack.cards.set_instances(1, 0)
    lanes = await rack.look(times=4)
    assert [(lane.card, lane.state) for lane in lanes] == [("local/0", CardState.FREE), ("local/1", CardState.FREE)]


async def test_a_card_that_falls_off_the_bus_leaves_the_others_alone(rack: FakeRack) -> None:
    """Casebook C05."""
    await a_waiter_behind_a_job(rack)
    rack.cards.set_lost(0)
    lost, other = await rack.look()
    assert (lost.state, other.state) == (CardState.LOST, CardState.FREE)
    assert lost.holder is not None
    assert (await rack.lab.request(await rack.lab.agent("claude-3"), device="1")).state is Standing.ACTIVE


async def test_a_card_that_is_silently_not_listed_any_more_is_lost_after_three_looks_and_never_left_out(
    rack: FakeRack,
) -> None:
    """Casebook C06."""
    await rack.look()
    rack.cards.set_missing(1)
    seen = [[lane.state for lane in await rack.look()] for _ in range(4)]
    assert seen == [[CardState.FREE, state] for state in (*[CardState.BLIND] * 2, *[CardState.LOST] * 2)]


async def test_what_fails_on_one_card_is_held_against_that_card_and_not_against_its_host(rack: FakeRack) -> None:
    """Casebook C07 and C08."""
    await rack.look()
    rack.cards.set_ecc_errors(0, 2)
    bad, good = await rack.look()
    assert (bad.state, good.state) == (CardState.QUARANTINED, CardState.FREE)
    anywhere = [await rack.lab.request(await rack.lab.agent(f"claude-{number}"), device="any") for number in (1, 2)]
    assert [(answer.state, answer.cards) for answer in anywhere] == [
        (Standing.ACTIVE, ["local/1"]),
        (Standing.QUEUED, ["local/0", "local/1"]),
    ]


async def test_a_repaired_card_comes_back_with_its_queue_once_it_is_cleared(rack: FakeRack) -> None:
    """Casebook C09."""
    await rack.look()
    rack.cards.set_ecc_errors(0, 2)
    await rack.look()
    waiting = await rack.lab.request(await rack.lab.agent())
    rack.cards.set_ecc_errors(0, 0)
    assert (await rack.look())[0].state is CardState.QUARANTINED
    await rack.lab.app.cards.clear(await rack.lab.operator(), "local/0", preview=False)
    await rack.look()
    assert (await rack.lab.explain(await rack.lab.agent(), waiting)).state is Standing.OFFERED


async def test_a_driver_that_was_upgraded_under_running_jobs_blinds_the_cards_and_ends_nothing(rack: FakeRack) -> None:
    """Casebook C10."""
    _, held, waiting = await a_waiter_behind_a_job(rack)
    rack.cards.set_driver_problem("the driver and its library have different versions; a restart mends it")
    lanes = await rack.look()
    assert [lane.state for lane in lanes] == [CardState.BLIND] * 2
    assert "the driver and its library have different versions" in lanes[0].say
    assert (await rack.lab.explain(await rack.lab.agent(), held)).state is Standing.ACTIVE
    assert (await rack.lab.request(await rack.lab.agent("claude-3"), device="1")).state is Standing.QUEUED
    rack.cards.set_driver_problem(None)
    await rack.look()
    await release(rack, held)
    rack.cards.vacate(0)
    await rack.look()
    assert (await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)).state is Standing.OFFERED


async def test_a_card_that_hangs_in_the_driver_is_shown_with_its_last_reading_and_delays_no_other(
    rack: FakeRack,
) -> None:
    """Casebook C11."""
    await a_waiter_behind_a_job(rack)
    rack.cards.set_hanging(0, 60)
    try:
        hung, other = await rack.look()
    finally:
        rack.cards.set_hanging(0, 0)
    assert (hung.state, other.state) == (CardState.BLIND, CardState.FREE)
    assert "the driver has not answered for 2 s" in hung.say
    assert "last read" in hung.say
    assert (hung.used_mib, hung.read_at is not None, other.read_at) == (9000, True, None)


async def test_what_is_not_reported_is_neither_idle_nor_empty(rack: FakeRack, clock: Clock) -> None:
    """Casebook C12."""
    await a_waiter_behind_a_job(rack)
    rack.cards.set_not_reported(0, "utilisation", "process_memory", "used_mib")
    held = await stay(rack, clock, 3, 6)
    assert held.holder is not None
    assert Label.IDLE not in held.holder.labels
    assert (held.used_mib, held.utilisation) == (None, None)
    assert "memory not reported" in held.processes[0].text


async def test_memory_that_nobody_listed_holds_makes_a_card_somebody_elses(rack: FakeRack) -> None:
    """Casebook C13: inside a container the list of processes may be empty."""
    rack.cards.set_not_reported(0, "processes")
    await rack.look()
    rack.run(0, memory_mib=30_000)
    lane, _ = await rack.look()
    assert lane.state is CardState.FOREIGN
    assert "29.3 GiB used by a process that cannot be named" in lane.say


async def test_a_ghost_is_not_granted_names_its_holder_of_record_and_has_no_estimate(
    rack: FakeRack, clock: Clock
) -> None:
    """Casebook C14."""
    pid, held, waiting = await a_waiter_behind_a_job(rack)
    rack.cards.remove_process(0, pid)
    rack.cards.set_ghost(0, 20_480)
    await release(rack, held)
    await rack.look()
    clock.advance(minutes=2)
    lane, _ = await rack.look()
    assert lane.state is CardState.GHOST
    assert "20 GiB held by no living process; last held by L-1 'train' (claude-1) until" in lane.say
    explained = await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)
    assert (explained.state, explained.starts and explained.starts.text) == (Standing.QUEUED, "unknown")
    rack.cards.set_ghost(0, 0)
    await rack.look()
    assert (await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)).state is Standing.OFFERED


async def test_the_next_job_starts_only_once_the_memory_of_the_last_one_has_drained(
    rack: FakeRack, clock: Clock
) -> None:
    """Casebook C15: looked at again until it is under the baseline; when that takes too long, the pids are named."""
    pid, held, waiting = await a_waiter_behind_a_job(rack)
    await release(rack, held)
    draining, _ = await rack.look()
    assert draining.state is CardState.SETTLING
    clock.advance(minutes=2)
    stuck, _ = await rack.look()
    assert stuck.state is CardState.OCCUPIED
    assert f"pid {pid}" in stuck.say
    rack.cards.remove_process(0, pid)
    await rack.look()
    assert (await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)).state is Standing.OFFERED


async def test_children_that_escape_their_job_are_listed_as_its_lease_and_keep_the_card(rack: FakeRack) -> None:
    """Casebook C16: a child that nobody is above any more is known by the lease in its environment."""
    _, held, waiting = await a_waiter_behind_a_job(rack)
    rack.run(0, held.lease, memory_mib=4000)
    lane, _ = await rack.look()
    assert [each.owner for each in lane.processes] == [Owner.MEMBER] * 2
    await release(rack, held)
    lane, _ = await rack.look()
    assert [each.owner for each in lane.processes] == [Owner.EX_HOLDER] * 2
    assert (await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)).state is Standing.QUEUED


async def test_a_session_that_uses_a_card_without_a_lease_is_named(
    rack: FakeRack, process: subprocess.Popen[str]
) -> None:
    """Casebook C17."""
    caller = Caller(agent="claude-9", host="local", process=identity_of(process.pid))
    stranger = await rack.lab.app.sessions.identify(caller)
    rack.cards.add_running(1, process.pid)
    _, lane = await rack.look()
    assert lane.state is CardState.FOREIGN
    assert f"session S-{stranger.session} without a lease" in lane.say
    (told,) = await rack.lab.app.messages.unread(stranger)
    assert "uses local/1 without a lease" in told.text


async def test_somebody_elses_use_takes_a_card_out_until_a_quiet_time_has_passed(rack: FakeRack, clock: Clock) -> None:
    """Casebook C19."""
    pid = rack.run(0, user="bob")
    lane, _ = await rack.look()
    assert lane.state is CardState.FOREIGN
    assert f"python train.py (user bob, pid {pid}, 8.8 GiB)" in lane.say
    waiting = await rack.lab.request(await rack.lab.agent())
    rack.cards.remove_process(0, pid)
    lane, _ = await rack.look()
    assert "somebody else's process is gone; back in the pool in 2 min if it stays away" in lane.say
    clock.advance(seconds=125)
    await rack.look()
    assert (await rack.lab.explain(await rack.lab.agent(), waiting)).state is Standing.OFFERED


async def test_an_ex_holder_that_works_on_keeps_the_card_and_is_told(rack: FakeRack, clock: Clock) -> None:
    """Casebook C20."""
    pid, held, waiting = await a_waiter_behind_a_job(rack)
    await release(rack, held)
    await rack.look()
    clock.advance(minutes=2)
    await rack.look()
    assert (await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)).state is Standing.QUEUED
    (told,) = await rack.lab.app.messages.unread(await rack.lab.agent())
    assert f"python train.py (pid {pid}, 8.8 GiB) of your session still uses local/0, although L-1 ended" in told.text


async def test_a_card_whose_lease_record_is_gone_is_not_granted_while_the_process_is_there(
    rack: FakeRack, clock: Clock, sql: Sql
) -> None:
    """Casebook C25: the end of a lease never means that its card is free."""
    pid, held, waiting = await a_waiter_behind_a_job(rack)
    await sql.execute("update lease set expires_at = clock_now() - interval '1 second'")
    assert await rack.lab.app.leases.expire(lease_of(held))
    lane = await stay(rack, clock, 3, 1)
    assert lane.state is CardState.OCCUPIED
    assert (await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)).state is Standing.QUEUED
    rack.cards.remove_process(0, pid)
    await rack.look()
    assert (await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)).state is Standing.OFFERED


async def test_a_training_that_outlives_its_session_keeps_its_lease_until_it_ends(rack: FakeRack, clock: Clock) -> None:
    """Casebook C30."""
    pid, held, waiting = await a_waiter_behind_a_job(rack)
    rack.cards.set_utilisation(0, 90)
    lane = await stay(rack, clock, 4, 6)
    assert lane.holder is not None
    assert lane.holder.labels == [Label.UNATTENDED]
    rack.cards.remove_process(0, pid)
    clock.advance(minutes=11)
    await rack.lab.duties()
    await rack.look()
    assert (await rack.lab.explain(await rack.lab.agent(), held)).state is Standing.ENDED
    assert (await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)).state is Standing.OFFERED


async def test_an_idle_holder_with_others_waiting_is_labelled_told_and_left_alone(rack: FakeRack, clock: Clock) -> None:
    """Casebook C28."""
    _, held, waiting = await a_waiter_behind_a_job(rack)
    rack.cards.set_utilisation(0, 1)
    await rack.look()

    async def show_a_sign_of_life() -> None:
        await rack.lab.app.leases.extend(await rack.lab.agent(), lease_of(held), 30, "still here")

    lane = await stay(rack, clock, 2, 6, show_a_sign_of_life)
    assert lane.holder is not None
    assert lane.holder.labels == [Label.IDLE]
    assert "hardly used for 12 min" in (
        (await rack.lab.explain(await rack.lab.agent("claude-2"), waiting)).reason or ""
    )
    assert len(await rack.lab.app.messages.unread(await rack.lab.agent())) == 1
