"""The composition root: settings in, App out; one attribute per service."""

import asyncio
from dataclasses import dataclass

from warploom.bus.hints import Bus
from warploom.config import Settings
from warploom.domain.breaker import BreakerRules
from warploom.domain.errors import MalformedInput, Unreachable
from warploom.domain.reservations import ReservationRules
from warploom.domain.surveys import SurveyRules
from warploom.domain.tasks import HeadStarts
from warploom.orchestrator.reach import Reach
from warploom.services.agreements import AgreementService
from warploom.services.backstop import Backstop
from warploom.services.calibrations import CalibrationService
from warploom.services.cards import CardService
from warploom.services.changes import Changes
from warploom.services.claims import AttemptRules, ClaimService
from warploom.services.deliveries import DeliveryService
from warploom.services.errands import ErrandService
from warploom.services.events import EventService
from warploom.services.grants import GrantTimes
from warploom.services.graphs import GraphService
from warploom.services.health import HealthService
from warploom.services.hosts import HostService
from warploom.services.leases import LeaseService, OfferRules
from warploom.services.messages import MessageService
from warploom.services.projects import ProjectService
from warploom.services.proposals import ProposalService
from warploom.services.releases import ReleaseService
from warploom.services.repairs import RepairService
from warploom.services.reservations import ReservationService
from warploom.services.sessions import SessionService
from warploom.services.tasks import TaskRules, TaskService
from warploom.services.tickets import TicketRules, TicketService
from warploom.store import migrations
from warploom.store.database import Database
from warploom.telemetry.logs import get_logger

_log = get_logger("app")


@dataclass(frozen=True, slots=True)
class App:
    """Everything a door needs."""

    settings: Settings
    database: Database
    bus: Bus
    sessions: SessionService
    tickets: TicketService
    leases: LeaseService
    cards: CardService
    calibrations: CalibrationService
    reservations: ReservationService
    hosts: HostService
    errands: ErrandService
    releases: ReleaseService
    tasks: TaskService
    claims: ClaimService
    repairs: RepairService
    graphs: GraphService
    projects: ProjectService
    messages: MessageService
    proposals: ProposalService
    deliveries: DeliveryService
    events: EventService
    health: HealthService
    duties: Reach
    backstop: Backstop

    async def start(self, *, upgrade: bool = True, patience: float = 30.0) -> None:
        """Wait for the database, bring its schema up to date (or refuse), open the pool and the bus."""
        await _wait_for(self.database.dsn, patience, upgrade=upgrade)
        await self.database.open()
        await self.bus.start()
        self.backstop.start()

    async def stop(self) -> None:
        """Close the bus and the pool."""
        await self.backstop.stop()
        await self.bus.stop()
        await self.database.close()


def build_app(settings: Settings, url: str | None = None) -> App:
    """Compose an App from settings; `url` is what holders are told to report to. Raises when no database is named."""
    if settings.database_url is None:
        raise MalformedInput(
            "No database is named.", "Run `warploom up`, which brings its own, or set WARPLOOM_DATABASE_URL."
        )
    bus = Bus(None if settings.redis_url in (None, "none") else settings.redis_url)
    database = Database(settings.database_url, settings.pool_size)
    changes = Changes(database, bus)
    times = GrantTimes(settings.lease_time, settings.offer_time)
    breaker = BreakerRules(settings.breaker_failures, settings.breaker_suspicions, settings.breaker_time)
    leases = LeaseService(changes, times, OfferRules(settings.missed_offers), breaker)
    head_starts = HeadStarts(settings.p0_head_start, settings.p1_head_start)
    messages = MessageService(changes)
    tickets = TicketService(changes, leases, TicketRules(head_starts, times, url))
    tasks = TaskService(changes, TaskRules(head_starts, settings.max_attempts))
    attempts = AttemptRules(settings.lease_time, settings.retry_base, settings.retry_most)
    repairs = RepairService(changes, leases, settings.lease_time)
    hosts = HostService(changes, times, SurveyRules(settings.settle_time, settings.foreign_quiet))
    window_rules = ReservationRules(
        settings.reservation_ahead, settings.reservation_longest, settings.reservations_open
    )
    reservations = ReservationService(changes, times, window_rules)
    errands = ErrandService(changes)
    return App(
        settings=settings,
        database=database,
        bus=bus,
        sessions=SessionService(changes, settings.lease_time, settings.project),
        tickets=tickets,
        leases=leases,
        cards=CardService(changes, times),
        calibrations=CalibrationService(changes),
        reservations=reservations,
        hosts=hosts,
        errands=errands,
        releases=ReleaseService(changes, leases),
        tasks=tasks,
        claims=ClaimService(changes, leases, tickets, attempts),
        repairs=repairs,
        graphs=GraphService(changes, tickets, head_starts, settings.max_attempts),
        projects=ProjectService(changes),
        messages=messages,
        deliveries=DeliveryService(changes, messages, url),
        proposals=ProposalService(changes, times),
        events=EventService(changes, settings.streams),
        health=HealthService(database, bus),
        duties=Reach(
            database,
            leases,
            hosts,
            errands,
            tickets,
            repairs,
            reservations,
            AgreementService(changes),
            settings.event_time,
        ),
        backstop=Backstop(changes),
    )


async def _wait_for(dsn: str, patience: float, *, upgrade: bool) -> None:
    clock = asyncio.get_running_loop()
    end = clock.time() + patience
    pause = 0.02
    while True:
        try:
            if upgrade:
                await migrations.upgrade(dsn)
            else:
                await migrations.require(dsn)
        except Unreachable:
            if clock.time() > end:
                raise
            migrations.prepare()
            await asyncio.sleep(pause)
            pause = min(0.2, pause * 1.5)
        else:
            return
