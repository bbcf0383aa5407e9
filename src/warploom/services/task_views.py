"""How tasks are shown: the same lines and the same sentence of why one is not going on, in every answer."""

from collections.abc import Iterable
from datetime import datetime

from warploom.domain.identifiers import lease_name, task_name
from warploom.domain.leases import LeaseState
from warploom.domain.task_answers import NeedsView, TaskAnswer, TaskLine
from warploom.domain.tasks import TaskKind, TaskState, priority_name
from warploom.domain.texts import spoken_duration, spoken_list, spoken_memory
from warploom.store.database import Record
from warploom.store.tasks import Task


def show_task(task: Task) -> TaskAnswer:
    """Show one task whole."""
    return TaskAnswer(
        task=task_name(task.task),
        title=task.title,
        state=task.state,
        kind=task.kind,
        priority=priority_name(task.priority),
        project=task.project_name,
        next=next_step(task),
        created_at=task.created_at,
        reason=reason_of(task),
        context=task.context,
        done_when=task.done_when,
        parent=task_name(task.parent) if task.parent else None,
        depends_on=[task_name(upstream) for upstream in task.upstreams],
        unmet=task.unmet,
        creator=task.creator,
        agent=task.agent_name,
        lease=lease_name(task.lease) if task.lease else None,
        expires_at=task.expires_at,
        attempts=task.attempts,
        max_attempts=task.max_attempts,
        needs=_needs(task),
        deadline=task.deadline,
        is_overdue=task.finished_at is None and task.deadline is not None and task.deadline < task.now,
        percent=task.percent,
        note=task.note,
        outcome=task.outcome,
        failure=task.failure.value if task.failure else None,
        retry_at=task.retry_at,
        output=task.output,
        branch=task.branch,
        finished_at=task.finished_at,
        comments=task.comments,
    )


def show_lines(rows: Iterable[Record]) -> list[TaskLine]:
    """Show rows of tasks as lines."""
    return [_line(row) for row in rows]


def reason_of(task: Task) -> str | None:
    """Say in one sentence why a task is not going on; None when it is, or is over."""
    if task.state is TaskState.PENDING:
        return _waiting(task.unmet, task.kind)
    if task.state is TaskState.READY and task.session is not None:
        return f"waits for {_cards(_needs(task))} with {task.agent_name}"
    if task.state is TaskState.BLOCKED:
        return _blocked(task.culprit, task.outcome, is_escalated=task.is_escalated)
    if task.state is TaskState.CLAIMED and task.lease_state is LeaseState.OFFERED:
        return f"its cards are offered to {task.agent_name}, who has not taken them yet"
    if task.state is TaskState.FAILED and task.retry_at is not None:
        return _retrying(task.outcome, task.retry_at, task.now)
    return task.outcome


_NEXT_STEPS = {
    TaskState.READY: 'Claim it with loom_claim("{name}") before you work on it.',
    TaskState.CLAIMED: 'Its holder ends it with loom_done("{name}", lease="{lease}") or loom_fail.',
    TaskState.PENDING: "It becomes ready by itself when what it depends on is done; loom_explain says what that is.",
    TaskState.BLOCKED: "loom_explain says why.",
    TaskState.IDEA: "`warploom ideas --promote {name}` makes it a task.",
    TaskState.DEAD_LETTER: "`warploom dead-letter --retry {name}` tries it again; `--skip` and `--cancel` give it up.",
}
_NOTHING_LEFT = "Nothing is left to do."


def next_step(task: Task) -> str:
    """Say what can be done with a task as it stands."""
    return (_next_for_kind(task) or _next_for_trouble(task) or _NEXT_STEPS.get(task.state, _NOTHING_LEFT)).format(
        name=task_name(task.task),
        lease=lease_name(task.lease or 0),
        culprit=task_name(task.culprit or 0),
    )


def _next_for_kind(task: Task) -> str | None:
    if task.kind is TaskKind.EPIC and task.state is TaskState.PENDING:
        return "It is done by itself when its tasks are; create them with parent_id {name}."
    if task.kind is TaskKind.QUESTION and task.state is TaskState.READY:
        return "Answer it with `warploom answer {name} TEXT`."
    return None


def _next_for_trouble(task: Task) -> str | None:
    if task.state is TaskState.BLOCKED and task.culprit is not None:
        return (
            "Decide about {culprit}: `warploom dead-letter --retry {culprit}`, or `--skip` or `--cancel` in its place."
        )
    if task.state is TaskState.BLOCKED and task.is_escalated:
        return "Answer it with `warploom answer {name} TEXT`."
    if task.state is TaskState.FAILED and task.retry_at is not None:
        return "It is tried again by itself."
    return None


def _needs(task: Task) -> NeedsView | None:
    if task.is_plain:
        return None
    return NeedsView(
        task.card_names, task.need_count, task.need_memory_mib, task.need_model, task.resources, task.capabilities
    )


def _line(row: Record) -> TaskLine:
    state, kind = TaskState(row["state"]), TaskKind(row["kind"])
    needs = None
    if row["need_count"] or row["need_resources"] or row["need_capabilities"]:
        needs = NeedsView(
            row["card_names"],
            row["need_count"],
            row["need_memory_mib"],
            row["need_model"],
            row["need_resources"],
            row["need_capabilities"],
        )
    return TaskLine(
        task=task_name(row["id"]),
        title=row["title"],
        state=state,
        kind=kind,
        priority=priority_name(row["priority"]),
        agent=row["agent"],
        lease=lease_name(row["lease_id"]) if row["lease_id"] else None,
        parent=task_name(row["parent_id"]) if row["parent_id"] else None,
        percent=round(100 * min(row["step"] / row["total"], 1)) if row["total"] else None,
        note=row["note"],
        reason=_reason(row, state, kind, needs),
        is_overdue=bool(row["is_overdue"]),
        needs=needs,
    )


def _reason(row: Record, state: TaskState, kind: TaskKind, needs: NeedsView | None) -> str | None:
    if state is TaskState.PENDING:
        return _waiting(row["unmet"], kind)
    if state is TaskState.READY:
        return f"waits for {_cards(needs)} with {row['agent']}" if row["session_id"] else None
    if state is TaskState.BLOCKED:
        return _blocked(row["culprit_id"], row["outcome"], is_escalated=row["escalated_at"] is not None)
    if state is TaskState.FAILED and row["retry_at"] is not None:
        return _retrying(row["outcome"], row["retry_at"], row["now"])
    return row["outcome"]


def _waiting(unmet: int, kind: TaskKind) -> str:
    if kind is TaskKind.EPIC:
        return f"{unmet} of its tasks {'is' if unmet == 1 else 'are'} open" if unmet else "it has no task yet"
    return f"waits for {unmet} task{'' if unmet == 1 else 's'}"


def _blocked(culprit: int | None, outcome: str | None, *, is_escalated: bool) -> str:
    if culprit is not None:
        return f"upstream {task_name(culprit)} was given up"
    if is_escalated:
        return f"waits for an answer to '{outcome}'" if outcome else "waits for an answer"
    return outcome or "parked"


def _retrying(outcome: str | None, retry_at: datetime, now: datetime) -> str:
    wait = retry_at - now
    why = f"'{outcome}'" if outcome else "no reason given"
    return f"failed ({why}); tried again in {spoken_duration(wait)}"


def _cards(needs: NeedsView | None) -> str:
    if needs is None or not needs.count:
        return "a card"
    if needs.cards:
        return f"card{'' if len(needs.cards) == 1 else 's'} {spoken_list(needs.cards)}"
    model = f" {needs.model}" if needs.model else ""
    memory = f" of {spoken_memory(needs.memory_mib)}" if needs.memory_mib else ""
    return f"any{model} card{memory}" if needs.count == 1 else f"{needs.count}{model} cards{memory}"
