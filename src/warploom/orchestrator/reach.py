"""What a duty may reach: the services whose operations it calls, and nothing of the doors."""

from dataclasses import dataclass
from datetime import timedelta

from warploom.services.agreements import AgreementService
from warploom.services.errands import ErrandService
from warploom.services.hosts import HostService
from warploom.services.leases import LeaseService
from warploom.services.repairs import RepairService
from warploom.services.reservations import ReservationService
from warploom.services.tickets import TicketService
from warploom.store.database import Database


@dataclass(frozen=True, slots=True)
class Reach:
    """Handed to every duty; `event_time` is how long events are kept."""

    database: Database
    leases: LeaseService
    hosts: HostService
    errands: ErrandService
    tickets: TicketService
    repairs: RepairService
    reservations: ReservationService
    agreements: AgreementService
    event_time: timedelta
