"""The world of a torture run: two replicas behind proxies, a host with cards for each, and the agents that want them."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from faults.witness import Witness
from support.proxy import Proxy
from support.servers import temporary_home
from support.serving import Caller, ServerProcess, environment_of, eventually
from torture.agents import Agent, Conduct
from torture.book import Book, Waiter
from torture.ways import Background, LongPoll, Tools, Way
from warploom.embedded.postgres import Postgres
from warploom.embedded.valkey import Valkey
from warploom.store import migrations

REPLICAS = 2
CARDS = 2
SURVEY_SECONDS = 0.3
WAYS = ("warploom wait", "gpu_wait", "long poll")


@dataclass(frozen=True, slots=True)
class Replica:
    """A server, and the proxies through which alone it reaches its database and its Redis."""

    server: ServerProcess
    database: Proxy
    redis: Proxy


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to be: the same seed means the same agents and the same troubles."""

    seed: int
    handovers: int
    seconds: float = 1500.0
    """How long it may take."""
    span: float = 60.0
    """How long offers last, and leases in silence: longer than any delivery may take."""
    longest_trouble: float = 5.0
    longest_quiet: float = 3.0
    """The longest pause between two troubles."""
    misbehaving: float = 0.03
    """The share of turns in which an agent lets its offer lapse, and of those in which it falls silent with its card."""


class World:
    """Everything that runs."""

    def __init__(self, stack: ExitStack, plan: Plan) -> None:
        self.book = Book()
        self.plan = plan
        self._stack = stack
        self._home = temporary_home(stack)
        self.postgres, self.valkey = Postgres(self._home), Valkey(self._home)
        stack.callback(self.postgres.stop)
        stack.callback(self.valkey.stop)
        self.postgres.start()
        self.valkey.start()
        _prepare(self.postgres.url)
        self.replicas = [self._replica() for _ in range(REPLICAS)]
        for replica in self.replicas:
            replica.server.start()
        for replica in self.replicas:
            replica.server.until_healthy()
        for number in range(REPLICAS):
            self._host(number)
        self.agents = [self._agent(number) for number in range(REPLICAS * CARDS * len(WAYS))]

    def close_agents(self) -> None:
        """End whatever agents run."""
        for agent in self.agents:
            agent.stopping.set()
            agent.way.close()
        for agent in self.agents:
            if agent.is_alive():
                agent.join(20)

    def _replica(self) -> Replica:
        database, redis = Proxy(self.postgres.url), Proxy(self.valkey.url)
        self._stack.callback(database.close)
        self._stack.callback(redis.close)
        settings: dict[str, object] = {
            "database_url": database.url,
            "redis_url": redis.url,
            "survey_seconds": SURVEY_SECONDS,
            "lease_minutes": self.plan.span / 60,
            "offer_seconds": self.plan.span,
            "settle_seconds": 1,
        }
        server = ServerProcess(self._home, settings)
        self._stack.callback(server.close)
        return Replica(server, database, redis)

    def _host(self, number: int) -> None:
        """Start the host agent of some fake cards, which takes another server where its own is gone, and wait for them."""
        name, home = f"host-{number}", self._home / f"host-{number}"
        urls = [replica.server.url for replica in self.replicas]
        proxy = Proxy(*urls[number:], *urls[:number])
        self._stack.callback(proxy.close)
        home.mkdir()
        environment = environment_of(
            home, url=proxy.url, host_name=name, fake_gpus=CARDS, survey_seconds=SURVEY_SECONDS
        )
        with (home / "host.log").open("ab") as log:
            command = [sys.executable, "-m", "warploom", "host"]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=home)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        caller = Caller(proxy.url)
        self._stack.callback(caller.close)
        eventually(lambda: [host for host in caller.get("/rack")["hosts"] if host["host"] == name])

    def _agent(self, number: int) -> Agent:
        """Make an agent that wants one card, whose host may speak to the other replica than it does itself."""
        name, place = WAYS[number % len(WAYS)], number // len(WAYS)
        device = f"host-{place // CARDS}/{place % CARDS}"
        waiter = Waiter(f"agent-{number}", name, number % REPLICAS)
        conduct = Conduct(device, random.Random(f"{self.plan.seed} {number}"), self.plan.misbehaving, self.postgres.url)
        return Agent(self._way(waiter), waiter, conduct, self.book)

    def _way(self, waiter: Waiter) -> Way:
        url = self.replicas[waiter.replica].server.url
        environment = environment_of(
            self._home, url=url, session=waiter.agent, agent=waiter.agent, lease_minutes=self.plan.span / 60
        )
        match waiter.way:
            case "warploom wait":
                return Background(waiter.agent, url, environment, self._home)
            case "gpu_wait":
                return Tools(environment)
            case _:
                return LongPoll(waiter.agent, url)


@contextmanager
def world(plan: Plan) -> Generator[World]:
    """Run a world for the length of a block; nothing of it is left running."""
    with ExitStack() as stack:
        made = World(stack, plan)
        stack.callback(made.close_agents)
        yield made


def _prepare(url: str) -> None:
    asyncio.run(migrations.upgrade(url))
    Witness(url)
