"""A server or the database is killed in the middle of a change to the graph: it is done whole or not at all."""

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import Any

import httpx
import pytest
from localstack import local_stack

from support.invariants import ask, assert_whole
from support.locks import somebody_waits, until
from support.rows import Sql
from support.serving import PATIENCE, Caller, Serve, ServerProcess, eventually

CLIENTS = 20
TASKS = 60
PLAN = {"tasks": [{"key": "first", "title": "First"}, {"key": "second", "title": "Second", "depends_on": ["first"]}]}
BEHIND = "select id from task where id = 2 for no key update"


@pytest.fixture
def server(serve: Serve) -> ServerProcess:
    return serve(1, redis_url="none")[0]


@pytest.fixture
def ada(server: ServerProcess) -> Generator[Caller]:
    caller = Caller(server.url, "ada")
    yield caller
    caller.close()


async def killed_while_it_waits(
    server: ServerProcess, sql: Sql, lock: str, change: Callable[[], dict[str, Any]]
) -> None:
    """Kill a server whose change waits for a lock, and start it again once nothing it had asked for goes on."""
    async with sql.transaction():
        await sql.execute(lock)
        calling = asyncio.create_task(asyncio.to_thread(change))
        await somebody_waits(sql)
        await asyncio.to_thread(server.kill)
        with pytest.raises(httpx.HTTPError):
            await calling

    async def is_over() -> bool:
        return await sql.fetchval(
            """
            select not exists (
              select from pg_stat_activity where datname = current_database() and application_name = 'warploom'
            )
            """
        )

    await until(is_over)
    await asyncio.to_thread(server.start)
    await asyncio.to_thread(server.until_healthy)


async def states(sql: Sql) -> list[str]:
    return [row["state"] for row in await sql.fetch("select state::text from task order by id")]


def chain(ada: Caller) -> str:
    """Create a task and another one behind it, claim the first, and return its lease."""
    ada.post("/tasks", title="one")
    ada.post("/tasks", title="two", depends_on=["T-1"])
    return ada.post("/claims", task="T-1")["claims"][0]["lease"]


async def test_a_server_killed_while_it_finishes_a_task_has_finished_it_whole_or_not_at_all(
    server: ServerProcess, ada: Caller, sql: Sql, database_url: str
) -> None:
    lease = chain(ada)
    done = {"lease": lease, "output": {"found": 7}}
    await killed_while_it_waits(server, sql, BEHIND, lambda: ada.post("/tasks/T-1/done", **done))
    assert await states(sql) in (["claimed", "pending"], ["done", "ready"])
    assert_whole(database_url)
    assert ada.post("/tasks/T-1/done", **done)["state"] == "done"
    assert await states(sql) == ["done", "ready"]
    assert await sql.fetchval("select count(*) from event where kind = 'task.done'") == 1
    assert_whole(database_url)


async def test_a_server_killed_while_it_gives_a_task_up_leaves_it_claimed(
    server: ServerProcess, ada: Caller, sql: Sql, database_url: str
) -> None:
    lease = chain(ada)
    fail = {"lease": lease, "reason": "wrong from the start", "failure": "user_error"}
    await killed_while_it_waits(server, sql, BEHIND, lambda: ada.post("/tasks/T-1/fail", **fail))
    assert await states(sql) == ["claimed", "pending"]
    assert_whole(database_url)
    assert ada.post("/tasks/T-1/fail", **fail)["state"] == "dead_letter"
    assert await states(sql) == ["dead_letter", "blocked"]
    assert_whole(database_url)


async def test_a_server_killed_while_it_imports_a_plan_leaves_nothing_of_it(
    server: ServerProcess, ada: Caller, sql: Sql, database_url: str
) -> None:
    """A task of a key that the plan has too is being written, which the import waits for with half of its own."""
    other = """
    insert into task (project_id, kind, state, title, key, ready_at, order_key)
    values (1, 'work', 'ready', 'other', 'second', now(), now())
    """
    await killed_while_it_waits(server, sql, other, lambda: ada.post("/graph/import", plan=PLAN))
    assert await sql.fetchval("select array_agg(key) from task") == ["second"]
    answer = ada.post("/graph/import", plan=PLAN)
    assert (answer["created"], answer["deduplicated"]) == (1, 1)
    assert_whole(database_url)


def test_a_postgres_killed_under_twenty_claiming_clients_loses_and_doubles_nothing() -> None:
    with local_stack() as stack:
        creator = stack.caller("creator")
        for number in range(TASKS):
            after = [f"T-{number - CLIENTS + 1}"] if number >= CLIENTS else []
            creator.post("/tasks", title=f"task {number}", depends_on=after)
        clients = [ClaimingClient(stack.caller(f"client-{number}")) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        eventually(lambda: sum(len(client.done) for client in clients) >= CLIENTS)
        killed = stack.kill("postgres")
        stack.until_replaced("postgres", killed)
        for client in clients:
            client.join(PATIENCE)

        assert [client.failure for client in clients] == [None] * CLIENTS
        assert {code for client in clients for code in client.refusals} <= {"unreachable", "busy"}
        assert ask(stack.database_url, "select state::text, count(*) from task group by 1") == [
            {"state": "done", "count": TASKS}
        ]
        assert ask(stack.database_url, "select count(*), count(distinct task_id) as tasks from lease") == [
            {"count": TASKS, "tasks": TASKS}
        ]
        assert ask(stack.database_url, "select count(*) from event where kind = 'task.done'")[0]["count"] == TASKS
        stack.assert_whole()


class ClaimingClient(threading.Thread):
    """Claims and finishes one task after the other until all are done, whatever it is told in between."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(daemon=True)
        self.done: list[str] = []
        self.refusals: set[str] = set()
        self.failure: Exception | None = None
        self._caller = caller

    def run(self) -> None:
        try:
            while self._call("get", "/tasks?state=pending,ready,claimed"):
                self._turn()
        except Exception as error:  # noqa: BLE001 - what a thread meets is told by the test
            self.failure = error

    def _turn(self) -> None:
        """Finish what is held, also by a claim whose answer was lost, or else claim."""
        held = self._call("get", "/me")["tasks"]
        claims = [(task["task"], task["lease"]) for task in held]
        if not claims:
            claimed = self._call("post", "/claims", json={})["claims"]
            claims = [(claim["task"]["task"], claim["lease"]) for claim in claimed]
        for task, lease in claims:
            self._call("post", f"/tasks/{task}/done", json={"lease": lease})
            self.done.append(task)

    def _call(self, method: str, path: str, **options: Any) -> Any:
        """Call until there is an answer; every refusal that may be tried again is."""
        while True:
            answer = self._caller.http.request(method, f"/api/v1{path}", **options)
            if answer.status_code == 200:
                return answer.json()
            assert answer.status_code == 503, answer.text
            self.refusals.add(answer.json()["error"]["code"])
            threading.Event().wait(0.05)
