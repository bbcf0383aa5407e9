"""Callers: what a call says of who makes it, before the database is asked."""

from dataclasses import dataclass, field
from enum import StrEnum

from warploom.domain.processes import ProcessIdentity


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
