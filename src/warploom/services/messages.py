"""Messages between agents: sent to one, to one of its sessions or to all, and unread until their next contact."""

from datetime import timedelta

from warploom.domain.errors import NotFound
from warploom.domain.events import EventKind
from warploom.domain.identifiers import SessionId, TaskId, message_name, session_name, task_name
from warploom.domain.messages import MessageView, Recipient, SentAnswer, read_body, read_recipient
from warploom.domain.sessions import Actor
from warploom.domain.texts import spoken_list
from warploom.services.changes import Change, Changes
from warploom.services.sessions import agent_named, nearest_agents
from warploom.services.tasks import no_task
from warploom.store import messages as message_store
from warploom.store.database import Connection
from warploom.store.messages import NewMessage
from warploom.store.sessions import KnownAgent

_LATELY = timedelta(minutes=30)
_MOST_SHOWN = 200


class MessageService:
    """Sends messages and shows what is unread; telling them, which marks them read, is the sessions' business."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    async def send(self, actor: Actor, to: str, body: str, task: TaskId | None = None) -> SentAnswer:
        """Send to an agent's name, a session such as S-3, or `all`: the other agents of the project heard lately.

        Raises NotFound for a name that nobody has, with the nearest there are. Each live session of a recipient has its
        event at once; whichever calls first is told the text, once.
        """
        recipient, text = read_recipient(to), read_body(body)
        async with self._changes.begin() as change:
            agents = await _recipients(change.conn, actor, recipient)
            if task is not None and not await message_store.is_task(change.conn, task):
                raise no_task(task_name(task))
            new = NewMessage(
                recipients=[agent.agent for agent in agents],
                session=recipient.session,
                project=actor.project,
                task=task,
                sender=actor.agent_name,
                body=text,
            )
            written = await message_store.insert_messages(change.conn, new)
            heard = await tell_sessions(change, agents, new)
        return SentAnswer(
            to=[agent.name for agent in agents],
            messages=[message_name(written[agent.agent]) for agent in agents],
            heard=heard,
            next=_next([agent.name for agent in agents if agent.name not in heard]),
        )

    async def unread(self, actor: Actor, limit: int = 20) -> list[MessageView]:
        """Return what the session has not been told yet, oldest first, without marking it read."""
        bounded = max(1, min(limit, _MOST_SHOWN))
        async with self._changes.database.connection() as conn:
            return await message_store.unread_messages(conn, actor.agent, actor.session, bounded)

    async def news(self, actor: Actor) -> list[MessageView]:
        """Return what agents wrote and the session has not been told yet, to be pushed: nothing is marked read."""
        if not actor.has_unread:
            return []
        async with self._changes.database.connection() as conn:
            return await message_store.unread_messages(conn, actor.agent, actor.session, _MOST_SHOWN, from_agents=True)


async def _recipients(conn: Connection, actor: Actor, to: Recipient) -> list[KnownAgent]:
    if to.is_everybody:
        return await _everybody(conn, actor)
    if to.session is None:
        return [await agent_named(conn, to.name)]
    found = await message_store.agent_of_session(conn, to.session)
    if found is None:
        raise NotFound(
            f"There is no session {session_name(to.session)}.",
            f"Choose one of: {await nearest_agents(conn, to.name)}; `warploom agent list` shows their sessions.",
        )
    return [found]


async def _everybody(conn: Connection, actor: Actor) -> list[KnownAgent]:
    agents = await message_store.agents_heard(conn, actor.project, actor.agent, _LATELY)
    if not agents:
        raise NotFound(
            "No other agent of this project was heard within half an hour.",
            "Name an agent: it reads the message when it comes back.",
        )
    return agents


async def tell_sessions(change: Change, agents: list[KnownAgent], new: NewMessage) -> list[str]:
    """Write the event for each live session of the recipients, or one without; return the agents that have any."""
    sessions = await message_store.sessions_heard(change.conn, new.recipients, _LATELY)
    heard: list[str] = []
    for agent in agents:
        live: list[SessionId | None] = [
            session for session, owner in sessions if owner == agent.agent and new.session in (None, session)
        ]
        for session in live or [new.session]:
            facts = {"sender": new.sender, "agent": agent.name}
            change.tell(EventKind.MESSAGE_SENT, facts, project=new.project, task=new.task, session=session)
        if live:
            heard.append(agent.name)
    return heard


def _next(silent: list[str]) -> str:
    if not silent:
        return "It is told at the next contact of any kind; go on, an answer comes as a notice."
    was = "was" if len(silent) == 1 else "were"
    return f"{spoken_list(silent)} {was} not heard within half an hour: it is told when they come back."
