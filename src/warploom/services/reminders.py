"""Reminders: one polite word to whoever hardly uses a card while others wait for it. Nothing is ever taken from them."""

from warploom.domain.cards import IDLE_TIME
from warploom.domain.identifiers import HostId, SessionId, lease_name
from warploom.domain.messages import WARPLOOM
from warploom.domain.texts import spoken_duration
from warploom.services.changes import Change
from warploom.store import cards as card_store
from warploom.store import queues as queue_store
from warploom.store import sessions as session_store


async def remind_idle(change: Change, host: HostId) -> None:
    """Tell the holders of idle cards of this host, once for each stretch of hardly any use.

    The caller has locked the host's cards.
    """
    idle = await card_store.remind_idle(change.conn, host, IDLE_TIME)
    if not idle:
        return
    lengths = await queue_store.queue_lengths(change.conn, sorted(idle))
    for card in await card_store.read_cards(change.conn, [host]):
        if card.card in idle and card.holder is not None:
            lease, waiting = lease_name(card.holder.lease), lengths.get(card.card, 0)
            text = (
                f"{card.name}, which you hold with {lease} '{card.holder.title}', has hardly been used for "
                f"{spoken_duration(IDLE_TIME)}, and {waiting} {'ticket waits' if waiting == 1 else 'tickets wait'} for it. "
                f'Nothing is taken from you; if you are done with it, gpu_release(lease="{lease}") hands it on.'
            )
            await session_store.send_notice(change.conn, SessionId(card.holder.session), WARPLOOM, text)
