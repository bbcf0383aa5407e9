"""A machine that does at random what agents, hosts, operators and time do, and looks at every row after each step."""

import asyncio
import tempfile
from collections.abc import Awaitable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from support.databases import Clock, Postgres
from support.lab import IDLE_MIB, Lab
from warploom.app import build_app
from warploom.config import Settings
from warploom.domain.errors import LeaseLost, WarploomError
from warploom.domain.identifiers import LeaseId, ReservationId, TaskId
from warploom.domain.leases import MOVES, LeaseState
from warploom.domain.queues import decide
from warploom.domain.reservations import ReservationWish
from warploom.domain.sessions import Actor
from warploom.services.grants import slots_of
from warploom.store import cards as card_store
from warploom.store import queues as queue_store

CARDS = 3
INTERVAL = 30.0
OFFER = timedelta(seconds=180)
agents = st.integers(0, 2)
cards = st.integers(0, CARDS - 1)
numbers = st.integers(0, 1_000)

LEASES = """
select lease.id, lease.task_id, lease.state::text, lease.ended::text, lease.agent_id,
  array(select card.index from lease_card join card on card.id = card_id where lease_id = lease.id order by 1) as cards,
  array(select card.index from lease_card join card on card.id = card_id where lease_id = lease.id and live order by 1) as live_cards
from lease order by lease.id
"""
QUEUES = """
select task.id, task.state::text, task.need_cards, task.need_count,
  array(select card_id from queue where task_id = task.id order by 1) as queued
from task order by task.id
"""
INTO_WINDOWS = """
select lease.id, reservation.id from lease
join task on task.id = lease.task_id
join lease_card on lease_card.lease_id = lease.id
join reservation on reservation.card_id = lease_card.card_id and reservation.agent_id <> lease.agent_id
where lease.granted_at > reservation.created_at and lease.granted_at < least(reservation.ends_at, reservation.given_up_at)
  and (
    lease.granted_at >= reservation.starts_at
    or task.run_time is null
    or lease.granted_at + task.run_time > reservation.starts_at
  )
"""
DISAGREEING = """
select task.id from task full join lease on lease.id = task.lease_id
where (task.state = 'claimed') <> (lease.state is not null and lease.state <> 'ended') and (task.id is not null or lease.state <> 'ended')
   or task.state = 'claimed' and lease.task_id <> task.id
"""


class LeaseLife(RuleBasedStateMachine):
    def __init__(self, postgres: Postgres) -> None:
        super().__init__()
        self.stack = ExitStack()
        url = self.stack.enter_context(postgres.database())
        self.runner = self.stack.enter_context(asyncio.Runner())
        self.clock = Clock(postgres, url)
        self.stack.callback(self.clock.close)
        home = self.stack.enter_context(tempfile.TemporaryDirectory())
        app = build_app(
            Settings.load({"WARPLOOM_HOME": home, "WARPLOOM_DATABASE_URL": url, "WARPLOOM_REDIS_URL": "none"})
        )
        self.run(app.start())
        self.stack.callback(lambda: self.run(app.stop()))
        self.sql: Any = self.run(asyncpg.connect(url))
        self.stack.callback(lambda: self.run(self.sql.close()))
        self.lab = Lab(app)
        self.host = self.run(self.lab.host(cards=CARDS, interval=INTERVAL))
        self.actors = [self.run(self.lab.agent(f"agent-{number}")) for number in range(3)]
        self.operator = self.run(self.lab.operator())
        self.unlooked: set[int] = set()
        self.looked_clear = set(range(CARDS))
        self.leases: dict[int, Any] = {}
        self.finished: dict[int, Any] = {}
        self.cursor = "0-0"
        self.last_event = (0, 0)

    def teardown(self) -> None:
        self.stack.close()

    def run(self, work: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await work

        return self.runner.run(wait())

    def attempt(self, work: Awaitable[Any]) -> WarploomError | None:
        """Do something that may be refused, and return the refusal."""
        try:
            self.run(work)
        except WarploomError as refusal:
            str(refusal).encode()
            return refusal
        return None

    def rows(self, statement: str) -> list[Any]:
        return self.run(self.sql.fetch(statement))

    def some_lease(self, number: int, *, only_live: bool) -> LeaseId:
        """Choose a live lease where there is one; otherwise any, or one that never was."""
        live = [lease for lease, row in self.leases.items() if row["state"] != "ended"]
        known = live if only_live and live else [*self.leases, 9_999]
        return LeaseId(known[number % len(known)])

    def owner_of(self, lease: LeaseId, otherwise: int) -> Actor:
        row = self.leases.get(lease)
        owners = [actor for actor in self.actors if row is not None and actor.agent == row["agent_id"]]
        return owners[0] if owners else self.actors[otherwise]

    def some_ticket(self, number: int, agent: int) -> tuple[TaskId, Actor]:
        """Choose a ticket that is open, and its owner; where there is none, one that never was."""
        known = self.rows(
            "select id, agent_id from task where state in ('ready', 'blocked', 'claimed') order by state, id"
        )
        if not known:
            return TaskId(9_999), self.actors[agent]
        row = known[number % len(known)]
        return TaskId(row["id"]), next(actor for actor in self.actors if actor.agent == row["agent_id"])

    @rule(
        agent=agents,
        wish=st.sampled_from(
            [("0", 1), ("1", 1), ("2", 1), ("0,1", 1), ("1,2", 1), ("any", 1), ("any", 2), ("any", 3)]
        ),
        minutes=st.sampled_from([None, 1, 10, 60]),
        priority=st.sampled_from(["p0", "p1", "p2"]),
    )
    def request(self, agent: int, wish: tuple[str, int], minutes: float | None, priority: str) -> None:
        device, count = wish
        job = f"job on {device} of {count}"
        self.run(self.lab.request(self.actors[agent], job, device, cards=count, minutes=minutes, priority=priority))

    @rule()
    def survey(self) -> None:
        self.look()
        self.nothing_more_could_be_granted()

    def look(self) -> None:
        self.leases_move_forward_and_are_made_on_clear_cards()
        self.run(self.host.survey())
        self.unlooked.clear()
        self.looked_clear = {
            card.index
            for card in self.host.cards
            if card.index not in self.host.hidden and not card.processes and card.used_mib == IDLE_MIB
        }

    @rule(card=cards, whose=st.sampled_from(["holder", "ex-holder", "stranger"]))
    def start_process(self, card: int, whose: str) -> None:
        if self.host.cards[card].processes:
            return
        own = [row for row in self.leases.values() if card in row["cards"]]
        live = [row for row in own if row["state"] != "ended"]
        found = {"holder": live, "ex-holder": [row for row in own if row not in live], "stranger": []}[whose]
        if found or whose == "stranger":
            self.host.run(card, lease=f"L-{found[-1]['id']}" if found else None)

    @rule(card=cards, held_mib=st.sampled_from([0, 0, 20_000]))
    def end_processes(self, card: int, held_mib: int) -> None:
        self.host.end(card, held_mib=held_mib)

    @rule(card=cards)
    def lose_or_find_card(self, card: int) -> None:
        self.host.hidden ^= {card}

    @rule(
        number=numbers,
        verb=st.sampled_from(["accept", "extend", "report", "job", "release"]),
        stranger=st.none() | agents,
        only_live=st.booleans(),
    )
    def write(self, number: int, verb: str, stranger: int | None, only_live: bool) -> None:
        lease, leases = self.some_lease(number, only_live=only_live), self.lab.app.leases
        actor = self.owner_of(lease, 0) if stranger is None else self.actors[stranger]
        before = self.leases.get(lease)
        refusal = self.attempt(
            {
                "accept": lambda: leases.accept(actor, lease),
                "extend": lambda: leases.extend(actor, lease, 5, "slow"),
                "report": lambda: leases.report(lease, number, 1_000, actor),
                "job": lambda: leases.report(lease, number, 1_000),
                "release": lambda: leases.release(actor, lease),
            }[verb]()
        )
        if before is None or (verb != "job" and before["agent_id"] != actor.agent):
            assert refusal is not None
        elif before["state"] == "ended" and not (verb == "release" and before["ended"] == "released"):
            assert isinstance(refusal, LeaseLost)

    @rule(number=numbers)
    def finish_and_look(self, number: int) -> None:
        lease = self.some_lease(number, only_live=True)
        for index in self.leases[lease]["cards"] if lease in self.leases else ():
            self.host.end(index)
        self.attempt(self.lab.app.leases.release(self.owner_of(lease, 0), lease))
        self.survey()

    @rule()
    def miss_an_offer(self) -> None:
        self.clock.advance(seconds=181)
        self.look()
        self.duties()

    @rule(agent=agents, number=numbers)
    def leave(self, agent: int, number: int) -> None:
        task, owner = self.some_ticket(number, agent)
        self.attempt(self.lab.app.tickets.leave(owner, task))

    @rule(agent=agents, number=numbers)
    def wait(self, agent: int, number: int) -> None:
        task, owner = self.some_ticket(number, agent)
        self.attempt(self.lab.app.tickets.wait(owner, task, 0))

    @rule(agent=agents)
    def call(self, agent: int) -> None:
        again = self.run(self.lab.agent(f"agent-{agent}"))
        assert again.session == self.actors[agent].session
        self.run(self.lab.app.sessions.take_notices(again))

    @rule(card=cards, back=st.sampled_from([True, True, False]), preview=st.booleans())
    def drain(self, card: int, back: bool, preview: bool) -> None:
        name = f"local/{card}"
        service = self.lab.app.cards
        if back:
            self.run(service.undrain(self.operator, name, preview=preview))
        else:
            self.run(service.drain(self.operator, name, None, preview=preview))

    @rule(
        agent=agents,
        card=cards,
        start=st.sampled_from([None, 1, 10, 30]),
        minutes=st.sampled_from([1, 5, 20]),
    )
    def reserve(self, agent: int, card: int, start: float | None, minutes: float) -> None:
        now = self.run(self.sql.fetchval("select clock_now()"))
        wish = ReservationWish(f"local/{card}", minutes, None if start is None else now + timedelta(minutes=start))
        self.attempt(self.lab.app.reservations.reserve(self.actors[agent], wish))

    @rule(agent=agents, number=numbers, preview=st.booleans())
    def give_up(self, agent: int, number: int, preview: bool) -> None:
        known = [row["id"] for row in self.rows("select id from reservation order by id")] or [9_999]
        reservation = ReservationId(known[number % len(known)])
        self.attempt(self.lab.app.reservations.give_up(self.actors[agent], reservation, preview=preview))

    @rule(seconds=st.sampled_from([1, 5, 31, 61, 181, 601]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)

    @rule()
    def duties(self) -> None:
        self.run(self.lab.duties())
        self.nothing_more_could_be_granted()

    @precondition(lambda self: self.leases)
    @rule(seconds=st.sampled_from([61, 181, 601]))
    def host_is_silent_for_a_while(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)
        self.run(self.lab.duties())
        self.look()

    @invariant()
    def leases_move_forward_and_are_made_on_clear_cards(self) -> None:
        now = {row["id"]: row for row in self.rows(LEASES)}
        for number, before in self.leases.items():
            after = now[number]["state"]
            if after != before["state"]:
                assert LeaseState(after) in MOVES[LeaseState(before["state"])]
                if now[number]["ended"] in ("released", "expired"):
                    self.unlooked.update(now[number]["cards"])
        known = self.run(self.cards_as_known())
        for number in now.keys() - self.leases.keys():
            assert number > max(self.leases, default=0)
            for index in now[number]["cards"]:
                if now[number]["state"] == "ended":
                    continue
                card = known[index]
                assert index in self.looked_clear
                assert index not in self.unlooked
                assert card["condition"] == "clear"
                assert card["service"] == "in_service"
                assert card["age"] <= timedelta(seconds=2 * INTERVAL + 20)
        self.leases = now

    async def cards_as_known(self) -> dict[int, Any]:
        rows = await self.sql.fetch(
            "select index, condition::text, service::text, clock_now() - observed_at as age from card"
        )
        return {row["index"]: row for row in rows}

    @invariant()
    def a_card_and_a_task_have_one_live_lease(self) -> None:
        live = [row for row in self.leases.values() if row["state"] != "ended"]
        held = [index for row in live for index in row["live_cards"]]
        assert len(held) == len(set(held))
        assert len(live) == len({row["task_id"] for row in live})
        assert all(row["cards"] == row["live_cards"] for row in live)
        assert all(row["live_cards"] == [] for row in self.leases.values() if row["state"] == "ended")

    @invariant()
    def nobody_is_granted_a_card_in_somebody_else_s_window_or_runs_into_one(self) -> None:
        assert self.rows(INTO_WINDOWS) == []

    @invariant()
    def tasks_agree_with_leases_and_finished_ones_never_move(self) -> None:
        assert self.rows(DISAGREEING) == []
        finished = {row["id"]: row for row in self.rows("select * from task where finished_at is not null")}
        for number, before in self.finished.items():
            assert finished.get(number) == before
        self.finished = finished

    @invariant()
    def queues_hold_exactly_the_ready_tickets(self) -> None:
        for row in self.rows(QUEUES):
            if row["state"] != "ready":
                assert row["queued"] == []
            elif row["need_cards"]:
                assert row["queued"] == sorted(row["need_cards"])
            else:
                assert len(row["queued"]) == CARDS

    @invariant()
    def events_only_grow_in_their_order(self) -> None:
        lines, self.cursor = self.run(self.lab.app.events.page(self.cursor, 200))
        for line in lines:
            xid, _, number = line.cursor.partition("-")
            assert (int(xid), int(number)) > self.last_event
            self.last_event = (int(xid), int(number))
            assert "?" not in line.text

    @invariant()
    def everything_can_be_shown(self) -> None:
        rack = self.run(self.lab.app.cards.survey())
        ready = self.rows("select id from task where state = 'ready'")
        assert rack.waiting == len(ready)
        for row in self.rows("select id from task order by id desc limit 6"):
            self.run(self.lab.app.tickets.explain(self.operator, TaskId(row["id"])))

    def nothing_more_could_be_granted(self) -> None:
        async def left_over() -> list[Any]:
            async with self.lab.app.database.connection() as conn:
                known = await card_store.read_cards(conn)
                heads = await queue_store.read_heads(conn, sorted({card.host_id for card in known}))
                now = await conn.fetchval("select clock_now()")
            waiting = [replace(head.waiting, lead=OFFER) for head in heads]
            return decide(slots_of(known, now), waiting, now)

        assert self.run(left_over()) == []


@pytest.mark.timeout(600)  # a failure is made small before it is shown
def test_whatever_happens_every_row_stays_true(postgres: Postgres) -> None:
    class ThisLife(LeaseLife):
        def __init__(self) -> None:
            super().__init__(postgres)

    run_state_machine_as_test(
        ThisLife,
        settings=settings(
            max_examples=30,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
