"""How the standing of tickets and leases reads on a terminal, the same in every command that shows it."""

from collections.abc import Sequence
from datetime import datetime

from warploom.cli.output import note
from warploom.domain.etas import EtaWord
from warploom.domain.grants import grant_lines
from warploom.domain.leases import LeaseAnswer
from warploom.domain.standings import Standing, TicketAnswer
from warploom.domain.texts import spoken_list

_INDENT = " " * 8


def ticket_lines(answer: TicketAnswer) -> list[str]:
    """Say where a ticket stands, why, and what to do: the card when it is ready, else the place in the queue."""
    if answer.state is Standing.QUEUED:
        return [*queue_lines(answer), f"{'next':<8}{answer.next}"]
    granted = grant_lines(answer)
    if granted:
        return granted
    reason = f": {answer.reason}" if answer.reason else ""
    return [f"{answer.state.value:<8}{answer.ticket} '{answer.title}'{reason}", f"{'next':<8}{answer.next}"]


def queue_lines(answer: TicketAnswer) -> list[str]:
    """Say a place in the queue: the reason, when it is the ticket's turn, and which cards are free elsewhere."""
    where = f" on {spoken_list(answer.cards)}" if answer.cards else ""
    place = f", place {answer.place}" if answer.place is not None else ""
    reason = f": {answer.reason}" if answer.reason else ""
    lines = [f"{'queued':<8}{answer.ticket}{where}{place}{reason}"]
    if answer.starts is not None:
        lines.append(_INDENT + starts_text(answer))
    if answer.also_free:
        are = "a free card" if len(answer.also_free) == 1 else "free cards"
        asked = f"you asked for {spoken_list(answer.cards)}" if answer.cards else "they do not fit"
        lines.append(f"{_INDENT}{are}: {spoken_list(answer.also_free)} (not taken: {asked})")
    return lines


def starts_text(answer: TicketAnswer) -> str:
    """Say when a ticket may start, with the word for how that is known."""
    starts = answer.starts
    if starts is None or starts.word is EtaWord.UNKNOWN:
        return "start unknown"
    return f"starts {when(starts.text)}, {starts.word.value}"


def when(text: str) -> str:
    """Put an estimate's text into a sentence: 'in ~48 min', but 'now' stays as it is."""
    return text if text == "now" else f"in {text}"


def lease_lines(answer: LeaseAnswer) -> list[str]:
    """Say what a holder is told after a call that names its lease."""
    cards = f" on {spoken_list(answer.cards)}" if answer.cards else ""
    steps = f", step {answer.step:,}" if answer.step is not None else ""
    total = f" of {answer.total:,}" if answer.total is not None else ""
    free = f", free {when(answer.free_in)}" if answer.free_in else ""
    source = f" ({answer.eta_source})" if free and answer.eta_source else ""
    return [f"{answer.lease} {answer.state.value}{cards}{steps}{total}{free}{source}", answer.next]


def clock(moment: datetime) -> str:
    """Write a moment as the reader's own clock shows it; with the day, unless that is today."""
    there = moment.astimezone()
    return f"{there:%H:%M:%S}" if there.date() == datetime.now().astimezone().date() else f"{there:%Y-%m-%d %H:%M}"


def tell_notices(notices: Sequence[str], *, as_json: bool) -> None:
    """Tell people what came for them meanwhile, beside the answer; machines find it in the JSON."""
    if not as_json:
        for notice in notices:
            note(f"notice  {notice}")
