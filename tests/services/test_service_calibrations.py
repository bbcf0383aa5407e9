"""Estimates from earlier runs, and how well estimates have done."""

from datetime import timedelta
from typing import Any

import pytest

from support.databases import Clock
from support.lab import Lab, LabHost, lease_of
from support.rows import Sql
from warploom.domain.breaker import job_failure
from warploom.domain.calibrations import Foretold, say_record
from warploom.domain.etas import EtaWord
from warploom.domain.failures import FailureClass
from warploom.domain.identifiers import LeaseId
from warploom.domain.reservations import ReservationWish
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer


async def run(lab: Lab, clock: Clock, host: LabHost, lasting: float, job: str = "train", **wish: Any) -> None:
    """Let a job run on card 0 for some minutes, to a good end."""
    actor = await lab.agent("runner")
    lease = lease_of(await lab.request(actor, job, **wish))
    clock.advance(minutes=lasting)
    await lab.app.leases.release(actor, lease)
    await settle(clock, host)


async def settle(clock: Clock, host: LabHost) -> None:
    clock.advance(minutes=1)
    await host.survey()
    clock.advance(minutes=1)
    await host.survey()


async def hold(lab: Lab, job: str = "train", **wish: Any) -> tuple[Actor, LeaseId]:
    holder = await lab.agent("claude-1")
    answer = await lab.request(holder, job, **wish)
    assert answer.state is Standing.ACTIVE, answer
    return holder, lease_of(answer)


def eta_of(answer: TicketAnswer) -> tuple[str, EtaWord, str]:
    assert answer.starts is not None
    return answer.starts.text, answer.starts.word, answer.starts.source


@pytest.fixture
async def host(lab: Lab) -> LabHost:
    return await lab.host(cards=1, interval=3600)


async def test_a_start_is_known_from_earlier_runs_of_the_same_purpose(lab: Lab, clock: Clock, host: LabHost) -> None:
    for minutes in (20, 24, 28):
        await run(lab, clock, host, minutes)
    await hold(lab)
    answer = await lab.request(await lab.agent("claude-2"), "other")
    assert eta_of(answer) == ("20–30 min", EtaWord.HISTORY, "from 3 earlier runs of the same purpose")
    assert answer.starts is not None
    assert answer.starts.p50 is not None
    assert answer.starts.p90 == answer.starts.latest
    assert answer.reason is not None
    assert "history from 3 earlier runs of the same purpose" in answer.reason


async def test_earlier_runs_come_before_what_was_declared_and_steps_before_both(
    lab: Lab, clock: Clock, host: LabHost
) -> None:
    for _ in range(3):
        await run(lab, clock, host, 20)
    holder, lease = await hold(lab, minutes=5)
    waiting = await lab.request(await lab.agent("claude-2"), "other")
    assert eta_of(waiting)[:2] == ("~20 min", EtaWord.HISTORY)
    await lab.app.leases.report(lease, 0, 100, holder)
    clock.advance(minutes=1)
    await lab.app.leases.report(lease, 50, 100, holder)
    assert eta_of(await lab.explain(await lab.agent("claude-2"), waiting))[1] is EtaWord.MEASURED


async def test_a_run_that_outlasts_all_earlier_ones_ends_as_declared_or_nobody_knows_when(
    lab: Lab, clock: Clock, host: LabHost
) -> None:
    for _ in range(3):
        await run(lab, clock, host, 20)
    await hold(lab, minutes=40)
    waiting = await lab.request(await lab.agent("claude-2"), "other")
    clock.advance(minutes=30)
    await host.survey()
    assert eta_of(await lab.explain(await lab.agent("claude-2"), waiting))[:2] == ("~10 min", EtaWord.DECLARED)
    clock.advance(minutes=20)
    assert eta_of(await lab.explain(await lab.agent("claude-2"), waiting))[:2] == ("unknown", EtaWord.UNKNOWN)


async def test_an_end_that_its_holder_moved_out_comes_before_earlier_runs(
    lab: Lab, clock: Clock, host: LabHost
) -> None:
    for _ in range(3):
        await run(lab, clock, host, 20)
    holder, lease = await hold(lab, minutes=20)
    await lab.app.leases.extend(holder, lease, 30, "two more epochs")
    waiting = await lab.request(await lab.agent("claude-2"), "other")
    assert eta_of(waiting)[:2] == ("~50 min", EtaWord.DECLARED)


async def test_a_run_that_failed_says_nothing_of_the_next_one(lab: Lab, clock: Clock, host: LabHost, sql: Sql) -> None:
    for _ in range(3):
        holder, lease = await hold(lab)
        clock.advance(minutes=1)
        await lab.app.leases.release(holder, lease, job_failure("out of memory", FailureClass.OOM_DEVICE))
        await settle(clock, host)
    assert await sql.fetchval("select count(*) from run") == 0


async def test_a_waiting_run_of_known_length_lets_those_behind_it_know_their_start(
    lab: Lab, clock: Clock, host: LabHost
) -> None:
    for _ in range(3):
        await run(lab, clock, host, 20)
    await hold(lab, "once", minutes=10)
    first = await lab.request(await lab.agent("claude-2"))
    second = await lab.request(await lab.agent("claude-3"), "other")
    assert eta_of(first)[:2] == ("~10 min", EtaWord.DECLARED)
    assert eta_of(second)[:2] == ("~30 min", EtaWord.DECLARED)


async def test_only_the_latest_twenty_runs_count(lab: Lab, sql: Sql, host: LabHost) -> None:
    await sql.execute(
        """
        insert into run (lease_id, project_id, job, model, length, ended_at)
        select -n, (select id from project where name = 'default'), 'train', 'NVIDIA H200',
          case when n <= 20 then interval '10 minutes' else interval '9 hours' end, now() - n * interval '1 hour'
        from generate_series(1, 60) as n
        """
    )
    await hold(lab)
    assert eta_of(await lab.request(await lab.agent("claude-2"), "other")) == (
        "~10 min",
        EtaWord.HISTORY,
        "from 20 earlier runs of the same purpose",
    )


async def test_a_run_that_earlier_ones_bound_may_go_before_a_reservation(lab: Lab, clock: Clock, host: LabHost) -> None:
    for _ in range(3):
        await run(lab, clock, host, 5)
    now = (await lab.app.cards.survey()).at
    await lab.app.reservations.reserve(await lab.agent("owner"), ReservationWish("0", 60, now + timedelta(minutes=30)))
    assert (await lab.request(await lab.agent("claude-3"), "new")).state is Standing.QUEUED
    assert (await lab.request(await lab.agent("claude-2"))).state is Standing.ACTIVE


async def test_what_was_promised_is_compared_with_what_came(lab: Lab, clock: Clock, host: LabHost) -> None:
    """Casebook C43: a declared 20 minutes that took 30 count against what is declared, and against nothing else."""
    holder, lease = await hold(lab, minutes=20)
    waiting = await lab.request(await lab.agent("claude-2"), "other")
    assert (await lab.app.calibrations.read()).records == []
    clock.advance(minutes=30)
    await lab.app.leases.release(holder, lease)
    await settle(clock, host)
    assert (await lab.explain(await lab.agent("claude-2"), waiting)).state is Standing.OFFERED
    start, end = (await lab.app.calibrations.read()).records
    assert (start.foretold, start.word, start.count, start.by_p50, start.by_p90) == (
        Foretold.START,
        EtaWord.DECLARED,
        1,
        0.0,
        0.0,
    )
    assert start.late_minutes == pytest.approx(11, abs=1.1)
    assert (end.foretold, end.word, end.count, round(end.late_minutes)) == (Foretold.END, EtaWord.DECLARED, 1, 10)
    assert say_record(end) == "declared ends: 0 % on time (p90), 0 % by the p50, median 10 min late, of 1"
    assert (await lab.app.cards.survey()).calibration == [start, end]


async def test_each_source_is_judged_by_its_own_promises(lab: Lab, clock: Clock, host: LabHost) -> None:
    """Casebook C43: the same run shows that its history was right and its holder's own estimate was not."""
    for minutes in (20, 24, 28):
        await run(lab, clock, host, minutes)
    await run(lab, clock, host, 22, minutes=5)
    records = {(each.foretold, each.word): each for each in (await lab.app.calibrations.read()).records}
    assert records[Foretold.END, EtaWord.HISTORY].by_p90 == 1.0
    assert records[Foretold.END, EtaWord.DECLARED].by_p90 == 0.0


async def test_the_first_measured_end_of_a_run_is_promised_once(
    lab: Lab, clock: Clock, host: LabHost, sql: Sql
) -> None:
    holder, lease = await hold(lab)
    for step in (0, 10, 20, 30):
        await lab.app.leases.report(lease, step, 100, holder)
        clock.advance(minutes=1)
    assert await sql.fetch("select word, round(extract(epoch from p50 - promised_at) / 60) from promise") == [
        ("measured", 9)
    ]


async def test_an_unknown_start_promises_nothing(lab: Lab, host: LabHost, sql: Sql) -> None:
    await hold(lab)
    await lab.request(await lab.agent("claude-2"), "other")
    assert await sql.fetchval("select count(*) from promise") == 0


async def test_an_offer_that_is_missed_leaves_the_record_of_its_start_and_promises_anew(
    lab: Lab, clock: Clock, host: LabHost, sql: Sql
) -> None:
    """Casebook C43: what became of the first promise is kept when the ticket goes back into the queue."""
    holder, lease = await hold(lab, minutes=20)
    waiting = await lab.request(await lab.agent("claude-2"), "other")
    await lab.app.leases.release(holder, lease)
    await settle(clock, host)
    offered = lease_of(await lab.explain(await lab.agent("claude-2"), waiting))
    await lab.request(await lab.agent("claude-3"), "third", minutes=7)
    clock.advance(minutes=30)
    assert await lab.app.leases.lapse(offered)
    await lab.app.leases.accept(await lab.agent("claude-3"), LeaseId(offered + 1))
    await lab.explain(await lab.agent("claude-2"), waiting)
    promises = await sql.fetch(
        "select came_at is null from promise where task_id = $1 and lease_id is null order by id", 2
    )
    assert promises == [(False,), (True,)]
