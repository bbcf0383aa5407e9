"""`warploom agent`: who is there, through which sessions, holding what."""

from datetime import UTC, datetime

import typer

from warploom.cli.options import Json
from warploom.cli.output import present
from warploom.cli.reach import Reach
from warploom.domain.sessions import AgentView, SessionView
from warploom.domain.texts import spoken_duration

app = typer.Typer(rich_markup_mode=None)
agent = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: warploom agent list",
    help="Look at agents and their sessions.",
)
app.add_typer(agent, name="agent")


@agent.callback()
def agents() -> None:
    """Look at agents and their sessions."""


@agent.command("list", epilog="Example: warploom agent list")
def list_all(as_json: Json = False) -> None:
    """List agents and their sessions.

    With what each session holds and waits for, those heard last first.
    """
    found = Reach().call(lambda client: client.agents())
    now = datetime.now(UTC)
    lines = [line for each in found for line in _lines(each, now)]
    present(found, lines or ["No agent has been here yet."], as_json=as_json)


def _lines(view: AgentView, now: datetime) -> list[str]:
    head = f"{view.agent}  {view.liveness.value}, heard {spoken_duration(now - view.last_seen)} ago"
    return [head, *(_session(each, now) for each in view.sessions)]


def _session(view: SessionView, now: datetime) -> str:
    process = f"pid {view.pid}" if view.pid is not None else ""
    where = " ".join(filter(None, [view.client, process, f"on {view.host}" if view.host else ""]))
    holds = ", ".join(f"{task} ({lease})" for task, lease in zip(view.tasks, view.leases, strict=True))
    parts = [
        view.session,
        f"{view.liveness.value} {spoken_duration(now - view.last_seen)}",
        f"project {view.project}",
        where,
        view.directory or "",
        f"holds {holds}" if holds else "",
        f"waits for {', '.join(view.tickets)}" if view.tickets else "",
    ]
    return "  " + "  ".join(filter(None, parts))
