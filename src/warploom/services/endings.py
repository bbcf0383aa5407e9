"""How leases end: what becomes of the task, and what the log and the holder are told."""

from warploom.domain.breaker import JobFailure
from warploom.domain.etas import first_ends
from warploom.domain.events import EventKind
from warploom.domain.failures import FailureClass, is_worth_trying
from warploom.domain.histories import length_of
from warploom.domain.identifiers import lease_name, ticket_name
from warploom.domain.leases import LeaseEnd, LeaseState
from warploom.domain.tasks import TaskKind, TaskState
from warploom.services.changes import Change, names
from warploom.store import promises as promise_store
from warploom.store.database import Connection
from warploom.store.leases import Ending, Lease


def facts_of(held: Lease) -> dict[str, str]:
    """Return what events of a lease tell of it."""
    return {"agent": held.agent_name, "title": held.title, "cards": names(held.card_names)}


def tell_lease(change: Change, kind: EventKind, held: Lease, facts: dict[str, str]) -> None:
    """Add an event about a lease and all that it concerns."""
    change.tell(
        kind,
        facts,
        project=held.project,
        task=held.task,
        lease=held.lease,
        session=held.session,
        host=held.hosts[0] if held.hosts else None,
        cards=held.cards,
    )


async def foretell_end(conn: Connection, held: Lease) -> None:
    """Note what is expected of a run that starts now, by each source that says anything of it."""
    if held.cards:
        ends = first_ends(length_of(held.past.lengths), held.run, held.now)
        await promise_store.promise_end(conn, held.task, held.lease, ends)


def name_lease(held: Lease) -> str:
    """Name a lease in a message to its holder: its number, its cards and its ticket."""
    if not held.card_names:
        return f"{lease_name(held.lease)} on {ticket_name(held.task)} '{held.title}'"
    more = f" and {len(held.card_names) - 8} more" if len(held.card_names) > 8 else ""
    return f"{lease_name(held.lease)} on {names(held.card_names[:8])}{more} for {ticket_name(held.task)} '{held.title}'"


def release_ending(held: Lease, failed: JobFailure | None, *, waits_on: bool) -> Ending:
    """Return how a lease ends that its holder gives back: with the job done or failed, or with its ticket waiting on."""
    if waits_on:
        return Ending(LeaseEnd.RELEASED, TaskState.READY, job_failure=failed)
    if failed is None:
        return Ending(LeaseEnd.RELEASED, TaskState.DONE, went_well=held.state is LeaseState.ACTIVE)
    return Ending(LeaseEnd.RELEASED, TaskState.FAILED, failed.words, failure=failed.told_class, job_failure=failed)


def tell_failure(change: Change, held: Lease, failed: JobFailure) -> None:
    """Add the event of a job that failed on a lease."""
    facts = {"failure": failed.told_class.value, "attempt": str(max(held.attempts, 1)), "reason": failed.words}
    tell_lease(change, EventKind.TASK_FAILED, held, facts_of(held) | facts)


def after_release(held: Lease, place: int | None, *, keeps_place: bool) -> str:
    """Say what follows a release; `place` is the one that was kept."""
    if place is not None:
        ticket = ticket_name(held.task)
        return f"{ticket} keeps place {place}; run `warploom wait {ticket}` in the background and end your turn."
    free = "The card is free as soon as it is observed clear. Make sure your processes on it have ended."
    return (
        f"Nobody waits, so there is no place to keep: ask again whenever you need it. {free}" if keeps_place else free
    )


def expiry_ending(held: Lease, outcome: str) -> Ending:
    """Return how a lease ends whose holder was silent: a request has failed, a task is tried again or is a dead letter."""
    if held.kind is TaskKind.GPU:
        return Ending(LeaseEnd.EXPIRED, TaskState.FAILED, outcome)
    if is_worth_trying(FailureClass.INTERRUPTED, held.attempts, held.max_attempts):
        return Ending(LeaseEnd.EXPIRED, TaskState.READY, frees_task=True)
    return Ending(LeaseEnd.EXPIRED, TaskState.DEAD_LETTER, outcome, failure=FailureClass.INTERRUPTED)


def tell_expiry(change: Change, held: Lease, ending: Ending) -> None:
    """Add the event of what an expiry made of a task."""
    if ending.task_state is TaskState.READY:
        tell_lease(change, EventKind.TASK_RETURNED, held, facts_of(held) | {"reason": "its holder fell silent"})
    elif ending.task_state is TaskState.DEAD_LETTER:
        facts = {"failure": "interrupted", "attempt": str(held.attempts), "reason": ending.outcome or ""}
        tell_lease(change, EventKind.TASK_DEAD_LETTER, held, facts_of(held) | facts)


def say_again(held: Lease, ending: Ending) -> str:
    """Say to a silent holder what it can do now."""
    if held.kind is TaskKind.GPU:
        return "ask again with gpu_request if you still need a card"
    if ending.task_state is TaskState.READY:
        return f'anybody may claim it again; loom_claim("{ticket_name(held.task)}") if you still work on it'
    return "it was its last attempt, and it is a dead letter now"
