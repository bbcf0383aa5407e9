"""Probes: a card is used a little by its host, and what came of it decides whether it is kept out or given back."""

from warploom.domain.callers import Role
from warploom.domain.cards import Condition, KnownCard, Service
from warploom.domain.errands import LAPSE_TIME, ErrandAnswer, ErrandKind, Outcome, tell_outcome
from warploom.domain.errors import NotFound, NotReady, Taken
from warploom.domain.events import EventKind
from warploom.domain.identifiers import CardId, ErrandId, HostId, errand_name, lease_name
from warploom.domain.messages import WARPLOOM
from warploom.domain.reasons import blocker
from warploom.domain.sessions import Actor
from warploom.domain.texts import REASON_LIMIT, cut_line, optional_line
from warploom.domain.tickets import card_by_name
from warploom.services.breaker import keep_out
from warploom.services.changes import Change
from warploom.services.kills import same_errand
from warploom.services.sessions import require
from warploom.store import breaker as breaker_store
from warploom.store import cards as card_store
from warploom.store import errands as errand_store
from warploom.store import queues as queue_store
from warploom.store.clock import read_clock
from warploom.store.errands import KnownErrand, NewErrand

_LONGEST_SECONDS = 20


async def ask_probe(change: Change, actor: Actor, name: str, reason: str | None, *, preview: bool) -> ErrandAnswer:
    """Ask a card's host to use it a little; with `preview` only say what that would mean.

    Raises Taken for a card that somebody holds, NotReady for one that is in service and not free.
    """
    require(actor, Role.OPERATOR)
    why = optional_line(reason, "reason", REASON_LIMIT)
    card = card_by_name(name, await card_store.read_cards(change.conn))
    await card_store.lock_cards(change.conn, [card.host_id])
    card = await _card(change, card)
    same = await errand_store.find_same(change.conn, _errand(card, actor.agent_name, why))
    if same is None:
        await _refuse_in_use(change, card)
    errand = same if preview else await request_probe(change, card, actor.agent_name, why)
    return ErrandAnswer(
        errand=None if preview or errand is None else errand_name(errand),
        kind=ErrandKind.PROBE,
        host=card.host,
        about=card.name,
        done=not preview,
        consequences=await _consequences(change, card),
        next=f"{card.host} says how it went; it is asked no more after {LAPSE_TIME.seconds // 60} min.",
    )


async def request_probe(change: Change, card: KnownCard, asked_by: str, reason: str | None) -> ErrandId:
    """Ask for a probe of a card that nobody holds; until it is answered the card is not granted. Returns the open one there is.

    The caller has locked the cards of the host.
    """
    new = _errand(card, asked_by, reason)
    asked = await errand_store.ask(change.conn, new, LAPSE_TIME)
    if asked is None:
        return await same_errand(change.conn, new)
    await card_store.settle(change.conn, card.card)
    facts = {"agent": asked_by, "cards": card.name, "host": card.host}
    change.tell(EventKind.CARD_PROBE_ASKED, facts, host=card.host_id, cards=[card.card])
    change.order_survey(card.host)
    return asked


async def probe_suspects(change: Change, host: HostId, suspects: set[CardId]) -> None:
    """Have these suspect cards probed, once for each suspicion; the caller has locked the host's cards."""
    for card in await card_store.read_cards(change.conn, [host]):
        is_wanted = card.card in suspects and card.holder is None and card.service is not Service.QUARANTINED
        if is_wanted and await breaker_store.note_probe(change.conn, card.card):
            await request_probe(change, card, WARPLOOM, card.suspicion)


async def finish_probe(change: Change, errand: KnownErrand, outcome: Outcome) -> str:
    """Keep a card out, or give it back, by what came of its probe; say which. The caller has locked the cards of the host."""
    assert errand.card is not None
    cards = await card_store.read_cards(change.conn, [errand.host])
    card = next(found for found in cards if found.card == errand.card)
    facts = {"agent": errand.asked_by, "cards": card.name, "host": card.host, "result": tell_outcome(outcome)}
    change.tell(EventKind.CARD_PROBED, facts, host=card.host_id, cards=[card.card])
    change.order_survey(card.host)
    if outcome.problem is not None or outcome.passed is None:
        return f"{card.name} is as it was: {_standing(card)}."
    return await (_give_back if outcome.passed else _hold_against)(change, card, errand, outcome)


async def _give_back(change: Change, card: KnownCard, errand: KnownErrand, _outcome: Outcome) -> str:
    await breaker_store.trust(change.conn, card.card)
    if card.service is not Service.QUARANTINED:
        return f"{card.name} is as it was: {_standing(card)}."
    errors = await card_store.unexcused_errors(change.conn, card.card)
    if errors:
        return f"{card.name} stays quarantined: it counts {_memory_errors(errors)}, which `warploom clear {card.name}` excuses."
    await card_store.clear_quarantine(change.conn, card.card)
    facts = {"agent": f"the probe that {errand.asked_by} asked for", "cards": card.name}
    change.tell(EventKind.CARD_CLEARED, facts, host=card.host_id, cards=[card.card])
    return f"{card.name} is back in service, and is granted on as soon as it is observed clear."


async def _hold_against(change: Change, card: KnownCard, _errand: KnownErrand, outcome: Outcome) -> str:
    evidence = cut_line(f"failed its probe: {outcome.text or 'nothing more was said'}", REASON_LIMIT) or ""
    if card.service is Service.QUARANTINED:
        await card_store.renew_evidence(change.conn, card.card, evidence)
        return f"{card.name} stays quarantined with that as its evidence."
    await keep_out(change, card, evidence)
    return f"{card.name} is quarantined now."


async def _card(change: Change, wanted: KnownCard) -> KnownCard:
    cards = await card_store.read_cards(change.conn, [wanted.host_id])
    found = next((card for card in cards if card.card == wanted.card), None)
    if found is None:
        raise NotFound(f"{wanted.name} is no card of {wanted.host} any more.", "`warploom status` shows the cards.")
    return found


def _errand(card: KnownCard, asked_by: str, reason: str | None) -> NewErrand:
    return NewErrand(card.host_id, ErrandKind.PROBE, asked_by, reason, card=card.card)


async def _refuse_in_use(change: Change, card: KnownCard) -> None:
    if card.holder is not None:
        raise Taken(
            f"{card.name} is held by {card.holder.agent} with {lease_name(card.holder.lease)}; a held card is not probed.",
            f"`warploom drain {card.name}` grants it to nobody afterwards; probe it once that lease has ended.",
        )
    if card.condition is Condition.GONE:
        raise NotReady(f"{card.name} is gone.", "`warploom status` shows the cards there are.")
    if card.service is Service.IN_SERVICE and not card.is_grantable:
        why = blocker(card, await read_clock(change.conn)) or f"{card.name} is not free"
        raise NotReady(
            f"{why}.", f"Probe it once it is free, or take it out of service first: `warploom drain {card.name}`."
        )


async def _consequences(change: Change, card: KnownCard) -> list[str]:
    return [
        f"A process on {card.host} allocates a little memory on {card.name} and copies it there and back, for "
        f"{_LONGEST_SECONDS} s at most.",
        f"{card.name} is granted to nobody meanwhile.",
        await _if_it_passes(change, card.card, card),
        f"If it fails, {card.name} {'stays' if card.service is Service.QUARANTINED else 'is'} quarantined with that as evidence.",
    ]


async def _if_it_passes(change: Change, number: CardId, card: KnownCard) -> str:
    if card.service is not Service.QUARANTINED:
        return f"If it passes, {card.name} is as before: {_standing(card)}."
    errors = await card_store.unexcused_errors(change.conn, number)
    if errors:
        return (
            f"Even if it passes, {card.name} stays quarantined: it counts {_memory_errors(errors)}, which "
            f"`warploom clear {card.name}` excuses."
        )
    waiting = (await queue_store.queue_lengths(change.conn, [number])).get(number, 0)
    first = f"; {waiting} waiting, the first is granted as soon as it is observed clear" if waiting else ""
    return f"If it passes, {card.name} is back in service{first}."


def _standing(card: KnownCard) -> str:
    return card.service.value.replace("_", " ")


def _memory_errors(count: int) -> str:
    return f"{count} memory {'error' if count == 1 else 'errors'} that nobody has excused"
