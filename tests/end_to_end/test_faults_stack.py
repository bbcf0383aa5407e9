"""Each part of a running stack is killed at a bad moment: nobody loses a lease or a ticket, and every card comes back."""

import asyncio
import os
import signal
import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from localstack import TRAINING, Gate, LocalStack, StdioServer, local_stack

from support.invariants import ask
from support.serving import PATIENCE, WAKE_SECONDS, Caller, Command, eventually
from warploom.app import build_app
from warploom.orchestrator.duties import run_all

LEASE_MINUTES = 0.1


@pytest.fixture(scope="module")
def running() -> Generator[LocalStack]:
    with local_stack(lease_minutes=LEASE_MINUTES) as stack:
        yield stack


@pytest.fixture
def stack(running: LocalStack) -> Generator[LocalStack]:
    """The stack of this module; a test leaves both cards free and everything as it must be."""
    running.clear()
    yield running
    running.until_healthy()
    running.until_clear()
    running.assert_whole()


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def training(stack: LocalStack, gate: Gate) -> tuple[Command, int, str]:
    """Let a run of its own session train on card 0; return it with the training's pid and lease."""
    run = stack.command("run", "--card", "0", "--", *TRAINING, str(gate.path), session="runner")
    assert run.process.stdout is not None
    pid, lease = run.process.stdout.readline().split()
    eventually(lambda: stack.lane(0)["lease_mib"] == 9_000)
    return run, int(pid), lease


def queued(stack: LocalStack, name: str, card: int = 0) -> tuple[Caller, str]:
    """Let an agent join a card's queue."""
    caller = stack.caller(name)
    answer = caller.request(device=str(card), job=f"job of {name}")
    assert answer["state"] == "queued"
    return caller, answer["ticket"]


def waiting(stack: LocalStack, ticket: str) -> Command:
    """Let a command wait for a ticket."""
    before = stack.anybody.listeners()
    waiter = stack.command("wait", ticket, session="waiter")
    assert ticket in waiter.first_words()
    eventually(lambda: stack.anybody.listeners() > before)
    return waiter


def granted(waiter: Command, agent: Caller, seconds: float = PATIENCE) -> str:
    """Let a waiter end with its lease, and return that lease."""
    status, printed, _ = waiter.finish(seconds)
    assert status == 0
    lease = agent.get("/me")["leases"][0]["lease"]
    assert f"WARPLOOM_LEASE={lease}" in printed
    return lease


def test_a_server_killed_while_one_waits_and_one_trains_loses_neither(stack: LocalStack, gate: Gate) -> None:
    """Casebook C33."""
    run, _, lease = training(stack, gate)
    agent, ticket = queued(stack, "patient")
    waiter = waiting(stack, ticket)

    killed = stack.kill("server")
    stack.until_replaced("server", killed)

    assert (stack.lease(lease)["state"], stack.ticket(ticket)["state"]) == ("active", "ready")
    gate.open()
    status, _, said = run.finish()
    assert (status, f"released {lease}" in said) == (0, True)
    agent.release(granted(waiter, agent))


def test_nothing_is_granted_while_the_host_agent_is_dead(stack: LocalStack) -> None:
    holder = stack.caller("holder")
    held = holder.request(device="0")["lease"]
    with stack.unsupervised():
        killed = stack.kill("host")
        eventually(lambda: [stack.lane(1)["state"], stack.anybody.doctor("local")[0]] == ["unseen", "bad"])
        holder.release(held)
        first, second = queued(stack, "first", 0), queued(stack, "second", 1)
        asyncio.run(_do_every_duty(stack))
        assert [stack.ticket(ticket)["state"] for _, ticket in (first, second)] == ["ready", "ready"]
        assert "silent" in stack.anybody.doctor("local")[1]
    stack.until_replaced("host", killed)
    for agent, ticket in (first, second):
        lease = eventually(lambda agent=agent: agent.get("/me")["leases"])[0]["lease"]
        assert stack.ticket(ticket)["lease_id"] == int(lease[2:])
        agent.release(lease)


async def _do_every_duty(stack: LocalStack) -> None:
    app = build_app(replace(stack.settings, database_url=stack.database_url, redis_url="none"))
    await app.start(upgrade=False)
    await run_all(app.duties)
    await app.stop()


def test_a_killed_run_leaves_the_card_to_its_command_for_as_long_as_that_lives(stack: LocalStack, gate: Gate) -> None:
    run, pid, lease = training(stack, gate)
    agent, ticket = queued(stack, "patient")
    run.kill()

    granted_for = ask(stack.database_url, "select expires_at as till from lease where id = $1", int(lease[2:]))[0]
    outlives = "select 1 from lease where id = $1 and state = 'active' and clock_now() > $2"
    eventually(lambda: ask(stack.database_url, outlives, int(lease[2:]), granted_for["till"]))
    assert psutil.pid_exists(pid)
    assert stack.ticket(ticket)["state"] == "ready"

    gate.open()
    eventually(lambda: stack.lease(lease)["ended"] == "expired")
    assert not psutil.pid_exists(pid)
    next_lease = eventually(lambda: agent.get("/me")["leases"])[0]["lease"]
    agent.release(next_lease)
    lost = stack.anybody.http.post(f"/api/v1/leases/{lease}/report", json={"step": 1})
    assert (lost.status_code, lost.json()["error"]["code"]) == (409, "lease_lost")


def test_a_killed_waiter_keeps_its_place_and_another_takes_the_card(stack: LocalStack) -> None:
    holder = stack.caller("holder")
    held = holder.request(device="0")["lease"]
    agent, ticket = queued(stack, "patient")
    waiting(stack, ticket).kill()
    behind, later = queued(stack, "later")

    assert agent.get(f"/tickets/{ticket}")["place"] == 1
    waiter = waiting(stack, ticket)
    holder.release(held)
    agent.release(granted(waiter, agent, WAKE_SECONDS))
    lease = eventually(lambda: behind.get("/me")["leases"])[0]
    assert lease["ticket"] == later
    behind.release(lease["lease"])


def test_a_killed_stdio_server_leaves_lease_and_ticket_to_the_next_of_its_session(stack: LocalStack) -> None:
    first = StdioServer(stack.environment)
    blocker = stack.caller("blocker")
    blocked = blocker.request(device="1")["lease"]
    held = first.call("gpu_request", job="train", device="0")
    wanted = first.call("gpu_request", job="eval", device="1")
    first.kill()

    assert (stack.lease(held["lease"])["state"], stack.ticket(wanted["ticket"])["state"]) == ("active", "ready")
    second = StdioServer(stack.environment)
    me = second.call("loom_me")
    assert [lease["lease"] for lease in me["leases"]] == [held["lease"]]
    assert [ticket["ticket"] for ticket in me["tickets"]] == [wanted["ticket"]]
    blocker.release(blocked)
    offered = eventually(lambda: stack.ticket(wanted["ticket"])["lease_id"])
    for lease in (held["lease"], f"L-{offered}"):
        assert second.call("gpu_release", lease=lease)["state"] == "ended"
    second.kill()


def test_a_wait_of_a_session_outlives_the_server_it_began_with(stack: LocalStack) -> None:
    held = stack.caller("holder").request(device="0")["lease"]
    session = StdioServer(stack.environment)
    ticket = session.call("gpu_request", job="eval", device="0")["ticket"]
    listening = stack.anybody.listeners()
    answers: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: answers.append(session.call("gpu_wait", ticket=ticket)))
    waiting.start()
    eventually(lambda: stack.anybody.listeners() == listening + 1)

    server = stack.kill("server")
    stack.until_replaced("server", server)
    waiting.join(PATIENCE)

    (answer,) = answers
    assert stack.lease(held)["ended"] == "expired"
    assert (answer["state"], answer["card"]) == ("offered", "local/0")
    assert answer["export"]["WARPLOOM_LEASE"] == answer["lease"]
    assert session.call("gpu_release", lease=answer["lease"])["state"] == "ended"
    session.kill()


def test_a_session_that_never_comes_back_gives_its_cards_back(stack: LocalStack) -> None:
    gone = StdioServer(stack.environment)
    held = gone.call("gpu_request", job="train", device="0")["lease"]
    wanted = gone.call("gpu_request", job="eval", device="0", purpose="second")["ticket"]
    gone.kill()
    eventually(lambda: stack.lease(held)["ended"] == "expired")

    def parked() -> bool:
        ask(stack.database_url, "update lease set expires_at = clock_now() where state = 'offered'")
        return stack.ticket(wanted)["state"] == "blocked"

    eventually(parked)
    assert "missed offers" in stack.ticket(wanted)["outcome"]


def test_an_outage_longer_than_a_lease_ends_no_lease_whose_job_goes_on(stack: LocalStack, gate: Gate) -> None:
    """Casebook C33."""
    run, _, lease = training(stack, gate)
    agent, ticket = queued(stack, "patient")
    with stack.unsupervised():
        host, server = stack.kill("host"), stack.kill("server")
        for table in ("lease", "leader"):
            ask(stack.database_url, f"update {table} set expires_at = expires_at - interval '1 hour'")
    for name, killed in (("server", server), ("host", host)):
        stack.until_replaced(name, killed)
    eventually(lambda: ask(stack.database_url, "select 1 from leader where expires_at > clock_now()"))
    eventually(lambda: stack.lane(0)["lease_mib"] == 9_000)
    assert (stack.lease(lease)["state"], stack.ticket(ticket)["state"]) == ("active", "ready")
    gate.open()
    assert run.finish()[0] == 0
    agent.release(eventually(lambda: agent.get("/me")["leases"])[0]["lease"])


def test_a_killed_valkey_comes_back_and_carries_hints_again(stack: LocalStack) -> None:
    assert stack.anybody.doctor("bus")[0] == "ok"
    with stack.unsupervised():
        killed = stack.kill("valkey")
        eventually(lambda: stack.anybody.doctor("bus")[0] == "warn")
        assert "not reachable" in stack.anybody.doctor("bus")[1]
    stack.until_replaced("valkey", killed)
    eventually(lambda: stack.anybody.doctor("bus")[0] == "ok")


def test_a_postgres_killed_under_twenty_clients_is_told_clearly_and_loses_nothing(stack: LocalStack) -> None:
    turns = threading.Semaphore(0)
    clients = [BusyClient(stack.caller(f"client-{number}"), turns) for number in range(20)]
    for client in clients:
        client.start()
    for _ in range(60):
        assert turns.acquire(timeout=PATIENCE)
    killed = stack.kill("postgres")
    stack.until_replaced("postgres", killed)
    for _ in range(100):
        assert turns.acquire(timeout=PATIENCE)
    for client in clients:
        client.is_over.set()
    for client in clients:
        client.join(PATIENCE)

    refusals = {refusal for client in clients for refusal in client.refusals}
    assert refusals <= {(503, "unreachable"), (503, "busy")}
    for client in clients:
        assert client.failure is None
        for lease in client.released:
            assert stack.lease(lease)["ended"] == "released"


class BusyClient(threading.Thread):
    """Asks for a card, reports on it and gives it back, again and again, whatever it is told in between."""

    def __init__(self, caller: Caller, turns: threading.Semaphore) -> None:
        super().__init__(daemon=True)
        self.is_over = threading.Event()
        self.refusals: set[tuple[int, str]] = set()
        self.released: list[str] = []
        self.failure: Exception | None = None
        self._caller = caller
        self._turns = turns

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                self._turn()
                self._turns.release()
            self._end()
        except Exception as error:  # noqa: BLE001 - what a thread meets is told by the test
            self.failure = error

    def _turn(self) -> None:
        answer = self._insist("POST", "/tickets", job="train", device="any")
        if answer["lease"] is None:
            answer = self._insist("GET", f"/tickets/{answer['ticket']}/wait?seconds=0.5")
        if answer["lease"] is None:
            self._insist("DELETE", f"/tickets/{answer['ticket']}")
            return
        self._insist("POST", f"/leases/{answer['lease']}/report", step=1)
        self._insist("POST", f"/leases/{answer['lease']}/release")
        self.released.append(answer["lease"])

    def _end(self) -> None:
        me = self._insist("GET", "/me")
        for lease in me["leases"]:
            self._insist("POST", f"/leases/{lease['lease']}/release")
        for ticket in me["tickets"]:
            self._insist("DELETE", f"/tickets/{ticket['ticket']}")

    def _insist(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        """Try again for as long as the answer is a refusal that says so."""
        while True:
            answer = self._caller.http.request(method, f"/api/v1{path}", json=body or None)
            if answer.status_code == 200:
                return answer.json()
            assert answer.status_code == 503, answer.text
            self.refusals.add((answer.status_code, answer.json()["error"]["code"]))
            threading.Event().wait(0.05)


def test_everything_killed_at_once_comes_back_with_the_lease_and_the_queue(stack: LocalStack, gate: Gate) -> None:
    run, pid, lease = training(stack, gate)
    agent, ticket = queued(stack, "patient")
    parts = ("daemon", "host", "server", "valkey", "postgres")
    pids = [stack.part(name).process.pid for name in parts]
    for number in pids:
        os.kill(number, signal.SIGKILL)
    assert stack.command("up").finish()[0] == 0

    assert psutil.pid_exists(pid)
    eventually(lambda: stack.lane(0)["lease_mib"] == 9_000)
    assert (stack.lease(lease)["state"], stack.ticket(ticket)["state"]) == ("active", "ready")
    gate.open()
    assert run.finish()[0] == 0
    agent.release(eventually(lambda: agent.get("/me")["leases"])[0]["lease"])
