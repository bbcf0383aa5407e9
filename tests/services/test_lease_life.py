"""The life of leases under any series of calls, surveys, deaths and clock jumps, on a real database."""

import asyncio
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support.databases import Clock, Postgres
from support.invariants import broken_rules
from support.lab import IDLE_MIB, Lab, LabHost
from warploom.app import App, build_app
from warploom.config import Settings
from warploom.domain.errors import Impossible, LeaseLost, MalformedInput, NotFound, NotYours
from warploom.domain.identifiers import LeaseId, TaskId
from warploom.domain.sessions import Actor

CARDS = 3
FRESH = timedelta(seconds=120)
FINISHED = ("done", "failed", "cancelled", "dead_letter")

agents = st.sampled_from(["claude-1", "claude-2", "codex-1"])
cards = st.integers(0, CARDS - 1)
numbers = st.integers(1, 12)
"""Leases and tickets by their number, whether they are live, over, somebody else's or not there at all."""


class LeaseLife(RuleBasedStateMachine):
    """Everybody who can change a lease, at random; what must hold is asked in SQL after every step."""

    postgres: Postgres
    home: Path

    def __init__(self) -> None:
        super().__init__()
        self._open = ExitStack()
        self._runner = self._open.enter_context(asyncio.Runner())
        url = self._open.enter_context(self.postgres.database())
        self._clock = Clock(self.postgres, url)
        self._open.callback(self._clock.close)
        environment = {"WARPLOOM_HOME": str(self.home), "WARPLOOM_DATABASE_URL": url, "WARPLOOM_REDIS_URL": "none"}
        self._app: App = build_app(Settings.load(environment))
        self._passed = timedelta(0)
        self._told: dict[int, tuple[bool, timedelta]] = {}
        self._drained: set[int] = set()
        self._known_leases: set[int] = set()
        self._finished: dict[int, str] = {}
        self._url = url

    @initialize()
    def begin(self) -> None:
        self._do(self._app.start(upgrade=False))
        self._sql: Any = self._do(asyncpg.connect(self._url))
        self._lab = Lab(self._app)
        self._host: LabHost = self._do(self._lab.host(cards=CARDS))
        self._note_survey()

    @rule(name=agents, device=st.sampled_from(["0", "1", "2", "0,1", "1,2"]), minutes=st.none() | st.just(5.0))
    def ask_for_named_cards(self, name: str, device: str, minutes: float | None) -> None:
        self._try(self._lab.request(self._actor(name), device=device, minutes=minutes))

    @rule(name=agents, count=st.integers(1, CARDS), priority=st.sampled_from(["p0", "p1", "p2"]))
    def ask_for_any_cards(self, name: str, count: int, priority: str) -> None:
        self._try(self._lab.request(self._actor(name), device="any", cards=count, priority=priority))

    @rule(name=agents, index=cards)
    def ask_after_a_look(self, name: str, index: int) -> None:
        self.survey()
        self._try(self._lab.request(self._actor(name), device=str(index), purpose=f"after a look at {index}"))

    @rule()
    def survey(self) -> None:
        self._do(self._host.survey())
        self._note_survey()

    @rule(action=st.sampled_from(["accept", "release", "release", "leave", "work"]), place=cards)
    def its_holder_acts(self, action: str, place: int) -> None:
        live = self._do(
            self._sql.fetch(
                "select lease.id, lease.task_id, agent.name, card.index from lease join agent on agent.id = lease.agent_id "
                "join lease_card on lease_card.lease_id = lease.id join card on card.id = lease_card.card_id "
                "where lease.state <> 'ended' order by lease.id, card.index"
            )
        )
        if not live:
            return
        lease, task, name, index = live[place % len(live)]
        if action == "work":
            self._host.run(index, f"L-{lease}")
        elif action == "leave":
            self._try(self._app.tickets.leave(self._actor(name), TaskId(task)))
        elif action == "accept":
            self._try(self._app.leases.accept(self._actor(name), LeaseId(lease)))
        else:
            self._try(self._app.leases.release(self._actor(name), LeaseId(lease)))

    @rule(index=cards, lease=st.none() | numbers)
    def a_process_appears(self, index: int, lease: int | None) -> None:
        self._host.run(index, None if lease is None else f"L-{lease}")

    @rule(index=cards, held_mib=st.sampled_from([0, 0, 40_000]))
    def its_processes_end(self, index: int, held_mib: int) -> None:
        self._host.end(index, held_mib=held_mib)

    @rule(name=agents, lease=numbers)
    def accept(self, name: str, lease: int) -> None:
        self._try(self._app.leases.accept(self._actor(name), LeaseId(lease)))

    @rule(name=agents, lease=numbers, step=st.integers(0, 100))
    def report(self, name: str, lease: int, step: int) -> None:
        self._try(self._app.leases.report(LeaseId(lease), step, 100, self._actor(name)))

    @rule(name=agents, lease=numbers)
    def extend(self, name: str, lease: int) -> None:
        self._try(self._app.leases.extend(self._actor(name), LeaseId(lease), 5, "loss still falling"))

    @rule(name=agents, lease=numbers)
    def release(self, name: str, lease: int) -> None:
        self._try(self._app.leases.release(self._actor(name), LeaseId(lease)))

    @rule(name=agents, ticket=numbers)
    def leave(self, name: str, ticket: int) -> None:
        self._try(self._app.tickets.leave(self._actor(name), TaskId(ticket)))

    @rule(name=agents, ticket=numbers)
    def look_or_come_back(self, name: str, ticket: int) -> None:
        self._try(self._app.tickets.wait(self._actor(name), TaskId(ticket), 0))

    @rule(seconds=st.sampled_from([30, 181, 601]), is_seen=st.booleans())
    def time_passes(self, seconds: int, is_seen: bool) -> None:
        self._clock.advance(seconds=seconds)
        self._passed += timedelta(seconds=seconds)
        if is_seen:
            self.survey()

    @rule()
    def the_orchestrator_does_its_duties(self) -> None:
        self._do(self._lab.duties())

    @precondition(lambda self: not self._drained)
    @rule(index=cards)
    def drain(self, index: int) -> None:
        operator = self._do(self._lab.operator())
        self._do(self._app.cards.drain(operator, f"local/{index}", "maintenance", preview=False))
        self._drained.add(index)

    @precondition(lambda self: self._drained)
    @rule()
    def undrain(self) -> None:
        index = self._drained.pop()
        operator = self._do(self._lab.operator())
        self._do(self._app.cards.undrain(operator, f"local/{index}", preview=False))

    @invariant()
    def everything_agrees(self) -> None:
        if hasattr(self, "_sql"):
            assert self._do(broken_rules(self._sql)) == {}

    @invariant()
    def only_cards_observed_clear_are_granted(self) -> None:
        if not hasattr(self, "_sql"):
            return
        rows = self._do(
            self._sql.fetch("select lease_id, card.index from lease_card join card on card.id = lease_card.card_id")
        )
        for row in rows:
            if row["lease_id"] not in self._known_leases:
                was_clear, at = self._told[row["index"]]
                assert was_clear
                assert self._passed - at <= FRESH
                assert row["index"] not in self._drained
        self._known_leases |= {row["lease_id"] for row in rows}

    @invariant()
    def a_finished_task_never_moves(self) -> None:
        if not hasattr(self, "_sql"):
            return
        states = {row["id"]: row["state"] for row in self._do(self._sql.fetch("select id, state::text from task"))}
        assert {task: states[task] for task in self._finished} == self._finished
        self._finished |= {task: state for task, state in states.items() if state in FINISHED}

    def teardown(self) -> None:
        if hasattr(self, "_sql"):
            self._do(self._sql.close())
            self._do(self._app.stop())
        self._open.close()

    def _actor(self, name: str) -> Actor:
        return self._do(self._lab.agent(name))

    def _try(self, work: Any) -> None:
        """Do what may be refused; a refusal is an answer like any other."""
        with suppress(Impossible, LeaseLost, MalformedInput, NotFound, NotYours):
            self._do(work)

    def _do(self, work: Any) -> Any:
        async def run() -> Any:
            return await work

        return self._runner.run(run())

    def _note_survey(self) -> None:
        for card in self._host.cards:
            is_clear = not card.processes and card.used_mib == IDLE_MIB
            self._told[card.index] = (is_clear, self._passed)


@pytest.mark.timeout(600)  # a failure is made small before it is shown
def test_whatever_is_called_in_whatever_order_the_leases_stay_whole(postgres: Postgres, tmp_path: Path) -> None:
    LeaseLife.postgres, LeaseLife.home = postgres, tmp_path
    run_state_machine_as_test(  # pyright: ignore[reportUnknownMemberType]
        LeaseLife,
        settings=settings(
            max_examples=40, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
