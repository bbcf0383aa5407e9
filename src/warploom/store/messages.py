"""Messages: written to an agent or to one of its sessions, unread until they are told."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, LiteralString

from warploom.domain.identifiers import (
    AgentId,
    MessageId,
    ProjectId,
    ProposalId,
    SessionId,
    TaskId,
    message_name,
    proposal_name,
    task_name,
)
from warploom.domain.messages import MessageView
from warploom.store.database import Connection, Record
from warploom.store.sessions import KnownAgent

_OF_SESSION: Final[LiteralString] = """
select agent.id, agent.name
from session
join agent on agent.id = session.agent_id
where session.id = $1
"""

_OF_PROJECT: Final[LiteralString] = """
select agent.id, agent.name
from agent
where agent.id <> $2
  and exists (
    select from session
    join heartbeat on heartbeat.session_id = session.id
    where session.agent_id = agent.id and session.project_id = $1 and heartbeat.seen_at > clock_now() - $3::interval
  )
order by agent.name
"""

_HEARD: Final[LiteralString] = """
select session.id, session.agent_id
from session
join heartbeat on heartbeat.session_id = session.id
where session.agent_id = any($1::bigint[]) and heartbeat.seen_at > clock_now() - $2::interval
order by session.id
"""

_SEND: Final[LiteralString] = """
insert into message (agent_id, session_id, project_id, task_id, sender, body, proposal_id)
select agent_id, $2, $3, $4, $5, $6, $7
from unnest($1::bigint[]) with ordinality as recipient (agent_id, place)
order by place
returning id, agent_id
"""

_UNREAD: Final[LiteralString] = """
select id, sender, body, sent_at, task_id, proposal_id
from message
where agent_id = $1 and read_at is null and coalesce(session_id, $2) = $2 and (project_id is not null or not $4)
order by id
limit $3
"""

_IS_TASK: Final[LiteralString] = "select exists (select from task where id = $1)"


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message about to be written: one copy for each recipient."""

    recipients: list[AgentId]
    session: SessionId | None
    """The only session that may read it, where it is for one."""
    project: ProjectId
    task: TaskId | None
    sender: str
    body: str
    proposal: ProposalId | None = None
    """The proposal that it tells of."""


async def agent_of_session(conn: Connection, session: SessionId) -> KnownAgent | None:
    """Return whose session it is; None when there is no such session (any more)."""
    row = await conn.fetchrow(_OF_SESSION, session)
    return None if row is None else _agent(row)


async def agents_heard(conn: Connection, project: ProjectId, but: AgentId, within: timedelta) -> list[KnownAgent]:
    """Return the other agents of a project that were heard lately, in order of name."""
    return [_agent(row) for row in await conn.fetch(_OF_PROJECT, project, but, within)]


async def sessions_heard(conn: Connection, agents: list[AgentId], within: timedelta) -> list[tuple[SessionId, AgentId]]:
    """Return the sessions of agents that were heard lately, each with its agent."""
    rows = await conn.fetch(_HEARD, agents, within)
    return [(SessionId(row["id"]), AgentId(row["agent_id"])) for row in rows]


async def is_task(conn: Connection, task: TaskId) -> bool:
    """Say whether there is such a task in any project."""
    return bool(await conn.fetchval(_IS_TASK, task))


async def insert_messages(conn: Connection, new: NewMessage) -> dict[AgentId, MessageId]:
    """Write a message's copies and return the number of each."""
    rows = await conn.fetch(
        _SEND, new.recipients, new.session, new.project, new.task, new.sender, new.body, new.proposal
    )
    return {AgentId(row["agent_id"]): MessageId(row["id"]) for row in rows}


async def unread_messages(
    conn: Connection, agent: AgentId, session: SessionId, limit: int, *, from_agents: bool = False
) -> list[MessageView]:
    """Return what a session has not been told yet, oldest first, and leave it unread.

    With `from_agents` without the notices of Warploom itself, which belong to no project.
    """
    return [_view(row) for row in await conn.fetch(_UNREAD, agent, session, limit, from_agents)]


def _agent(row: Record) -> KnownAgent:
    return KnownAgent(AgentId(row["id"]), row["name"])


def _view(row: Record) -> MessageView:
    return MessageView(
        message=message_name(row["id"]),
        sender=row["sender"],
        text=row["body"],
        sent_at=row["sent_at"],
        task=task_name(row["task_id"]) if row["task_id"] else None,
        proposal=proposal_name(row["proposal_id"]) if row["proposal_id"] else None,
    )
