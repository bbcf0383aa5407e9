"""Reminders: one polite word to holders whose card is lost, or hardly used while others wait. Nothing is taken from them."""

from datetime import datetime

from warploom.domain.cards import IDLE_TIME, KnownHolder
from warploom.domain.identifiers import HostId, SessionId, lease_name, ticket_name
from warploom.domain.messages import WARPLOOM
from warploom.domain.texts import spoken_duration
from warploom.services.changes import Change
from warploom.store import cards as card_store
from warploom.store import queues as queue_store
from warploom.store import sessions as session_store


async def remind_idle(change: Change, host: HostId, now: datetime) -> None:
    """Tell the holders of idle cards of this host, once for each stretch of hardly any use.

    The caller has locked the host's cards.
    """
    idle = {
        card.card: card for card in await card_store.read_cards(change.conn, [host]) if card.idle_time(now) is not None
    }
    untold = await card_store.note_reminded(change.conn, list(idle)) if idle else []
    lengths = await queue_store.queue_lengths(change.conn, untold) if untold else {}
    for card, waiting in lengths.items():
        holder, name = idle[card].holder, idle[card].name
        assert holder is not None
        text = (
            f"{name}, which you hold with {lease_name(holder.lease)} '{holder.title}', has hardly been used for "
            f"{spoken_duration(IDLE_TIME)}, and {waiting} {'ticket waits' if waiting == 1 else 'tickets wait'} for it. "
            f"Nothing is taken from you; {_way_out(holder)}"
        )
        await session_store.send_notice(change.conn, SessionId(holder.session), WARPLOOM, text)


async def remind_lost(change: Change, host: HostId, uuids: set[str]) -> None:
    """Tell the holders of these cards of a host that they are lost; the caller has locked the host's cards."""
    for card in await card_store.read_cards(change.conn, [host]):
        if card.uuid in uuids and card.holder is not None:
            lease = f"{lease_name(card.holder.lease)} '{card.holder.title}'"
            text = (
                f"{card.name}, which you hold with {lease}, is lost: {card.condition_detail}. Your lease goes on, and nothing "
                "was ended; what ran there has probably failed."
            )
            await session_store.send_notice(change.conn, SessionId(card.holder.session), WARPLOOM, text)


def _way_out(holder: KnownHolder) -> str:
    lease = lease_name(holder.lease)
    if holder.is_task:
        return f'if you are done with it, loom_done("{ticket_name(holder.task)}", lease="{lease}") hands it on.'
    return f'gpu_release(lease="{lease}", keep_place=true) lets the first of them go and keeps your place behind it.'
