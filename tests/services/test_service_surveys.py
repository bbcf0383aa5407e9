from dataclasses import replace
from typing import Any

import pytest

from support.databases import Clock
from support.lab import Lab, LabHost, lease_of
from support.rows import Sql, whole_database
from warploom.domain.callers import Caller
from warploom.domain.cards import CardState
from warploom.domain.errors import MalformedInput
from warploom.domain.hosts import CardFault
from warploom.domain.identifiers import LeaseId
from warploom.domain.leases import Label, LeaseState
from warploom.domain.processes import ProcessIdentity
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer


async def state_of(lab: Lab, index: int = 0) -> tuple[CardState, str]:
    lane = (await lab.app.cards.survey()).hosts[0].cards[index]
    return lane.state, lane.say


async def a_waiter_behind_a_holder(lab: Lab) -> tuple[LabHost, Actor, LeaseId, TicketAnswer]:
    host = await lab.host()
    holder = await lab.agent("claude-1")
    lease = await lab.hold(holder)
    return host, holder, lease, await lab.request(await lab.agent("claude-2"), "eval")


async def test_a_released_card_settles_and_is_granted_by_the_survey_that_sees_it_clear(lab: Lab) -> None:
    host, holder, lease, waiting = await a_waiter_behind_a_holder(lab)
    await lab.app.leases.release(holder, lease)
    assert (await state_of(lab))[0] is CardState.SETTLING
    assert (await lab.explain(holder, waiting)).state is Standing.QUEUED
    await host.survey()
    granted = await lab.explain(holder, waiting)
    assert (granted.state, granted.lease) == (Standing.OFFERED, "L-2")


async def test_a_look_that_began_before_the_release_does_not_clear_the_card(lab: Lab) -> None:
    host, holder, lease, waiting = await a_waiter_behind_a_holder(lab)
    await lab.app.leases.release(holder, lease)
    await host.survey(age_seconds=30.0)
    assert (await lab.explain(holder, waiting)).state is Standing.QUEUED
    await host.survey()
    assert (await lab.explain(holder, waiting)).state is Standing.OFFERED


async def test_a_card_whose_ex_holder_still_works_on_it_is_not_granted_and_says_who(lab: Lab, clock: Clock) -> None:
    host, holder, lease, waiting = await a_waiter_behind_a_holder(lab)
    host.run(0, lease="L-1", command="train.py")
    await lab.app.leases.release(holder, lease)
    await host.survey()
    state, say = await state_of(lab)
    assert state is CardState.SETTLING
    assert "train.py (ex-holder L-1" in say
    clock.advance(minutes=2)
    await host.survey()
    state, say = await state_of(lab)
    assert state is CardState.OCCUPIED
    assert "ex-holder L-1" in say
    assert (await lab.explain(holder, waiting)).state is Standing.QUEUED
    host.end(0)
    await host.survey()
    assert (await lab.explain(holder, waiting)).state is Standing.OFFERED


async def test_memory_that_nobody_holds_any_more_makes_a_ghost_and_no_grant(lab: Lab, clock: Clock) -> None:
    host, holder, lease, waiting = await a_waiter_behind_a_holder(lab)
    host.end(0, held_mib=20_000)
    await lab.app.leases.release(holder, lease)
    await host.survey()
    assert (await state_of(lab))[0] is CardState.SETTLING
    clock.advance(minutes=2)
    await host.survey()
    state, say = await state_of(lab)
    assert state is CardState.GHOST
    assert say.startswith("local/0 is held by a ghost since ")
    assert "20.0 GiB held by no living process; last held by L-1 'train' (claude-1) until " in say
    explained = await lab.explain(holder, waiting)
    assert (explained.state, explained.starts and explained.starts.text) == (Standing.QUEUED, "unknown")


async def test_somebody_elses_process_takes_the_card_out_of_the_pool_until_a_quiet_time(lab: Lab, clock: Clock) -> None:
    host = await lab.host()
    host.run(0, user="eve", command="mine")
    await host.survey()
    waiting = await lab.request(await lab.agent())
    assert waiting.state is Standing.QUEUED
    assert waiting.reason is not None
    assert "used by somebody else since" in waiting.reason
    assert "mine (user eve, pid" in waiting.reason
    host.end(0)
    await host.survey()
    assert (await lab.explain(await lab.agent(), waiting)).state is Standing.QUEUED
    clock.advance(seconds=121)
    await host.survey()
    assert (await lab.explain(await lab.agent(), waiting)).state is Standing.OFFERED


async def test_an_own_session_on_a_card_without_a_lease_is_named(lab: Lab) -> None:
    host = await lab.host()
    process = ProcessIdentity(4321, 33)
    await lab.app.sessions.identify(Caller(agent="claude-9", host="local", process=process))
    host.run(0, ancestors=[process])
    await host.survey()
    state, say = await state_of(lab)
    assert state is CardState.FOREIGN
    assert "session S-1 without a lease" in say


async def test_a_session_that_comes_without_a_lease_is_told_once_for_each_stay(lab: Lab) -> None:
    """Casebook C17."""
    host = await lab.host()
    agent = await lab.agent()
    process = ProcessIdentity(4321, 33)
    await lab.app.sessions.identify(Caller(agent="claude-9", host="local", process=process))
    stranger = await lab.app.sessions.identify(Caller(agent="claude-9", host="local", process=process))
    for stay in (1, 2):
        host.run(0, ancestors=[process], command="probe.py")
        await host.survey()
        await host.survey()
        told = (await lab.app.messages.unread(stranger))[-1]
        assert len(await lab.app.messages.unread(stranger)) == stay
        assert told.text.startswith("probe.py (pid ")
        assert "8.8 GiB) of your session uses local/0 without a lease, so nobody is granted that card." in told.text
        host.end(0)
        await host.survey()
    assert await lab.app.messages.unread(agent) == []


async def test_an_ex_holder_that_stays_on_is_told_once_when_the_time_to_settle_is_over(lab: Lab, clock: Clock) -> None:
    """Casebook C20."""
    host, holder, lease, _ = await a_waiter_behind_a_holder(lab)
    host.run(0, lease="L-1", command="train.py")
    await lab.app.leases.release(holder, lease)
    await host.survey()
    assert await lab.app.messages.unread(holder) == []
    clock.advance(minutes=2)
    await host.survey()
    await host.survey()
    (told,) = await lab.app.messages.unread(holder)
    assert "of your session still uses local/0, although L-1 ended" in told.text


async def test_who_holds_a_card_that_is_lost_is_told_and_keeps_the_lease(lab: Lab) -> None:
    """Casebook C05."""
    host, holder, lease, waiting = await a_waiter_behind_a_holder(lab)
    host.report(0, fault=CardFault.LOST, problem="it has fallen off the bus")
    await host.survey()
    await host.survey()
    (told,) = await lab.app.messages.unread(holder)
    assert told.text.startswith("local/0, which you hold with L-1 'train', is lost: it has fallen off the bus.")
    assert (await lab.app.leases.extend(holder, lease, 5, "still here")).state is LeaseState.ACTIVE
    assert "local/0 is lost: it has fallen off the bus" in ((await lab.explain(holder, waiting)).reason or "")


async def test_a_card_that_does_not_answer_shows_its_last_reading_with_its_age(lab: Lab, clock: Clock) -> None:
    """Casebook C11."""
    host = await lab.host()
    host.run(0, lease=f"L-{await lab.hold(await lab.agent())}", memory_mib=40 * 1024)
    await host.survey()
    clock.advance(seconds=90)
    host.report(0, fault=CardFault.BLIND, problem="the driver has not answered for 90 s", used_mib=None, processes=[])
    await host.survey()
    lane = (await lab.app.cards.survey()).hosts[0].cards[0]
    assert lane.say == (
        "local/0 is blind: the driver has not answered for 90 s; last read 2 min ago with 40.5 GiB in use."
    )
    assert (lane.used_mib, len(lane.processes), lane.read_at is not None) == (40 * 1024 + 500, 1, True)
    assert lane.holder is not None
    assert lane.holder.clocks[1].text == "process seen 2 min ago"
    host.report(0, fault=None, problem=None, used_mib=500)
    await host.survey()
    lane = (await lab.app.cards.survey()).hosts[0].cards[0]
    assert (lane.used_mib, lane.processes, lane.read_at) == (500, [], None)


@pytest.mark.parametrize("fault", [CardFault.LOST, CardFault.BLIND])
async def test_a_card_that_fails_is_not_granted_keeps_its_lease_and_leaves_the_others_alone(
    lab: Lab, fault: CardFault
) -> None:
    host = await lab.host()
    agent = await lab.agent()
    held = await lab.request(agent, "train", "0")
    host.fail(0, fault)
    await host.survey()
    assert (await state_of(lab))[0].value == fault.value
    assert (await lab.explain(agent, held)).state is Standing.ACTIVE
    assert (await lab.request(agent, "eval", "1")).state is Standing.ACTIVE
    await lab.app.leases.release(agent, lease_of(held))
    await host.survey()
    assert (await lab.request(agent, "again", "0")).state is Standing.QUEUED


async def test_a_card_that_a_survey_misses_is_lost_and_never_forgotten(lab: Lab) -> None:
    host = await lab.host()
    host.hidden.add(0)
    await host.survey()
    assert await state_of(lab) == (
        CardState.LOST,
        "local/0 is lost: it is missing from the survey; last read 0 s ago with 500 MiB in use.",
    )
    assert (await lab.request(await lab.agent())).state is Standing.QUEUED
    host.hidden.clear()
    await host.survey()
    assert (await state_of(lab))[0] is CardState.OFFERED


async def test_a_host_whose_driver_fails_is_blind_but_keeps_its_leases(lab: Lab) -> None:
    host = await lab.host()
    agent = await lab.agent()
    held = await lab.request(agent)
    host.problem = "driver and library do not match"
    await host.survey()
    assert (await state_of(lab, 1))[0] is CardState.BLIND
    assert (await lab.explain(agent, held)).state is Standing.ACTIVE
    assert (await lab.request(agent, "eval", "1")).state is Standing.QUEUED


async def test_nothing_is_granted_on_a_survey_older_than_two_intervals(lab: Lab, clock: Clock) -> None:
    host = await lab.host(interval=2.0)
    clock.advance(seconds=5)
    waiting = await lab.request(await lab.agent())
    assert waiting.state is Standing.QUEUED
    assert waiting.reason is not None
    assert "has not been surveyed for 5 s" in waiting.reason
    assert (await state_of(lab))[0] is CardState.UNSEEN
    await host.survey()
    assert (await lab.explain(await lab.agent(), waiting)).state is Standing.OFFERED


async def test_nothing_is_granted_on_a_survey_from_before_the_clock_was_set_back(lab: Lab, clock: Clock) -> None:
    """Casebook C32."""
    host = await lab.host(interval=2.0)
    clock.advance(minutes=-10)
    waiting = await lab.request(await lab.agent())
    assert waiting.state is Standing.QUEUED
    await host.survey()
    assert (await lab.explain(await lab.agent(), waiting)).state is Standing.OFFERED


async def test_a_card_that_settles_is_not_held_up_by_a_clock_that_is_set_back(lab: Lab, clock: Clock) -> None:
    """Casebook C32."""
    host, holder, lease, waiting = await a_waiter_behind_a_holder(lab)
    await lab.app.leases.release(holder, lease)
    clock.advance(hours=-1)
    await host.survey(age_seconds=30.0)
    assert (await lab.explain(holder, waiting)).state is Standing.QUEUED
    await host.survey()
    assert (await lab.explain(holder, waiting)).state is Standing.OFFERED


async def test_a_quiet_time_is_no_longer_after_the_clock_was_set_back(lab: Lab, clock: Clock) -> None:
    """Casebook C32."""
    host = await lab.host(interval=600)
    host.run(0)
    await host.survey()
    waiting = await lab.request(await lab.agent())
    host.end(0)
    clock.advance(hours=-1)
    await host.survey()
    assert (await lab.explain(await lab.agent(), waiting)).state is Standing.QUEUED
    clock.advance(seconds=121)
    await host.survey()
    assert (await lab.explain(await lab.agent(), waiting)).state is Standing.OFFERED


async def test_a_host_that_is_gone_is_missed_no_later_for_a_clock_that_is_set_back(lab: Lab, clock: Clock) -> None:
    """Casebook C32."""
    await lab.host(interval=2.0)
    clock.advance(hours=-1)
    assert (await lab.duties())["host watch"] == 0
    clock.advance(minutes=2)
    assert (await lab.duties())["host watch"] == 1
    assert not (await lab.app.cards.survey()).hosts[0].is_present


async def test_a_silent_host_grants_nothing_to_the_orchestrator_either(lab: Lab, clock: Clock) -> None:
    host, holder, lease, waiting = await a_waiter_behind_a_holder(lab)
    host.interval = 2.0
    await host.survey()
    await lab.app.leases.release(holder, lease)
    await host.survey(age_seconds=0.0)
    assert (await lab.explain(holder, waiting)).state is Standing.OFFERED
    clock.advance(minutes=4)
    await lab.duties()
    assert (await lab.explain(holder, waiting)).state is Standing.QUEUED


async def test_a_process_of_the_lease_keeps_it_alive_though_its_session_is_silent(lab: Lab, clock: Clock) -> None:
    """Casebook C30: the lease attaches to the job's process; everybody who looks or waits reads that nobody attends to it."""
    host = await lab.host()
    held = await lab.request(await lab.agent())
    waiting = await lab.request(await lab.agent("claude-2"), "eval")
    host.run(0, lease="L-1")
    host.report(0, utilisation=90)
    for _ in range(4):
        clock.advance(minutes=6)
        await host.survey()
        await lab.duties()
    lane = (await lab.app.cards.survey()).hosts[0].cards[0]
    assert lane.holder is not None
    assert lane.holder.labels == [Label.UNATTENDED]
    reason = (await lab.explain(await lab.agent("claude-2"), waiting)).reason or ""
    assert "whose session is silent for 24 min while its process runs on" in lane.say
    assert lane.say.startswith(reason)
    assert (await lab.explain(await lab.agent(), held)).state is Standing.ACTIVE
    host.end(0)
    await host.survey()
    clock.advance(minutes=11)
    await lab.duties()
    assert (await lab.app.tickets.explain(await lab.operator(), ticket_number(held))).state is Standing.ENDED


async def test_a_process_that_descends_from_the_session_counts_as_the_leases(lab: Lab, clock: Clock) -> None:
    host = await lab.host()
    process = ProcessIdentity(4321, 33)
    agent = await lab.app.sessions.identify(Caller(agent="claude-9", host="local", process=process))
    held = await lab.request(agent)
    host.run(0, ancestors=[ProcessIdentity(5000, 40), process])
    clock.advance(minutes=9)
    await host.survey()
    clock.advance(minutes=9)
    await lab.duties()
    assert (await lab.explain(agent, held)).state is Standing.ACTIVE


async def test_a_reused_pid_is_not_the_sessions_process(lab: Lab) -> None:
    host = await lab.host()
    process = ProcessIdentity(4321, 33)
    agent = await lab.app.sessions.identify(Caller(agent="claude-9", host="local", process=process))
    await lab.request(agent)
    host.run(0, ancestors=[ProcessIdentity(4321, 34)])
    await host.survey()
    assert "user ada" in (await lab.app.cards.survey()).hosts[0].cards[0].processes[0].text


async def test_a_lease_named_in_an_environment_counts_only_on_its_own_card(lab: Lab) -> None:
    host = await lab.host()
    await lab.hold(await lab.agent(), "0")
    host.run(1, lease="L-1")
    await host.survey()
    state, say = await state_of(lab, 1)
    assert state is CardState.FOREIGN
    assert "without a lease" in say


@pytest.mark.parametrize("name", ["L-999", "L-0", "L--1", "L-99999999999999999999999", "1'; drop", "\x00", "ünï", "²"])
async def test_a_process_that_names_no_lease_of_ours_is_foreign(lab: Lab, name: str) -> None:
    host = await lab.host()
    host.run(0, lease=name)
    await host.survey()
    assert (await state_of(lab))[0] is CardState.FOREIGN


async def test_a_new_card_serves_tickets_that_take_any(lab: Lab) -> None:
    host = await lab.host(cards=1)
    await lab.hold(await lab.agent("claude-1"), "any")
    waiting = await lab.request(await lab.agent("claude-2"), device="any")
    host.cards.append(replace(host.cards[0], uuid="GPU-new", index=1))
    await host.survey()
    assert (await lab.explain(await lab.agent(), waiting)).cards == ["local/1"]


async def test_a_new_card_that_is_too_small_for_those_who_wait_does_not_fail_the_survey(lab: Lab) -> None:
    host = await lab.host(cards=1)
    await lab.hold(await lab.agent("claude-1"), "any")
    waiting = await lab.request(await lab.agent("claude-2"), device="any", memory_gib=100)
    host.cards = [
        replace(host.cards[0], memory_mib=24_000),
        replace(host.cards[0], uuid="GPU-new", index=1, memory_mib=24_000),
    ]
    await host.survey()
    assert (await lab.explain(await lab.agent(), waiting)).state is Standing.QUEUED


async def test_a_card_that_changed_its_place_keeps_its_queue_and_its_lease(lab: Lab) -> None:
    host, holder, _, waiting = await a_waiter_behind_a_holder(lab)
    host.cards = [replace(host.cards[0], index=1), replace(host.cards[1], index=0)]
    await host.survey()
    answer = await lab.explain(holder, waiting)
    assert answer.cards == ["local/1"]
    assert answer.reason is not None
    assert "local/1 is held by L-1" in answer.reason


async def test_a_host_that_comes_back_says_so_once(lab: Lab, clock: Clock, sql: Sql) -> None:
    host = await lab.host(interval=2.0)
    clock.advance(seconds=30)
    assert (await lab.duties())["host watch"] == 1
    assert (await lab.duties())["host watch"] == 0
    await host.survey()
    await host.survey()
    kinds = [row["kind"] for row in await sql.fetch("select kind from event where kind like 'host.%' order by id")]
    assert kinds == ["host.found", "host.silent", "host.back"]


BAD_SURVEYS: list[dict[str, Any]] = [
    {"interval_seconds": float("nan")},
    {"interval_seconds": float("inf")},
    {"interval_seconds": 0.0},
    {"interval_seconds": -2.0},
    {"age_seconds": float("nan")},
    {"age_seconds": -1.0},
    {"age_seconds": 1e9},
    {"clock": float("nan")},
    {"clock": float("inf")},
    {"clock": 1e300},
    {"provider": ""},
    {"provider": "x" * 1_000_000},
    {"version": "x" * 1_000_000},
    {"driver": "x" * 1_000_000},
    {"problem": "x" * 1_000_000},
]
BAD_CARDS: list[dict[str, Any]] = [
    {"uuid": ""},
    {"uuid": "x" * 200},
    {"uuid": "\x00"},
    {"model": "x" * 1_000_000},
    {"model": "\ud800"},
    {"index": -1},
    {"index": 2**31},
    {"memory_mib": -1},
    {"memory_mib": 2**40},
    {"used_mib": -1},
    {"used_mib": 2**40},
    {"utilisation": 101},
    {"utilisation": -1},
    {"pci_bus_id": "x" * 1_000_000},
    {"parent_uuid": "x" * 1_000_000},
]
BAD_PROCESSES: list[dict[str, Any]] = [
    {"pid": 0},
    {"pid": -1},
    {"pid": 2**40},
    {"started": -1},
    {"started": 2**70},
    {"memory_mib": -1},
    {"memory_mib": 2**70},
    {"ancestors": [ProcessIdentity(2**40, 1)]},
    {"ancestors": [ProcessIdentity(1, 2**70)]},
]


@pytest.mark.parametrize("facts", BAD_SURVEYS, ids=str)
async def test_a_survey_that_makes_no_sense_is_refused_whole(lab: Lab, sql: Sql, facts: dict[str, Any]) -> None:
    await refused(lab, sql, await lab.host(), facts)


@pytest.mark.parametrize("facts", BAD_CARDS, ids=lambda facts: str(facts)[:40])
async def test_a_card_that_makes_no_sense_is_refused_with_its_survey(lab: Lab, sql: Sql, facts: dict[str, Any]) -> None:
    host = await lab.host()
    host.cards[1] = replace(host.cards[1], **facts)
    await refused(lab, sql, host, {})


@pytest.mark.parametrize("facts", BAD_PROCESSES, ids=lambda facts: str(facts)[:40])
async def test_a_process_that_makes_no_sense_is_refused_with_its_survey(
    lab: Lab, sql: Sql, facts: dict[str, Any]
) -> None:
    host = await lab.host()
    host.run(0, **facts)
    await refused(lab, sql, host, {})


async def refused(lab: Lab, sql: Sql, host: LabHost, facts: dict[str, Any]) -> None:
    before = await whole_database(sql)
    with pytest.raises(MalformedInput) as refusal:
        await host.survey(**facts)
    assert len(str(refusal.value)) < 400
    assert await whole_database(sql) == before


HOSTILE = "a\x00b\n<script>alert(1)</script>\x1b[31m\u202e\ud800"


async def test_hostile_marks_in_what_a_host_tells_become_one_clean_line(lab: Lab) -> None:
    host = await lab.host()
    host.cards[1] = replace(host.cards[1], model=f"H200 {HOSTILE}", problem=HOSTILE, fault=CardFault.BLIND)
    host.run(0, user=HOSTILE, command=HOSTILE, lease=HOSTILE)
    await host.survey(provider=HOSTILE, driver=HOSTILE, version=HOSTILE)
    rack = await lab.app.cards.survey()
    said = [
        rack.hosts[0].provider,
        rack.hosts[0].driver or "",
        *(lane.model + lane.say for lane in rack.hosts[0].cards),
    ]
    said.extend(process.text for lane in rack.hosts[0].cards for process in lane.processes)
    for text in said:
        assert text.isprintable(), text
        text.encode()


async def test_a_megabyte_in_what_a_process_is_called_is_cut_and_blinds_nobody(lab: Lab) -> None:
    host = await lab.host()
    long = "x" * 1_000_000
    host.run(0, user=long, command=long, lease=long, ancestors=[ProcessIdentity(1, 1)] * 2_000)
    host.cards[1] = replace(host.cards[1], problem=long, fault=CardFault.LOST)
    await host.survey()
    lanes = (await lab.app.cards.survey()).hosts[0].cards
    assert [lane.state for lane in lanes] == [CardState.FOREIGN, CardState.LOST]
    assert all(len(lane.say) < 1_000 for lane in lanes)


@pytest.mark.parametrize("name", ["", " ", "x" * 81, "x" * 1_000_000, "a/b", "a,b", "7", "\x00", "\ud800"])
async def test_a_name_that_no_host_can_have_is_refused(lab: Lab, sql: Sql, name: str) -> None:
    host = await lab.host()
    host.name = name
    await refused(lab, sql, host, {})


def ticket_number(answer: TicketAnswer) -> Any:
    return int(answer.ticket.removeprefix("T-"))
