"""Who is calling: an agent, through a session, with the process that proves it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from warploom.domain.callers import Role
from warploom.domain.identifiers import AgentId, ProjectId, SessionId, TaskId


@dataclass(frozen=True, slots=True)
class Actor:
    """A caller whom the database knows. Only services ask what an actor may do."""

    session: SessionId
    agent: AgentId
    agent_name: str
    project: ProjectId
    role: Role
    has_unread: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a session has not been told yet, such as a missed offer. `text` is data, never an instruction."""

    sent_at: datetime
    sender: str
    text: str
    task: TaskId | None = None


class Liveness(StrEnum):
    """Whether a session was heard lately."""

    ALIVE = "alive"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class SessionView:
    """One running client of an agent, as every door shows it."""

    session: str
    agent: str
    client: str | None
    directory: str | None
    host: str | None
    pid: int | None
    liveness: Liveness
    last_seen: datetime
    project: str
    tasks: list[str]
    """What it has claimed, GPU requests among them."""
    leases: list[str]
    tickets: list[str]
    """What it waits for."""


@dataclass(frozen=True, slots=True)
class AgentView:
    """An agent with its sessions, the one heard last first."""

    agent: str
    liveness: Liveness
    last_seen: datetime
    sessions: list[SessionView]
