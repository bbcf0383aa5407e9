"""How tasks read on a terminal, the same in every command that shows one."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from warploom.cli.answers import clock, queue_lines
from warploom.cli.columns import table, terminal_width
from warploom.domain.claims import Claim, ClaimAnswer
from warploom.domain.leases import export_line
from warploom.domain.projects import ProjectView
from warploom.domain.task_answers import NeedsView, ReadyAnswer, TaskAnswer, TaskLine
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.texts import spoken_list, spoken_memory

if TYPE_CHECKING:
    from warploom.domain.graphs import Explanation

_NAME_WIDTH: Final = 10
_NOT_COUNTED: Final = (TaskState.IDEA, TaskState.CANCELLED)
_TOLD: Final = (
    TaskState.READY,
    TaskState.CLAIMED,
    TaskState.BLOCKED,
    TaskState.FAILED,
    TaskState.DEAD_LETTER,
)
_TITLE: Final = 4  # the column that gives way where a terminal is narrow


def list_lines(tasks: Sequence[TaskLine]) -> list[str]:
    """Show tasks one a line, in columns: number, state, kind, priority, title, who, how far or why not."""
    return table([_cells(task) for task in tasks], _TITLE, terminal_width())


def ready_lines(answer: ReadyAnswer) -> list[str]:
    """Show what may be claimed, or why there is nothing."""
    reason = [f"{'nothing':<8}{answer.reason or 'no task is ready'}"] if not answer.tasks else []
    return [*list_lines(answer.tasks), *reason, *_ideas(answer.ideas), f"{'next':<8}{answer.next}"]


def claim_lines(answer: ClaimAnswer) -> list[str]:
    """Show what was claimed with all that is needed to begin, what waits for a card, or why there is nothing."""
    lines = [line for claim in answer.claims for line in _claimed(claim)]
    lines.extend(line for ticket in answer.queued for line in queue_lines(ticket))
    if not answer.claims and not answer.queued:
        lines = [f"{'nothing':<8}{answer.reason or 'no task is ready'}", *_ideas(answer.ideas)]
    return [*lines, f"{'next':<8}{answer.next}"]


def created_lines(answer: TaskAnswer) -> list[str]:
    """Say that a task was written, or that the very same one was there already."""
    word = "exists" if answer.deduplicated else answer.state.value
    reason = f": {answer.reason}" if answer.reason else ""
    return [f"{word:<7} {answer.task} '{answer.title}'{reason}", f"{'next':<8}{answer.next}"]


def task_lines(answer: TaskAnswer) -> list[str]:
    """Show a whole task: how it stands, what it is about, what was said of it."""
    kind = "" if answer.kind is TaskKind.WORK else f"  {answer.kind.value}"
    head = f"{answer.task}  {answer.state.value}{kind}  {answer.priority}  {answer.title}"
    lines = [head, *_standing(answer), *_contents(answer)]
    for comment in answer.comments:
        lines.extend(_named(comment.author[:40], comment.text, f"{clock(comment.at)}  "))
    return [*lines, f"{'next':<8}{answer.next}"]


def project_line(project: ProjectView) -> str:
    """Say in one line how far along a project is, and what may keep it from going on."""
    total = sum(count for state, count in project.counts.items() if state not in _NOT_COUNTED)
    shown = [f"{count:,} {state.value.replace('_', ' ')}" for state in _TOLD if (count := project.counts.get(state))]
    late = [f"{project.overdue:,} overdue"] if project.overdue else []
    questions = "question" if project.escalations == 1 else "questions"
    asked = [f"{project.escalations:,} {questions} open"] if project.escalations else []
    head = f"project {project.project}: {project.done:,} of {total:,} tasks done ({project.percent} %)"
    return " · ".join([head, *shown, *late, *asked])


def explanation_lines(answer: "Explanation") -> list[str]:
    """Say why a task is not going on: the dominant reason, then what it waits for as a tree, then its place in queues."""
    lines = [f"{answer.state.value:<7} {answer.task} '{answer.title}': {answer.reason}"]
    lines.extend(f"{' ' * 8}{'  ' * (each.depth - 1)}{each.text}" for each in answer.blockers)
    if not answer.blockers:
        lines.extend(f"{' ' * 8}then: {link}" for link in answer.chain[1:])
    if answer.ticket is not None:
        lines.extend(queue_lines(answer.ticket))
    return [*lines, f"{'next':<8}{answer.next}"]


def needs_text(needs: NeedsView | None) -> str:
    """Say in a few words what a task must hold to run; empty where it needs nothing special."""
    if needs is None:
        return ""
    parts = [spoken_list(needs.cards)] if needs.cards else []
    if needs.count and not needs.cards:
        kind = f"{needs.model} " if needs.model else ""
        memory = f" of {spoken_memory(needs.memory_mib)}" if needs.memory_mib else ""
        parts.append(f"{needs.count} {kind}{'card' if needs.count == 1 else 'cards'}{memory}")
    return ", ".join([*parts, *needs.resources, *(f"host with {name}" for name in needs.capabilities)])


def _cells(task: TaskLine) -> list[str]:
    kind = "" if task.kind is TaskKind.WORK else task.kind.value
    holder = " ".join(filter(None, [task.agent, task.lease]))
    percent = f"{task.percent} %" if task.percent is not None else ""
    said = ": ".join(filter(None, [percent, task.note]))
    needs = f"needs {text}" if (text := needs_text(task.needs)) else ""
    late = "overdue" if task.is_overdue else ""
    remarks = " · ".join(filter(None, [late, said, task.reason, needs]))
    return [task.task, task.state.value, kind, task.priority, task.title, holder, remarks]


def _claimed(claim: Claim) -> list[str]:
    task = claim.task
    cards = f" with {spoken_list(claim.cards)}" if claim.cards else ""
    until = f"yours until {clock(claim.expires_at)}, longer with every sign of life"
    head = f"{'claimed':<8}{task.task} '{task.title}'{cards} (lease {claim.lease}, {until})"
    exports = [export_line(claim.export)] if claim.export else []
    comments = [line for each in task.comments for line in _named(each.author[:40], each.text, "")]
    return [head, *_contents(task), *comments, *exports]


def _standing(answer: TaskAnswer) -> list[str]:
    holder = f"{answer.agent} ({answer.lease}{_until(answer)})" if answer.agent and answer.lease else answer.agent
    open_ones = f"{answer.unmet} not done" if answer.unmet else "done"
    upstreams = f"{spoken_list(answer.depends_on)} ({open_ones})" if answer.depends_on else None
    progress = ": ".join(filter(None, ["" if answer.percent is None else f"{answer.percent} %", answer.note]))
    deadline = answer.deadline and f"{answer.deadline.astimezone():%Y-%m-%d %H:%M}"
    tried = f"{answer.attempts} of {answer.max_attempts}" if answer.attempts else None
    rows = [
        ("why", answer.reason),
        ("held by" if answer.lease else "last by", holder),
        ("progress", progress),
        ("after", upstreams),
        ("part of", answer.parent),
        ("needs", needs_text(answer.needs)),
        ("deadline", f"{deadline}{' (past)' if answer.is_overdue else ''}" if deadline else None),
        ("attempts", tried),
        ("retry at", answer.retry_at and clock(answer.retry_at)),
        ("outcome", ": ".join(filter(None, [answer.failure, answer.outcome]))),
        ("finished", answer.finished_at and clock(answer.finished_at)),
    ]
    return [line for name, value in rows if value for line in _named(name, value)]


def _until(answer: TaskAnswer) -> str:
    return f" until {clock(answer.expires_at)}" if answer.expires_at else ""


def _contents(answer: TaskAnswer) -> list[str]:
    output = None if answer.output is None else _json(answer.output)
    rows = [
        ("context", answer.context),
        ("done when", answer.done_when),
        ("branch", answer.branch),
        ("output", output),
    ]
    return [line for name, value in rows if value for line in _named(name, value)]


def _named(name: str, value: str, before: str = "") -> list[str]:
    """Put a name before a text, and under it whatever further lines the text has."""
    first, *rest = value.splitlines() or [""]
    label = f"  {name:<{_NAME_WIDTH}}"
    return [f"{label}{before}{first}", *(" " * len(label) + line.expandtabs(4) for line in rest)]


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _ideas(count: int) -> list[str]:
    if not count:
        return []
    return [f"{'ideas':<8}{count} {'stands' if count == 1 else 'stand'} in the backlog; `warploom ideas` lists them"]
