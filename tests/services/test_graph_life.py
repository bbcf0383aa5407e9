"""A machine that does at random what agents, people and time do to a graph, and looks at every row after each step."""

import asyncio
import tempfile
from collections.abc import Awaitable
from contextlib import ExitStack
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from support.databases import Clock, Postgres
from support.invariants import broken_rules
from support.lab import Lab
from warploom.app import build_app
from warploom.config import Settings
from warploom.domain.errors import LeaseLost, WarploomError
from warploom.domain.failures import FailureClass
from warploom.domain.identifiers import LeaseId, TaskId
from warploom.domain.tasks import MOVES, NeedsWish, TaskChanges, TaskState, TaskWish

agents = st.integers(0, 2)
numbers = st.integers(0, 1_000)

TASKS = "select *, state::text as state, kind::text as kind from task order by id"
LEASES = "select id, task_id, agent_id, session_id, state::text as state, ended::text as ended from lease order by id"


class GraphLife(RuleBasedStateMachine):
    def __init__(self, postgres: Postgres) -> None:
        super().__init__()
        self.stack = ExitStack()
        url = self.stack.enter_context(postgres.database())
        self.runner = self.stack.enter_context(asyncio.Runner())
        self.clock = Clock(postgres, url)
        self.stack.callback(self.clock.close)
        home = self.stack.enter_context(tempfile.TemporaryDirectory())
        environment = {"WARPLOOM_HOME": home, "WARPLOOM_DATABASE_URL": url, "WARPLOOM_REDIS_URL": "none"}
        app = build_app(Settings.load(environment))
        self.run(app.start())
        self.stack.callback(lambda: self.run(app.stop()))
        self.sql: Any = self.run(asyncpg.connect(url))
        self.stack.callback(lambda: self.run(self.sql.close()))
        self.lab = Lab(app)
        self.host = self.run(self.lab.host(cards=1, interval=30.0))
        self.actors = [self.run(self.lab.agent(f"agent-{number}")) for number in range(3)]
        self.operator = self.run(self.lab.operator())
        self.tasks: dict[int, Any] = {}
        self.leases: dict[int, Any] = {}
        self.titles = 0
        self.cursor = "0-0"

    def teardown(self) -> None:
        self.stack.close()

    def run(self, work: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await work

        return self.runner.run(wait())

    def attempt(self, work: Awaitable[Any]) -> Any:
        """Do something that may be refused; return the answer or the refusal."""
        try:
            return self.run(work)
        except WarploomError as refusal:
            str(refusal).encode()
            return refusal

    def rows(self, statement: str) -> list[Any]:
        return self.run(self.sql.fetch(statement))

    def some_task(self, number: int, *states: str) -> TaskId:
        """Choose a task in one of these states where there is one; otherwise any, or one that never was."""
        chosen = [task for task, row in self.tasks.items() if row["state"] in states]
        known = chosen or [*self.tasks, 9_999]
        return TaskId(known[number % len(known)])

    @rule(
        agent=agents,
        upstreams=st.lists(numbers, max_size=3),
        kind=st.sampled_from(["work", "work", "work", "work", "epic", "barrier"]),
        parent=st.none() | numbers,
        needs=st.sampled_from([None, None, None, "card", "resource"]),
        priority=st.sampled_from(["p0", "p2"]),
    )
    def create(
        self, agent: int, upstreams: list[int], kind: str, parent: int | None, needs: str | None, priority: str
    ) -> None:
        self.titles += 1
        epics = [task for task, row in self.tasks.items() if row["kind"] == "epic"]
        wish = TaskWish(
            f"task {self.titles}",
            kind=kind,
            priority=priority,
            depends_on=[f"T-{self.some_task(number)}" for number in upstreams],
            parent_id=f"T-{epics[parent % len(epics)]}" if parent is not None and epics else None,
            needs=NeedsWish(
                device="0" if needs == "card" and kind == "work" else None,
                resources=["staging"] if needs == "resource" and kind == "work" else [],
            ),
            max_attempts=2,
        )
        self.attempt(self.lab.app.tasks.create(self.actors[agent], wish))

    @rule(agent=agents, number=numbers, upstreams=st.lists(numbers, max_size=3))
    def relink(self, agent: int, number: int, upstreams: list[int]) -> None:
        names = [f"T-{self.some_task(each)}" for each in upstreams]
        task = self.some_task(number, "pending", "ready", "blocked")
        self.attempt(self.lab.app.tasks.update(self.actors[agent], task, TaskChanges(depends_on=names)))

    @rule(agent=agents, count=st.sampled_from([1, 1, 1, 3]))
    def claim_next(self, agent: int, count: int) -> None:
        self.attempt(self.lab.app.claims.claim(self.actors[agent], count=count))

    @rule(agent=agents, number=numbers)
    def claim(self, agent: int, number: int) -> None:
        self.attempt(self.lab.app.claims.claim(self.actors[agent], self.some_task(number, "ready")))

    @rule(
        number=numbers,
        verb=st.sampled_from(["done", "done", "done", "fail", "heartbeat", "escalate"]),
        stranger=st.none() | agents,
        stale=st.booleans(),
        failure=st.sampled_from(list(FailureClass)),
    )
    def write(self, number: int, verb: str, stranger: int | None, stale: bool, failure: FailureClass) -> None:
        chosen = [lease for lease, row in self.leases.items() if (row["state"] == "ended") is stale]
        if not chosen:
            return
        row = self.leases[chosen[number % len(chosen)]]
        lease, task = LeaseId(row["id"]), TaskId(row["task_id"])
        owner = next(actor for actor in self.actors if actor.agent == row["agent_id"])
        actor = owner if stranger is None else self.actors[stranger]
        claims = self.lab.app.claims
        before = self.rows("select *, state::text from task order by id")
        answer = self.attempt(
            {
                "done": lambda: claims.done(actor, task, lease, {"by": actor.agent_name}),
                "fail": lambda: claims.fail(actor, task, lease, "no luck", failure),
                "heartbeat": lambda: claims.heartbeat(actor, task, lease, "on it", number % 101),
                "escalate": lambda: claims.escalate(actor, task, lease, "help"),
            }[verb]()
        )
        if actor.agent != owner.agent:
            assert isinstance(answer, WarploomError)
        elif stale:
            said = {"done": "done", "fail": "failed", "escalate": "escalated"}.get(verb)
            assert isinstance(answer, LeaseLost) == (row["ended"] != said)
        if actor.agent != owner.agent or stale:
            assert self.rows("select *, state::text from task order by id") == before

    @rule(
        number=numbers,
        verb=st.sampled_from(["reset", "cancel", "cascade", "skip", "answer", "done", "dead", "recover"]),
    )
    def decide(self, number: int, verb: str) -> None:
        repairs, operator = self.lab.app.repairs, self.operator
        lost = self.some_task(number, "dead_letter", "cancelled", "blocked", "failed")
        task = self.some_task(number)
        self.attempt(
            {
                "reset": lambda: repairs.reset(operator, lost),
                "cancel": lambda: repairs.cancel(operator, task),
                "cascade": lambda: repairs.cancel(operator, task, cascade=True),
                "skip": lambda: repairs.skip(operator, lost),
                "answer": lambda: repairs.answer(operator, self.some_task(number, "blocked"), "yes"),
                "done": lambda: repairs.batch_done(operator, [task, lost]),
                "dead": lambda: repairs.batch_done(operator, [task], dead_letter=True),
                "recover": lambda: repairs.recover(operator, execute=True),
            }[verb]()
        )

    @rule()
    def look_at_cards(self) -> None:
        self.run(self.host.survey())

    @rule(agent=agents)
    def call(self, agent: int) -> None:
        self.run(self.lab.agent(f"agent-{agent}"))

    @rule(seconds=st.sampled_from([1, 61, 181, 301, 601]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)
        self.run(self.lab.duties())

    @invariant()
    def tasks_move_only_as_they_may(self) -> None:
        now = {row["id"]: row for row in self.rows(TASKS)}
        for number, before in self.tasks.items():
            state, after = TaskState(before["state"]), TaskState(now[number]["state"])
            assert state is not TaskState.DONE or without_count(now[number]) == without_count(before)
            assert after is state or self.can_reach(state, after), (number, state, after)
        self.tasks = now
        self.leases = {row["id"]: row for row in self.rows(LEASES)}

    def can_reach(self, start: TaskState, goal: TaskState) -> bool:
        """Say whether moves that are allowed lead from one state to another: a step of this machine may be several."""
        seen, open_states = {start}, [start]
        while open_states:
            for state in MOVES[open_states.pop()]:
                if state not in seen:
                    seen.add(state)
                    open_states.append(state)
        return goal in seen

    @invariant()
    def everything_that_must_hold_does(self) -> None:
        assert self.run(broken_rules(self.sql)) == {}

    @invariant()
    def tickets_stand_in_queues_and_nothing_else_does(self) -> None:
        tickets = "select id from task where state = 'ready' and need_count > 0 and session_id is not null order by id"
        assert self.rows(tickets) == self.rows("select distinct task_id as id from queue order by id")

    @invariant()
    def events_can_be_told(self) -> None:
        lines, self.cursor = self.run(self.lab.app.events.page(self.cursor, 200))
        assert all("?" not in line.text for line in lines)

    @invariant()
    def everything_can_be_shown(self) -> None:
        for task in list(self.tasks)[-4:]:
            self.run(self.lab.app.tasks.read(self.operator, TaskId(task)))
        self.run(self.lab.app.tasks.ready(self.operator))


def without_count(row: Any) -> dict[str, Any]:
    """A task that was declared done while others were open still counts them, and nothing else of it changes."""
    return {name: value for name, value in row.items() if name != "unmet"}


@pytest.mark.timeout(600)  # a failure is made small before it is shown
def test_whatever_happens_the_graph_stays_true(postgres: Postgres) -> None:
    class ThisLife(GraphLife):
        def __init__(self) -> None:
            super().__init__(postgres)

    run_state_machine_as_test(
        ThisLife,
        settings=settings(
            max_examples=30,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
