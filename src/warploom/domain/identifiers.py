"""The short numbers people and models say: T-17 is a task or ticket, L-42 a lease, R-3 a reservation, E-5 an errand, P-3 a proposal."""

import re
from typing import NewType

from warploom.domain.errors import MalformedInput

ProjectId = NewType("ProjectId", int)
AgentId = NewType("AgentId", int)
SessionId = NewType("SessionId", int)
HostId = NewType("HostId", int)
CardId = NewType("CardId", int)
TaskId = NewType("TaskId", int)
LeaseId = NewType("LeaseId", int)
MessageId = NewType("MessageId", int)
ReservationId = NewType("ReservationId", int)
ErrandId = NewType("ErrandId", int)
ProposalId = NewType("ProposalId", int)

_LARGEST = 2**63 - 1
_SHAPES = {letter: re.compile(rf"{letter}-?([1-9][0-9]{{0,18}})", re.ASCII | re.IGNORECASE) for letter in "TLSREPM"}


def _parse(letter: str, noun: str, text: str) -> int:
    found = _SHAPES[letter].fullmatch(text.strip())
    if found is None or int(found[1]) > _LARGEST:
        shown = text.strip()[:24]
        raise MalformedInput(
            f"{shown!r} is not {_article(noun)} {noun}.",
            f"{_article(noun).capitalize()} {noun} looks like {letter}-17; `loom_status`, `gpu_survey` or `warploom status` shows them.",
        )
    return int(found[1])


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def parse_ticket(text: str) -> TaskId:
    """Read `T-17`, raising MalformedInput for anything else."""
    return TaskId(_parse("T", "ticket", text))


def parse_task(text: str) -> TaskId:
    """Read `T-17`, raising MalformedInput for anything else; a task's number is its ticket's."""
    return TaskId(_parse("T", "task", text))


def parse_lease(text: str) -> LeaseId:
    """Read `L-42`, raising MalformedInput for anything else."""
    return LeaseId(_parse("L", "lease", text))


def parse_session(text: str) -> SessionId:
    """Read `S-3`, raising MalformedInput for anything else."""
    return SessionId(_parse("S", "session", text))


def parse_reservation(text: str) -> ReservationId:
    """Read `R-3`, raising MalformedInput for anything else."""
    return ReservationId(_parse("R", "reservation", text))


def parse_errand(text: str) -> ErrandId:
    """Read `E-5`, raising MalformedInput for anything else."""
    return ErrandId(_parse("E", "errand", text))


def parse_proposal(text: str) -> ProposalId:
    """Read `P-3`, raising MalformedInput for anything else."""
    return ProposalId(_parse("P", "proposal", text))


def parse_message(text: str) -> MessageId:
    """Read `M-5`, raising MalformedInput for anything else."""
    return MessageId(_parse("M", "message", text))


def ticket_name(task: int) -> str:
    """Write a task's number as people say it."""
    return f"T-{task}"


task_name = ticket_name


def lease_name(lease: int) -> str:
    """Write a lease's number as people say it."""
    return f"L-{lease}"


def session_name(session: int) -> str:
    """Write a session's number as people say it."""
    return f"S-{session}"


def message_name(message: int) -> str:
    """Write a message's number as people say it."""
    return f"M-{message}"


def reservation_name(reservation: int) -> str:
    """Write a reservation's number as people say it."""
    return f"R-{reservation}"


def errand_name(errand: int) -> str:
    """Write an errand's number as people say it."""
    return f"E-{errand}"


def proposal_name(proposal: int) -> str:
    """Write a proposal's number as people say it."""
    return f"P-{proposal}"
