"""Commands that need no lease of their own: without a card, or on the cards of the lease that their shell has already."""

import os
from collections.abc import Mapping, Sequence

from warploom.cli.jobs import Job, Streams
from warploom.cli.signals import Signals, Stopped
from warploom.cli.ways import Way
from warploom.client.holder import HolderClient
from warploom.domain.errors import WarploomError
from warploom.domain.standings import Standing, TicketAnswer, Wish

MASK = "CUDA_VISIBLE_DEVICES"
NO_CARD = {MASK: "", "HIP_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


def find_enclosing(way: Way[HolderClient], wish: Wish) -> TicketAnswer | None:
    """Return the lease that this shell has, with exports for as many of its cards as are wished for.

    None where the shell has none, or where it does not give what is wished for. A command that waited behind the lease
    of its own shell would wait for ever.
    """
    named = os.environ.get("WARPLOOM_LEASE")
    if not named:
        return None
    from warploom.client.sessions import SessionCalls

    try:
        leases = way.of(SessionCalls).client.me().leases
    except WarploomError:
        return None
    held = next((answer for answer in leases if answer.lease == named and answer.state is Standing.ACTIVE), None)
    return None if held is None else _narrowed(held, wish)


def _narrowed(held: TicketAnswer, wish: Wish) -> TicketAnswer | None:
    entries = (held.export or {}).get(MASK, "").split(",")
    if len(entries) != len(held.cards):
        return None
    cards = dict(zip(held.cards, entries, strict=True))
    chosen = _any_of(cards, wish) if wish.device.strip().lower() == "any" else _named_of(cards, wish)
    if chosen is None:
        return None
    mask = {MASK: ",".join(cards[card] for card in chosen)}
    return TicketAnswer(held.ticket, held.title, held.state, held.next, cards=chosen, lease=held.lease, export=mask)


def _any_of(cards: Mapping[str, str], wish: Wish) -> list[str] | None:
    is_plain = wish.memory_gib is None and wish.model is None
    return list(cards)[: wish.cards] if is_plain and wish.cards <= len(cards) else None


def _named_of(cards: Mapping[str, str], wish: Wish) -> list[str] | None:
    names = [name.strip() for name in wish.device.split(",") if name.strip()]
    found = [next((card for card in cards if _is_called(card, cards[card], name)), None) for name in names]
    chosen = [card for card in found if card is not None]
    return chosen if chosen and len(chosen) == len(names) else None


def _is_called(card: str, uuid: str, name: str) -> bool:
    is_uuid = len(name) >= 8 and uuid.lower().startswith(name.lower())
    return name in (card, card.rpartition("/")[2]) or is_uuid


def run_enclosed(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command in the foreground with these variables beside its shell's; return its status. Raises OSError."""
    with Signals() as signals:
        try:
            return Job(command, {**os.environ, **environment}, Streams()).wait(signals)
        except Stopped as stop:
            return 128 + stop.number
