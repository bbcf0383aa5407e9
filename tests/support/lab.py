"""A small world for tests: an App, hosts that survey, agents that ask."""

from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from warploom.app import App
from warploom.domain.callers import Caller, Role
from warploom.domain.hosts import CardFact, CardFault, ProcessFact, Survey, SurveyAnswer
from warploom.domain.identifiers import LeaseId, TaskId, parse_lease, parse_ticket
from warploom.domain.processes import ProcessIdentity
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer, Wish
from warploom.domain.tickets import read_wish
from warploom.orchestrator.duties import run_all

IDLE_MIB = 500


@dataclass
class LabHost:
    """A host agent under the test's control: what its cards show is changed here, and told with `survey`."""

    app: App
    name: str
    cards: list[CardFact]
    interval: float
    hidden: set[int] = field(default_factory=set)
    problem: str | None = None
    _next_pid: int = 5000

    async def survey(self, **changes: Any) -> SurveyAnswer:
        """Tell what the cards show now."""
        seen = [card for card in self.cards if card.index not in self.hidden]
        survey = Survey("lab", "580.65", "0.0.0", self.interval, seen, self.problem)
        return await self.app.hosts.record_survey(self.name, replace(survey, **changes))

    def run(self, index: int, lease: str | None = None, memory_mib: int = 9_000, **facts: Any) -> ProcessFact:
        """Let a process appear on a card, with a lease's name in its environment or without."""
        self._next_pid += 1
        process = ProcessFact(
            **{
                "pid": self._next_pid,
                "started": 77,
                "user": "ada",
                "command": "python",
                "memory_mib": memory_mib,
                "lease": lease,
                **facts,
            }
        )
        card = self.cards[index]
        self.report(
            index, processes=[*card.processes, process], used_mib=(card.used_mib or 0) + (process.memory_mib or 0)
        )
        return process

    def end(self, index: int, *, held_mib: int = 0) -> None:
        """Let every process leave a card; `held_mib` stays in use although nobody is there."""
        self.report(index, processes=[], used_mib=IDLE_MIB + held_mib)

    def fail(self, index: int, fault: CardFault | None) -> None:
        """Let a card fail, or work again with None."""
        self.report(index, fault=fault)

    def report(self, place: int, /, **facts: Any) -> None:
        """Let the next survey tell these facts of the card that stands at a place, which is its index unless that was changed."""
        self.cards[place] = replace(self.cards[place], **facts)


class Lab:
    """Builds hosts, agents and requests in one App."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def host(
        self,
        name: str = "local",
        cards: int = 2,
        *,
        model: str = "NVIDIA H200",
        memory_gib: int = 141,
        interval: float = 60.0,
    ) -> LabHost:
        """Make a host with clear cards and survey it once. A survey stays fresh for two intervals."""
        facts = [
            CardFact(
                f"GPU-{name}-{index:04}", index, model, memory_gib * 1024, bus(index), used_mib=IDLE_MIB, utilisation=0
            )
            for index in range(cards)
        ]
        host = LabHost(self.app, name, facts, interval)
        await host.survey()
        return host

    async def agent(self, name: str = "claude-1", *, project: str | None = None, host: str | None = "local") -> Actor:
        """Return an agent's session with a process of its own, the same one for the same name."""
        process = ProcessIdentity(crc32(name.encode()) % 2**30 + 1, 33)
        return await self.app.sessions.identify(
            Caller(agent=name, project=project, client="claude-code", host=host, process=process)
        )

    async def operator(self) -> Actor:
        """Return somebody who may drain cards."""
        return await self.app.sessions.identify(Caller(role=Role.OPERATOR, agent="ada", session_key="ada"))

    async def request(self, actor: Actor, job: str = "train", device: str = "0", **wish: Any) -> TicketAnswer:
        """Ask for cards in the words of a tool call."""
        return await self.app.tickets.request(actor, read_wish(Wish(job=job, device=device, **wish)), "local")

    async def hold(self, actor: Actor, device: str = "0", **wish: Any) -> LeaseId:
        """Ask for cards that are free, and return the lease."""
        answer = await self.request(actor, device=device, **wish)
        assert answer.state is Standing.ACTIVE, answer
        return lease_of(answer)

    async def explain(self, actor: Actor, ticket: TicketAnswer | TaskId) -> TicketAnswer:
        """Look at a ticket again."""
        task = ticket_of(ticket) if isinstance(ticket, TicketAnswer) else ticket
        return await self.app.tickets.explain(actor, task)

    async def duties(self) -> dict[str, int]:
        """Let the orchestrator do every duty once."""
        return await run_all(self.app.duties)


def bus(place: int) -> str:
    """Return the PCI bus id of the card at a place."""
    return f"00000000:{place + 1:02X}:00.0"


def lease_of(answer: TicketAnswer) -> LeaseId:
    """Return the lease of an answer that has one."""
    assert answer.lease is not None, answer
    return parse_lease(answer.lease)


def ticket_of(answer: TicketAnswer) -> TaskId:
    """Return the number of an answer's ticket."""
    return parse_ticket(answer.ticket)
