"""What tools answer: the domain's values as small JSON, with nothing that is empty."""

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from warploom.domain.claims import Claim, ClaimAnswer
from warploom.domain.etas import EtaView
from warploom.domain.leases import LeaseAnswer
from warploom.domain.proposals import ProposalAnswer, ProposalView
from warploom.domain.standings import Standing, TicketAnswer
from warploom.domain.task_answers import ManyAnswer, ReadyAnswer, TaskAnswer, TaskLine

Answer = dict[str, Any]

_OF_PROPOSAL: Final = ("proposal", "state", "proposer", "partner", "text", "is_due")
_WORDS: Final = ("reason", "answer", "expires_at")


def plain(value: object) -> Any:
    """Turn a value of the domain into JSON types, leaving out what is None, empty or False."""
    return _without_blanks(msgspec.to_builtins(value))


def _without_blanks(value: Any) -> Any:
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        kept = {key: _without_blanks(inner) for key, inner in entries.items()}
        return {key: inner for key, inner in kept.items() if not _is_blank(inner)}
    return [_without_blanks(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value


def _is_blank(value: object) -> bool:
    return value is None or value is False or value in ([], {}, "")


def ticket_answer(answer: TicketAnswer, *, chain: bool = False) -> Answer:
    """Present a ticket flat, as a model reads it best; the whole chain of reasons only where it was asked for."""
    flat = plain(answer)
    flat.pop("starts", None)
    if not chain:
        flat.pop("chain", None)
        flat.pop("delivered", None)
    if len(answer.cards) == 1:
        flat["card"] = flat.pop("cards")[0]
    if answer.state is Standing.QUEUED and answer.starts is not None:
        flat |= _eta(answer.starts, "starts_in_minutes")
    return flat


def lease_answer(answer: LeaseAnswer) -> Answer:
    """Present a lease flat."""
    return plain(answer)


def proposal_answer(answer: ProposalAnswer) -> Answer:
    """Present a proposal after a step of it: what its own caller wrote is not said again."""
    flat = plain(answer)
    return {key: flat["proposal"][key] for key in _OF_PROPOSAL if key in flat["proposal"]} | {"next": answer.next}


def proposal_lines(views: Sequence[ProposalView]) -> list[Answer]:
    """Present proposals in a list; `reason` and `answer` are quoted from their authors."""
    return [{key: entry for key, entry in plain(view).items() if key in (*_OF_PROPOSAL, *_WORDS)} for view in views]


def task_answer(answer: TaskAnswer) -> Answer:
    """Present a task; what it left behind stays as it was written, blanks and all."""
    kept = {} if answer.output is None else {"output": answer.output}
    return plain(answer) | kept


def task_lines(lines: Sequence[TaskLine]) -> list[Answer]:
    """Present tasks in a list."""
    return [plain(line) for line in lines]


def ready_answer(answer: ReadyAnswer) -> Answer:
    """Present what may be claimed; with nothing, the empty list says so, with the reason and the size of the backlog."""
    flat: Answer = {"tasks": task_lines(answer.tasks), "next": answer.next}
    return flat if answer.tasks else flat | _why_nothing(answer)


def claim_answer(answer: ClaimAnswer) -> Answer:
    """Present what came of a claim: one task flat, as a model reads it best, several as a list, none as null."""
    waiting = [ticket_answer(ticket) for ticket in answer.queued]
    rest: Answer = ({"queued": waiting} if waiting else {}) | {"next": answer.next}
    if len(answer.claims) == 1:
        return _claim(answer.claims[0]) | rest
    if answer.claims:
        return {"claims": [_claim(claim) for claim in answer.claims]} | rest
    return {"task": None} | rest | _why_nothing(answer)


def many_answer(answer: ManyAnswer, word: str = "done") -> Answer:
    """Present what became of several tasks; both lists are there, also when they are empty."""
    return {word: answer.done, "refused": answer.refused, "next": answer.next}


def _claim(claim: Claim) -> Answer:
    task = task_answer(claim.task)
    for name in ("next", "state", "agent", "lease", "expires_at", "created_at", "notices"):
        task.pop(name, None)
    return plain(claim) | {"task": task}


def _why_nothing(answer: ReadyAnswer | ClaimAnswer) -> Answer:
    return ({"reason": answer.reason} if answer.reason else {}) | {"ideas": answer.ideas}


def _eta(eta: EtaView, name: str) -> Answer:
    minutes = {name: eta.minutes} if eta.minutes is not None else {}
    return minutes | plain({"p50": eta.p50, "p90": eta.p90}) | {"eta_source": eta.word.value}
