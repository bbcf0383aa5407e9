import asyncio
from collections.abc import Sequence

from support.graphs import lease_number, make, state_of, task_number
from support.lab import Lab
from support.rows import Sql
from warploom.domain.errors import WarploomError
from warploom.domain.tasks import TaskState
from warploom.services.convoys import Convoy


class Road:
    """Runs convoys that stand still until they are let go; remembers who went together."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = asyncio.Event()

    async def run(self, requests: Sequence[int]) -> list[int]:
        self.groups.append(list(requests))
        await self.gate.wait()
        if -1 in requests:
            raise ValueError("minus one")
        return [10 * request for request in requests]

    async def fill(self, convoy: "Convoy[int, int]", *requests: int) -> "list[asyncio.Task[int]]":
        """Send calls on their way one after another, each in a lane of its own."""
        calls: list[asyncio.Task[int]] = []
        for request in requests:
            calls.append(asyncio.create_task(convoy.call(request)))
            while len(self.groups) < len(calls):
                await asyncio.sleep(0)
        return calls


async def test_calls_that_meet_no_other_go_alone() -> None:
    road = Road()
    road.gate.set()
    convoy = Convoy(road.run)
    assert [await convoy.call(1), await convoy.call(2)] == [10, 20]
    assert road.groups == [[1], [2]]


async def test_calls_of_the_same_moment_go_together() -> None:
    road = Road()
    road.gate.set()
    convoy = Convoy(road.run)
    assert await asyncio.gather(*(convoy.call(number) for number in range(4))) == [0, 10, 20, 30]
    assert road.groups == [[0, 1, 2, 3]]


async def test_calls_that_find_every_lane_taken_share_the_next_one() -> None:
    road = Road()
    convoy = Convoy(road.run)
    first = await road.fill(convoy, 1, 2)
    later = [asyncio.create_task(convoy.call(number)) for number in (3, 4, 5)]
    await asyncio.sleep(0)
    road.gate.set()
    assert await asyncio.gather(*first, *later) == [10, 20, 30, 40, 50]
    assert road.groups == [[1], [2], [3, 4, 5]]


async def test_a_call_that_fails_takes_no_other_with_it() -> None:
    road = Road()
    road.gate.set()
    convoy = Convoy(road.run)
    answers = await asyncio.gather(*(convoy.call(number) for number in (1, 2, -1, 4)), return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, int)] == [10, 20, 40]
    assert isinstance(answers[2], ValueError)
    assert road.groups == [[1, 2, -1, 4], [1], [2], [-1], [4]]


async def test_a_caller_that_has_left_is_left_behind() -> None:
    road = Road()
    convoy = Convoy(road.run)
    first = await road.fill(convoy, 1, 2)
    gone, stays = (asyncio.create_task(convoy.call(number)) for number in (3, 4))
    await asyncio.sleep(0)
    gone.cancel()
    road.gate.set()
    assert await asyncio.gather(*first, stays) == [10, 20, 40]
    assert road.groups == [[1], [2], [4]]


async def test_agents_that_claim_at_the_same_moment_get_a_task_each_under_their_own_name(lab: Lab, sql: Sql) -> None:
    agents = [await lab.agent(f"agent-{number}") for number in range(12)]
    tasks = [await make(lab, agents[0], f"task {place}") for place in range(12)]
    answers = await asyncio.gather(*(lab.app.claims.claim(agent) for agent in agents))
    assert sorted(task_number(answer.claims[0].task.task) for answer in answers) == tasks
    assert [answer.claims[0].task.agent for answer in answers] == [agent.agent_name for agent in agents]
    rows = await sql.fetch(
        """
        select event.facts ->> 'agent' as told, agent.name as holder from event
        join lease on lease.id = event.lease_id join agent on agent.id = lease.agent_id
        where event.kind = 'task.claimed'
        """
    )
    assert len(rows) == 12
    assert all(row["told"] == row["holder"] for row in rows)


async def test_tasks_finished_at_the_same_moment_free_what_waits_for_all_of_them(lab: Lab) -> None:
    ada = await lab.agent("ada")
    tasks = [await make(lab, ada, f"task {place}") for place in range(10)]
    last = await make(lab, ada, "last", *tasks)
    claims = (await lab.app.claims.claim(ada, count=10)).claims
    steps = await asyncio.gather(
        *(
            lab.app.claims.done(ada, task_number(claim.task.task), lease_number(claim.lease), {"place": place})
            for place, claim in enumerate(claims)
        )
    )
    assert {step.state for step in steps} == {TaskState.DONE}
    assert await state_of(lab, ada, last) is TaskState.READY
    outputs = [(await lab.app.tasks.read(ada, task)).output for task in tasks]
    assert outputs == [{"place": place} for place in range(10)]


async def test_of_two_words_about_one_task_both_are_success_and_one_of_a_lost_lease_is_refused(lab: Lab) -> None:
    ada, bob = await lab.agent("ada"), await lab.agent("bob")
    tasks = [await make(lab, ada, f"task {place}") for place in range(4)]
    claims = (await lab.app.claims.claim(ada, count=4)).claims
    leases = [lease_number(claim.lease) for claim in claims]
    answers = await asyncio.gather(
        *(lab.app.claims.done(ada, task, lease) for task, lease in zip(tasks, leases, strict=True)),
        lab.app.claims.done(ada, tasks[3], leases[3]),
        lab.app.claims.done(bob, tasks[2], leases[1]),
        return_exceptions=True,
    )
    assert isinstance(answers[-1], WarploomError)
    assert [answer.state for answer in answers[:-1] if not isinstance(answer, BaseException)] == [TaskState.DONE] * 5
