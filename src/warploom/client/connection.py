"""Our own HTTP API as methods that answer with the domain's values and raise the domain's errors."""

from warploom.client.calibrations import CalibrationCalls
from warploom.client.cards import CardCalls
from warploom.client.claims import ClaimCalls
from warploom.client.errands import ErrandCalls
from warploom.client.events import EventCalls
from warploom.client.graphs import GraphCalls
from warploom.client.health import HealthCalls
from warploom.client.holder import HolderClient
from warploom.client.hosts import HostCalls
from warploom.client.messages import MessageCalls
from warploom.client.projects import ProjectCalls
from warploom.client.proposals import ProposalCalls
from warploom.client.releases import ReleaseCalls
from warploom.client.repairs import RepairCalls
from warploom.client.reservations import ReservationCalls
from warploom.client.sessions import SessionCalls
from warploom.client.tasks import TaskCalls


class Client(
    HolderClient,
    TaskCalls,
    ClaimCalls,
    RepairCalls,
    GraphCalls,
    ProjectCalls,
    MessageCalls,
    ProposalCalls,
    SessionCalls,
    CardCalls,
    ReservationCalls,
    HostCalls,
    ErrandCalls,
    ReleaseCalls,
    EventCalls,
    CalibrationCalls,
    HealthCalls,
):
    """A connection to one server with every call there is."""
