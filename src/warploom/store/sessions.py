"""Agents and their sessions, and the narrow row that says a session was heard."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, LiteralString

from warploom.domain.callers import Caller
from warploom.domain.identifiers import AgentId, ProjectId, SessionId, lease_name, session_name, task_name
from warploom.domain.processes import ProcessIdentity
from warploom.domain.sessions import Liveness, Notice, SessionView
from warploom.store.database import Connection, Record

_TOUCH: Final[LiteralString] = """
with found as (
  select session.id, session.agent_id, agent.name, session.project_id
  from (
    select id, 0 as place from session where key = $1
    union all
    select session.id, process.place
    from unnest($3::int[], $4::bigint[]) with ordinality as process (pid, started, place)
    join session on session.host_name = $2 and session.pid = process.pid and session.process_started = process.started
  ) as match
  join session on session.id = match.id
  join agent on agent.id = session.agent_id
  order by match.place, match.id
  limit 1
), beat as (
  insert into heartbeat (session_id, seen_at)
  select found.id, clock_now() from found
  on conflict (session_id) do update set seen_at = excluded.seen_at, silent_since = null
    where heartbeat.seen_at not between excluded.seen_at - least(interval '1 second', $5::interval / 4) and excluded.seen_at
      or heartbeat.silent_since is not null
), live as (
  select lease.id, lease.life from lease
  where lease.session_id = (select found.id from found) and lease.state = 'active'
    and lease.expires_at < clock_now() + coalesce(lease.life, $5::interval) - least(interval '1 second', $5::interval / 4)
  order by lease.id
  for update
), pushed as (
  update lease set expires_at = greatest(lease.expires_at, clock_now() + coalesce(live.life, $5::interval))
  from live where lease.id = live.id
)
select found.*, exists (
    select from message
    where message.agent_id = found.agent_id and message.read_at is null and coalesce(message.session_id, found.id) = found.id
  ) as has_unread
from found
"""

_NAME_LOCK: Final[LiteralString] = "select pg_advisory_xact_lock(7130002)"

_TAKEN: Final[LiteralString] = """
select agent.name
from agent
where agent.name like $1
  and (
    exists (
      select from session left join heartbeat on heartbeat.session_id = session.id
      where session.agent_id = agent.id and coalesce(heartbeat.seen_at, session.created_at) > clock_now() - $2::interval
    )
    or exists (select from task where task.agent_id = agent.id and task.state in ('pending', 'ready', 'claimed', 'blocked'))
  )
"""

_AGENT: Final[LiteralString] = "select id, name from agent where name = $1"

_NAMES: Final[LiteralString] = """
select agent.name
from agent
left join session on session.agent_id = agent.id
left join heartbeat on heartbeat.session_id = session.id
group by agent.name
order by max(heartbeat.seen_at) desc nulls last, agent.name
limit $1
"""

_NEW_AGENT: Final[LiteralString] = "insert into agent (name) values ($1) on conflict (name) do nothing returning id"

_CREATE: Final[LiteralString] = """
insert into session (agent_id, project_id, key, client, directory, host_name, pid, process_started)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (key) do nothing
returning id
"""

_READ_NOTICES: Final[LiteralString] = """
update message set read_at = clock_now()
where id in (
  select message.id from message join session on session.agent_id = message.agent_id
  where session.id = $1 and message.read_at is null and coalesce(message.session_id, $1) = $1
  order by message.id limit 20 for update of message skip locked
)
returning id, sent_at, sender, body, task_id
"""

_SESSIONS: Final[LiteralString] = """
select agent.name as agent, project.name as project, latest.*, latest.seen_at > clock_now() - $1::interval as is_alive,
  coalesce(held.leases, '{}') as leases,
  coalesce(held.tasks, '{}') as tasks,
  coalesce(waiting.tickets, '{}') as tickets
from (
  select session.id, session.agent_id, session.project_id, session.client, session.directory, session.host_name, session.pid,
    coalesce(heartbeat.seen_at, session.created_at) as seen_at
  from session
  left join heartbeat on heartbeat.session_id = session.id
  order by seen_at desc, session.id
  limit $2
) as latest
join agent on agent.id = latest.agent_id
join project on project.id = latest.project_id
left join lateral (
  select array_agg(id order by id) as leases, array_agg(task_id order by id) as tasks
  from lease
  where session_id = latest.id and state <> 'ended'
) as held on true
left join lateral (
  select array_agg(id order by id) as tickets
  from task
  where agent_id = latest.agent_id and session_id = latest.id
    and (state = 'ready' and need_count > 0 or state = 'blocked' and parked_at is not null)
) as waiting on true
order by latest.seen_at desc, latest.id
"""

_SEND: Final[LiteralString] = """
insert into message (agent_id, session_id, sender, body) select agent_id, id, $2, $3 from session where id = $1
"""

_PRUNE: Final[LiteralString] = """
delete from session
where id in (
  select session.id from session left join heartbeat on heartbeat.session_id = session.id
  where coalesce(heartbeat.seen_at, session.created_at) < clock_now() - $1::interval
    and not exists (select from task where task.session_id = session.id)
    and not exists (select from lease where lease.session_id = session.id)
  limit $2
)
"""


@dataclass(frozen=True, slots=True)
class KnownAgent:
    """An agent that the database knows."""

    agent: AgentId
    name: str


@dataclass(frozen=True, slots=True)
class KnownSession:
    """A session that the database knows."""

    session: SessionId
    agent: AgentId
    agent_name: str
    project: ProjectId
    has_unread: bool


async def touch_session(
    conn: Connection, key: str, host: str | None, processes: list[ProcessIdentity], lease_time: timedelta
) -> KnownSession | None:
    """Find a session by key or by the nearest of `processes`, note that it was heard and push its leases out.

    One round trip, which writes nothing when the session was heard within the last second: a busy agent costs no more
    commits than a quiet one. Returns None when there is no such session yet.
    """
    pids, starts = [each.pid for each in processes], [each.started for each in processes]
    row = await conn.fetchrow(_TOUCH, key, host, pids, starts, lease_time)
    if row is None:
        return None
    return KnownSession(
        SessionId(row["id"]), AgentId(row["agent_id"]), row["name"], ProjectId(row["project_id"]), row["has_unread"]
    )


async def free_agent_name(conn: Connection, base: str, memory: timedelta) -> str:
    """Return the first of base-1, base-2, … that no session heard within `memory` and no open ticket uses.

    Holds a lock until the transaction ends, so that two new sessions never get the same name.
    """
    await conn.execute(_NAME_LOCK)
    pattern = base.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "-%"
    taken = {row["name"] for row in await conn.fetch(_TAKEN, pattern, memory)}
    return next(name for number in range(1, len(taken) + 2) if (name := f"{base}-{number}") not in taken)


async def create_session(
    conn: Connection, caller: Caller, key: str, agent: str, project: ProjectId
) -> SessionId | None:
    """Insert a session (and its agent where new); None when somebody else just made it."""
    agent_id = await _find_or_make_agent(conn, agent)
    pid, started = (caller.process.pid, caller.process.started) if caller.process else (None, None)
    return await conn.fetchval(
        _CREATE, agent_id, project, key, caller.client, caller.directory, caller.host, pid, started
    )


async def _find_or_make_agent(conn: Connection, name: str) -> int:
    """Return a number by name without locking the row, which every new task and session of that name refers to."""
    for statement in (_AGENT, _NEW_AGENT):
        number = await conn.fetchval(statement, name)
        if number is not None:
            return number
    return await conn.fetchval(_AGENT, name)  # somebody else has just made it


async def find_agent(conn: Connection, name: str) -> KnownAgent | None:
    """Return an agent by its name."""
    row = await conn.fetchrow(_AGENT, name)
    return None if row is None else KnownAgent(AgentId(row["id"]), row["name"])


async def agent_names(conn: Connection, limit: int) -> list[str]:
    """Return names of agents, those heard last first."""
    return [row["name"] for row in await conn.fetch(_NAMES, limit)]


async def read_sessions(conn: Connection, lately: timedelta, limit: int) -> list[SessionView]:
    """Return the sessions heard last, newest first, each with what it holds and waits for."""
    return [_view(row) for row in await conn.fetch(_SESSIONS, lately, limit)]


async def read_notices(conn: Connection, session: SessionId) -> list[Notice]:
    """Take what a session has not been told yet, oldest first; each is handed out once."""
    rows = await conn.fetch(_READ_NOTICES, session)
    ordered = sorted(rows, key=lambda row: row["id"])
    return [Notice(row["sent_at"], row["sender"], row["body"], row["task_id"]) for row in ordered]


async def send_notice(conn: Connection, session: SessionId, sender: str, body: str) -> None:
    """Leave a message that the session is told at its next contact."""
    await conn.execute(_SEND, session, sender, body)


async def prune_sessions(conn: Connection, age: timedelta, limit: int) -> int:
    """Forget sessions not heard for `age` that no task or lease refers to; return how many went."""
    return int((await conn.execute(_PRUNE, age, limit)).rpartition(" ")[2])


def _view(row: Record) -> SessionView:
    return SessionView(
        session=session_name(row["id"]),
        agent=row["agent"],
        client=row["client"],
        directory=row["directory"],
        host=row["host_name"],
        pid=row["pid"],
        liveness=Liveness.ALIVE if row["is_alive"] else Liveness.SILENT,
        last_seen=row["seen_at"],
        project=row["project"],
        tasks=[task_name(task) for task in row["tasks"]],
        leases=[lease_name(lease) for lease in row["leases"]],
        tickets=[task_name(task) for task in row["tickets"]],
    )
