"""Sessions: who is calling, and their sign of life."""

import difflib
import re
from datetime import timedelta

from warploom.domain.callers import Caller, Role
from warploom.domain.errors import Busy, NotAllowed, NotFound
from warploom.domain.events import EventKind
from warploom.domain.identifiers import ProjectId, task_name
from warploom.domain.messages import MESSAGE_LIMIT, read_agent_name
from warploom.domain.processes import ProcessIdentity
from warploom.domain.sessions import Actor, AgentView, Notice, SessionView
from warploom.domain.texts import NAME_LIMIT, cut_line, one_line, optional_line
from warploom.services.changes import Changes
from warploom.store import projects as project_store
from warploom.store import sessions as session_store
from warploom.store.database import Connection
from warploom.store.sessions import KnownAgent, KnownSession

_NAME_MEMORY = timedelta(minutes=30)
_MOST_SESSIONS = 500
_NAMES_SHOWN = 5
_NAMES_SEARCHED = 500
_PLAIN_NAME = re.compile(r"[^a-z0-9]+")


def session_key(caller: Caller) -> str:
    """Return what makes a session the same one: the name it gave itself, its process, or its agent's name."""
    if caller.session_key:
        return f"named:{one_line(caller.session_key, 'session name', 200)}"
    if caller.process is not None:
        return f"process:{caller.host or 'local'}:{caller.process.pid}:{caller.process.started}"
    return f"agent:{caller.agent or 'anonymous'}"


def base_name(client: str | None) -> str:
    """Turn a client's name into an agent's: 'claude-code' becomes 'claude', nothing becomes 'agent'."""
    plain = _PLAIN_NAME.sub("-", (client or "").lower()).strip("-")
    return plain.removesuffix("-code")[:40].strip("-") or "agent"


class SessionService:
    """Makes actors out of callers, and keeps sessions and their leases alive."""

    def __init__(self, changes: Changes, lease_time: timedelta, default_project: str) -> None:
        self._changes = changes
        self._lease_time = lease_time
        self._project = default_project

    async def identify(self, caller: Caller) -> Actor:
        """Return the actor behind a caller, making its session at first contact.

        Every call is a sign of life: it pushes the session's active leases out. A command run from a shell joins the
        session whose process is its nearest ancestor.
        """
        clean = _clean(caller)
        known = await self._touch(clean)
        if known is None:
            await self._create(clean)
            known = await self._touch(clean)
        if known is None:
            raise Busy("The session was removed while it called.", "Call again.")
        return Actor(known.session, known.agent, known.agent_name, known.project, caller.role, known.has_unread)

    async def take_notices(self, actor: Actor) -> list[str]:
        """Hand out what the session has not been told yet, each once, as one line that quotes its sender."""
        if not actor.has_unread:
            return []
        async with self._changes.database.connection() as conn:
            notices = await session_store.read_notices(conn, actor.session)
        return [_line(notice) for notice in notices]

    async def agents(self) -> list[AgentView]:
        """Return the agents heard last with their sessions; those in silence for weeks are forgotten."""
        async with self._changes.database.connection() as conn:
            sessions = await session_store.read_sessions(conn, self._lease_time, _MOST_SESSIONS)
        by_agent: dict[str, list[SessionView]] = {}
        for session in sessions:
            by_agent.setdefault(session.agent, []).append(session)
        return [_agent(found) for found in by_agent.values()]

    async def _touch(self, caller: Caller) -> KnownSession | None:
        processes = _lineage(caller)
        async with self._changes.database.connection() as conn:
            return await session_store.touch_session(
                conn, session_key(caller), caller.host, processes, self._lease_time
            )

    async def _create(self, caller: Caller) -> None:
        async with self._changes.begin() as change:
            agent = caller.agent or await self._name(change.conn, caller)
            project, is_new = await _find_or_make_project(change.conn, caller.project or self._project)
            session = await session_store.create_session(change.conn, caller, session_key(caller), agent, project)
            if session is not None:
                change.tell(EventKind.SESSION_STARTED, {"agent": agent}, session=session)
            if is_new:
                facts = {"agent": agent, "title": caller.project or self._project}
                change.tell(EventKind.PROJECT_CREATED, facts, project=project, session=session)

    async def _name(self, conn: Connection, caller: Caller) -> str:
        if caller.process is None and caller.session_key is None:
            return "anonymous"
        return await session_store.free_agent_name(conn, base_name(caller.client), _NAME_MEMORY)


async def _find_or_make_project(conn: Connection, name: str) -> tuple[ProjectId, bool]:
    """Return a project by name, and whether it was made for this: who names a new one makes it."""
    found = await project_store.find_project(conn, name)
    if found is None:
        made = await project_store.create_project(conn, name, None)
        if made is not None:
            return made, True
        found = await project_store.find_project(conn, name)  # somebody else has just made it
    if found is None:
        raise Busy("The project was removed meanwhile.", "Call again.")
    return found, False


def _agent(sessions: list[SessionView]) -> AgentView:
    newest = sessions[0]
    return AgentView(newest.agent, newest.liveness, newest.last_seen, sessions)


def _line(notice: Notice) -> str:
    about = f" about {task_name(notice.task)}" if notice.task is not None else ""
    return f"{notice.sent_at:%H:%M} UTC, from {notice.sender}{about}: {cut_line(notice.text, MESSAGE_LIMIT)}"


def _clean(caller: Caller) -> Caller:
    return Caller(
        role=caller.role,
        session_key=caller.session_key,
        agent=read_agent_name(caller.agent),
        project=optional_line(caller.project, "project name", NAME_LIMIT),
        client=optional_line(caller.client, "client name", NAME_LIMIT),
        directory=optional_line(caller.directory, "directory", 500),
        host=optional_line(caller.host, "host name", NAME_LIMIT),
        process=caller.process,
        ancestors=caller.ancestors,
    )


def _lineage(caller: Caller) -> list[ProcessIdentity]:
    """Return the processes whose session a caller joins, nearest first; none for a session that named itself."""
    if caller.session_key is not None:
        return []
    return [*caller.ancestors, *([caller.process] if caller.process is not None else [])]


async def agent_named(conn: Connection, name: str) -> KnownAgent:
    """Return an agent by its name; raise NotFound with the nearest names there are."""
    clean = one_line(name, "agent name", NAME_LIMIT)
    found = await session_store.find_agent(conn, clean)
    if found is None:
        raise NotFound(f"There is no agent '{clean}'.", f"Choose one of: {await nearest_agents(conn, clean)}.")
    return found


async def nearest_agents(conn: Connection, name: str) -> str:
    """Say which agents have names like this one, or were heard last."""
    names = await session_store.agent_names(conn, _NAMES_SEARCHED)
    near = difflib.get_close_matches(name, names, _NAMES_SHOWN) or names[:_NAMES_SHOWN]
    return ", ".join(near)


def require(actor: Actor, role: Role) -> None:
    """Raise NotAllowed unless the actor has `role`."""
    if actor.role is not role:
        raise NotAllowed(
            f"This needs the role {role.value}; you are {actor.role.value}.",
            "Ask an operator of this Warploom to do it.",
        )
