"""The words with which a grant reaches its owner, the same in `warploom wait`, in a push and in a tool's answer."""

from warploom.domain.leases import export_line
from warploom.domain.standings import Standing, TicketAnswer
from warploom.domain.texts import spoken_list


def grant_lines(answer: TicketAnswer) -> list[str]:
    """Return what the owner of a granted ticket reads: the cards, the variables to export, what to do now.

    Empty unless the ticket has a lease. The second line is a shell line that can be run as it stands.
    """
    if answer.lease is None or answer.state not in (Standing.OFFERED, Standing.ACTIVE):
        return []
    ready = "Your card is ready" if len(answer.cards) == 1 else "Your cards are ready"
    exports = [export_line(answer.export)] if answer.export else []
    exports += [answer.export_note] if answer.export_note else []
    return [
        f"{ready}: {spoken_list(answer.cards)} (lease {answer.lease}, {_terms(answer)}).",
        *exports,
        f"Start the job now ({answer.ticket} '{answer.title}'); call {answer.ending} when it ends.",
    ]


def _terms(answer: TicketAnswer) -> str:
    if answer.state is Standing.ACTIVE:
        return "yours until you release it"
    until = f" until {answer.expires_at:%H:%M:%S} UTC" if answer.expires_at else ""
    return f"offered{until}; it is yours from your next call that names it"
