"""What is said to sessions whose processes are on a card that is not theirs, once for each stay."""

from collections.abc import Sequence

from warploom.domain.cards import Condition, Owner
from warploom.domain.identifiers import lease_name
from warploom.domain.surveys import OwnedProcess, Remembered
from warploom.domain.texts import spoken_list, spoken_memory


def remind_stayers(
    card: str, processes: Sequence[OwnedProcess], before: Remembered, condition: Condition
) -> dict[int, str]:
    """Return by session what to say after a survey: to those who came without a lease, and to ex-holders who stay on."""
    came = {each.session for each in processes if each.owner is Owner.UNLEASED} - before.unleased
    stays_on = condition is Condition.OCCUPIED and before.condition is not Condition.OCCUPIED
    stayed = {each.session for each in processes if each.owner is Owner.EX_HOLDER} if stays_on else set[int | None]()
    return {
        **{session: _unleased(card, _own(processes, session)) for session in came if session is not None},
        **{session: _ex_holder(card, _own(processes, session)) for session in stayed if session is not None},
    }


def _own(processes: Sequence[OwnedProcess], session: int) -> list[OwnedProcess]:
    return [each for each in processes if each.session == session]


def _unleased(card: str, own: list[OwnedProcess]) -> str:
    return (
        f"{_named(own)} of your session {_uses(own)} {card} without a lease, so nobody is granted that card. Once "
        f'nothing of yours runs there any more, ask for it with gpu_request(device="{card}") before the next run.'
    )


def _ex_holder(card: str, own: list[OwnedProcess]) -> str:
    leases = spoken_list(sorted({lease_name(each.lease) for each in own if each.lease is not None}))
    return (
        f"{_named(own)} of your session still {_uses(own)} {card}, although {leases} ended: nobody is granted that card "
        f'until it is observed clear. If you still need it, ask with gpu_request(device="{card}").'
    )


def _uses(own: list[OwnedProcess]) -> str:
    return "uses" if len(own) == 1 else "use"


def _named(own: list[OwnedProcess], most: int = 3) -> str:
    told = [f"{each.fact.command or 'a process'} (pid {each.fact.pid}{_memory(each)})" for each in own[:most]]
    more = [f"{len(own) - most} more"] if len(own) > most else []
    return spoken_list([*told, *more])


def _memory(process: OwnedProcess) -> str:
    held = process.fact.memory_mib
    return "" if held is None else f", {spoken_memory(held)}"
