"""What tools answer: the domain's values as small JSON, with nothing that is empty."""

from typing import Any, cast

import msgspec

from warploom.domain.etas import EtaView
from warploom.domain.leases import LeaseAnswer
from warploom.domain.tickets import Standing, TicketAnswer

Answer = dict[str, Any]


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
    if len(answer.cards) == 1:
        flat["card"] = flat.pop("cards")[0]
    if answer.state is Standing.QUEUED and answer.starts is not None:
        flat |= _eta(answer.starts, "starts_in_minutes")
    return flat


def lease_answer(answer: LeaseAnswer) -> Answer:
    """Present a lease flat."""
    return plain(answer)


def _eta(eta: EtaView, name: str) -> Answer:
    return ({name: eta.minutes} if eta.minutes is not None else {}) | {"eta_source": eta.word.value}
