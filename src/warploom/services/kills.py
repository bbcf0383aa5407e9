"""Kills: the processes of a lease, ended by its host because an operator said so; the lease itself is not touched."""

from dataclasses import dataclass

from warploom.domain.callers import Role
from warploom.domain.cards import KnownCard, Owner, ProcessView
from warploom.domain.errands import (
    LAPSE_TIME,
    ErrandAnswer,
    ErrandKind,
    KillWish,
    Outcome,
    read_grace,
    tell_outcome,
)
from warploom.domain.errors import Collision, NotAllowed, NotFound, NotReady
from warploom.domain.events import EventKind
from warploom.domain.identifiers import ErrandId, HostId, LeaseId, errand_name, lease_name, ticket_name
from warploom.domain.leases import LeaseState
from warploom.domain.messages import WARPLOOM
from warploom.domain.sessions import Actor
from warploom.domain.texts import REASON_LIMIT, one_line, spoken_list
from warploom.services.changes import Change, names
from warploom.services.endings import tell_lease
from warploom.store import cards as card_store
from warploom.store import errands as errand_store
from warploom.store import leases as lease_store
from warploom.store import sessions as session_store
from warploom.store.database import Connection
from warploom.store.errands import KnownErrand, NewErrand
from warploom.store.leases import Lease

_MOST_SPARED = 500


@dataclass(frozen=True, slots=True)
class _Scene:
    """What the last survey saw of a lease: its processes on the cards of its host, apart from those of other leases too."""

    held: Lease
    host: HostId
    host_name: str
    own: list[ProcessView]
    shared: list[ProcessView]


async def ask_kill(change: Change, actor: Actor, lease: LeaseId, wish: KillWish, *, preview: bool) -> ErrandAnswer:
    """Ask the host of a lease to end all its processes; with `preview` only say what that would mean.

    Raises NotAllowed for an agent, and names whom to write to instead.
    """
    held = await lease_named(change.conn, lease)
    require_operator(actor, held, "end the processes of a lease")
    why, grace = one_line(wish.reason, "reason", REASON_LIMIT), read_grace(wish.grace_seconds)
    scene = await _look(change.conn, held)
    errand = None if preview else await _ask(change, actor, scene, KillWish(why, grace))
    return ErrandAnswer(
        errand=errand,
        kind=ErrandKind.KILL,
        host=scene.host_name,
        about=lease_name(lease),
        done=not preview,
        consequences=_consequences(scene, grace),
        next=f"{scene.host_name} says what became of each process; it is asked no more after {LAPSE_TIME.seconds // 60} min.",
    )


async def finish_kill(change: Change, errand: KnownErrand, outcome: Outcome) -> None:
    """Tell what became of the processes of a lease, and have its cards looked at."""
    assert errand.lease is not None
    held = await lease_named(change.conn, errand.lease)
    facts = {"host": errand.host_name, "result": tell_outcome(outcome)}
    _tell(change, EventKind.LEASE_KILLED, held, facts)
    change.order_survey(errand.host_name)


async def lease_named(conn: Connection, lease: LeaseId) -> Lease:
    """Read a lease that an operator names; raise NotFound when there never was one of that number."""
    held = await lease_store.get_lease(conn, lease)
    if held is None:
        raise NotFound(f"There is no lease {lease_name(lease)}.", "`warploom status` shows who holds what.")
    return held


async def processes_of(conn: Connection, held: Lease) -> list[tuple[KnownCard, ProcessView]]:
    """Return the processes of a lease, live or ended, that the last survey saw on the cards of its hosts."""
    cards = await card_store.read_cards(conn, held.hosts) if held.hosts else []
    return [(card, process) for card in cards for process in card.processes if process.lease == lease_name(held.lease)]


async def same_errand(conn: Connection, new: NewErrand) -> ErrandId:
    """Return the open errand that kept this one from being asked for; raise Collision when it was closed meanwhile."""
    found = await errand_store.find_same(conn, new)
    if found is None:
        raise Collision("The same was asked for before and is answered at this moment.", "Ask again.")
    return found


async def _look(conn: Connection, held: Lease) -> _Scene:
    if not held.hosts:
        raise NotReady(
            f"{lease_name(held.lease)} has no card, so no survey sees its processes.",
            f"Write to {held.agent_name} instead, or free its task with `warploom reset {ticket_name(held.task)}`.",
        )
    cards = await card_store.read_cards(conn, held.hosts)
    here = [(card, process) for card in cards for process in card.processes]
    others = {
        process.pid for _, process in here if process.owner is Owner.MEMBER and process.lease != lease_name(held.lease)
    }
    own = {process.pid: process for _, process in here if process.lease == lease_name(held.lease)}
    return _Scene(
        held,
        held.hosts[0],
        cards[0].host,
        [process for pid, process in own.items() if pid not in others],
        [process for pid, process in own.items() if pid in others],
    )


async def _ask(change: Change, actor: Actor, scene: _Scene, wish: KillWish) -> str:
    held = scene.held
    spared = await errand_store.session_processes(change.conn, scene.host_name, _MOST_SPARED)
    facts = {
        "processes": _identities(scene.own),
        "spared": [[each.pid, each.started] for each in spared] + _identities(scene.shared),
        "grace_seconds": wish.grace_seconds,
    }
    new = NewErrand(scene.host, ErrandKind.KILL, actor.agent_name, wish.reason, lease=held.lease, facts=facts)
    asked = await errand_store.ask(change.conn, new, LAPSE_TIME)
    if asked is None:
        return errand_name(await same_errand(change.conn, new))
    told = {"agent": actor.agent_name, "host": scene.host_name, "reason": wish.reason}
    _tell(change, EventKind.LEASE_KILL_ASKED, held, told)
    change.order_survey(scene.host_name)
    text = (
        f"{actor.agent_name} is ending the processes of {lease_name(held.lease)} on {names(held.card_names[:8])} "
        f"('{held.title}'): {wish.reason}. {_what_goes_on(held)} Write to {actor.agent_name} before you start it again."
    )
    await session_store.send_notice(change.conn, held.session, WARPLOOM, text)
    return errand_name(asked)


def _identities(processes: list[ProcessView]) -> list[list[int]]:
    return [[each.pid, each.started] for each in processes if each.started is not None]


def _consequences(scene: _Scene, grace: float) -> list[str]:
    held, lease = scene.held, lease_name(scene.held.lease)
    count = len(scene.own)
    seen = f"{count} {'process' if count == 1 else 'processes'} of {lease}" if count else f"Whatever {lease} still runs"
    return [
        f"{seen} on {scene.host_name} {'is' if count == 1 or not count else 'are'} told to end (TERM); after {grace:g} s what "
        "is left is killed (KILL).",
        *(f"{each.text}, user {each.user or 'unknown'}" for each in scene.own),
        f"So does everything else there that carries {lease} in its environment or descends from these; sessions' own programs, "
        "Warploom's and other leases' are left alone.",
        *(f"Left alone, because it works for another lease too: {each.text}" for each in scene.shared),
        _what_goes_on(held),
        f"{held.agent_name} is told who did it and why.",
    ]


def _what_goes_on(held: Lease) -> str:
    lease, cards = lease_name(held.lease), spoken_list(held.card_names[:8])
    if held.state is LeaseState.ENDED:
        return f"{lease} is over already; {cards} is granted on once it is observed clear."
    return f"{lease} itself goes on until its holder ends it or falls silent; then {cards} is granted on once it is observed clear."


def require_operator(actor: Actor, held: Lease, deed: str) -> None:
    """Raise NotAllowed for an agent that would do this to somebody's lease, and name whom to write to instead."""
    if actor.role is not Role.OPERATOR:
        raise NotAllowed(
            f"Only an operator may {deed}; you are {actor.role.value}.",
            f'Write to its holder instead: loom_message("{held.agent_name}", "…").',
        )


def _tell(change: Change, kind: EventKind, held: Lease, facts: dict[str, str]) -> None:
    told = {"holder": held.agent_name, "lease": lease_name(held.lease), "cards": names(held.card_names)}
    tell_lease(change, kind, held, told | facts)
