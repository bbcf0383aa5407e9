"""The breaker: takes a card out of service on the evidence of its own faults, until an operator clears it."""

from warploom.domain.events import EventKind
from warploom.domain.identifiers import HostId, SessionId, lease_name
from warploom.domain.messages import WARPLOOM
from warploom.services.changes import Change
from warploom.store import cards as card_store
from warploom.store import sessions as session_store


async def break_faulty(change: Change, host: HostId) -> None:
    """Quarantine what counts memory errors on this host. Leases go on, and whoever holds such a card is told.

    The caller has locked the host's cards.
    """
    broken = await card_store.break_faulty(change.conn, host)
    if not broken:
        return
    for card in await card_store.read_cards(change.conn, [host]):
        if card.card not in broken:
            continue
        facts = {"agent": WARPLOOM, "cards": card.name, "reason": broken[card.card]}
        change.tell(EventKind.CARD_QUARANTINED, facts, host=host, cards=[card.card])
        if card.holder is not None:
            text = (
                f"{card.name}, which you hold with {lease_name(card.holder.lease)} '{card.holder.title}', counts "
                f"{broken[card.card]}. Your lease goes on; what was computed there since may be wrong."
            )
            await session_store.send_notice(change.conn, SessionId(card.holder.session), WARPLOOM, text)
