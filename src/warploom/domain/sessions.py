"""Who is calling: an agent, through a session, with the process that proves it."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from warploom.domain.hosts import ProcessIdentity
from warploom.domain.identifiers import AgentId, ProjectId, SessionId, TaskId


class Role(StrEnum):
    """What a caller may do: agents ask, operators act on cards, hosts report."""

    AGENT = "agent"
    OPERATOR = "operator"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Caller:
    """What a door knows of its caller before the database is asked."""

    role: Role = Role.AGENT
    session_key: str | None = None
    """A name the session gave itself; without it and without a process, one session per agent name."""
    agent: str | None = None
    project: str | None = None
    client: str | None = None
    """The program behind the session, such as claude-code."""
    directory: str | None = None
    host: str | None = None
    process: ProcessIdentity | None = None
    """The process whose life is the session's: the client that started the stdio server, or the shell."""
    ancestors: list[ProcessIdentity] = field(default_factory=list[ProcessIdentity])
    """For a command run from a shell: its parents, nearest first; the nearest that is a session's process wins."""


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
