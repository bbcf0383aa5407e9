"""Tickets: ready tasks that wait for a card, what they need and what their owners are told."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from warploom.domain.cards import Condition, KnownCard
from warploom.domain.errors import Impossible, MalformedInput, NotFound
from warploom.domain.identifiers import CardId, HostId
from warploom.domain.instances import fit_for, refuse_divided, refuse_instances
from warploom.domain.leases import EnvStyle, parse_env_style, run_length
from warploom.domain.messages import MessageView
from warploom.domain.proposals import ProposalView
from warploom.domain.reservations import ReservationView
from warploom.domain.standings import TicketAnswer, Wish
from warploom.domain.task_answers import TaskLine
from warploom.domain.tasks import Priority, parse_priority
from warploom.domain.texts import one_line, optional_line, spoken_list, spoken_memory

MOST_CARDS = 64


@dataclass(frozen=True, slots=True)
class CardNeed:
    """What a ticket must hold to run. Either `named` cards, or `count` cards of one host that fit the rest."""

    named: tuple[str, ...] = ()
    """Cards by name (`local/0`), by index (`0`) or by UUID; empty for any."""
    count: int = 1
    memory_mib: int | None = None
    model: str | None = None


def parse_need(device: str, cards: int, memory_gib: float | None, model: str | None) -> CardNeed:
    """Read what a request says of cards: `device` is 'any', one card, or several with commas between."""
    names = tuple(dict.fromkeys(part.strip() for part in device.split(",") if part.strip()))
    if not names:
        raise MalformedInput("No card was named.", "Give a card such as 0 or local/0, or any.")
    if any(len(name) > 120 for name in names) or len(names) > MOST_CARDS:
        raise MalformedInput("The list of cards is too long.", f"Name at most {MOST_CARDS} cards.")
    if not 1 <= cards <= MOST_CARDS:
        raise MalformedInput(
            f"{str(cards)[:20]} cards cannot be asked for.", f"Ask for 1 to {MOST_CARDS} cards of one host."
        )
    if memory_gib is not None and not 0 < memory_gib <= 100_000:
        raise MalformedInput(
            f"{memory_gib:g} GiB is not an amount of memory.", "Give the GiB that each card must have, above 0."
        )
    memory_mib = None if memory_gib is None else max(1, round(memory_gib * 1024))
    if [name.lower() for name in names] == ["any"]:
        return CardNeed((), cards, memory_mib, (model or "").strip() or None)
    if cards not in (1, len(names)):
        raise MalformedInput(
            f"{len(names)} cards are named but {cards} asked for.",
            "Name each card with commas between, or use device any.",
        )
    return CardNeed(names, len(names), memory_mib, (model or "").strip() or None)


def resolve_cards(need: CardNeed, cards: Sequence[KnownCard], home: str | None) -> list[CardId]:
    """Return the cards a request may use: the named ones, or all that fit.

    `home` is the caller's own host, for names such as `0`. Raises NotFound for a name that no card has, and Impossible
    with the most that could be had for what no host could ever give.
    """
    if not cards:
        raise Impossible(
            "No host has reported a card.",
            "Start a host agent with `warploom up` on a machine with GPUs, or try WARPLOOM_FAKE_GPUS=2.",
        )
    if need.named:
        chosen = [_named_card(name, cards, home) for name in need.named]
        _check_together(chosen, need)
        return [card.card for card in chosen]
    return [card.card for card in fitting_cards(need, cards)]


def card_by_name(name: str, cards: Sequence[KnownCard], home: str | None = None) -> KnownCard:
    """Find a card by `local/0`, by index on the caller's host, or by UUID (or its beginning, 8 letters or more)."""
    return _named_card(name, cards, home)


def _named_card(name: str, cards: Sequence[KnownCard], home: str | None) -> KnownCard:
    if name.isascii() and name.isdigit():
        hosts = {card.host for card in cards}
        host = (
            home if home in hosts else "local" if "local" in hosts else next(iter(hosts)) if len(hosts) == 1 else None
        )
        if host is None:
            raise MalformedInput(
                f"Card {name} could be on {spoken_list(sorted(hosts))}.",
                f"Name the host too, such as {min(hosts)}/{name}.",
            )
        name = f"{host}/{int(name)}"
    found = [card for card in cards if card.name == name or card.uuid == name]
    if not found and len(name) >= 8:
        found = [card for card in cards if card.uuid.lower().startswith(name.lower())]
    present = [card for card in found if card.condition not in (Condition.LOST, Condition.GONE)] or found
    if not present:
        refuse_divided(name, cards)
    if len(present) != 1:
        known = spoken_list([card.name for card in cards[:12]])
        raise NotFound(
            f"There is no card {name[:60]!r}.", f"The cards are {known}; `gpu_survey` or `warploom status` shows them."
        )
    return present[0]


def _check_together(chosen: list[KnownCard], need: CardNeed) -> None:
    refuse_instances(chosen)
    if len({card.card for card in chosen}) < len(chosen):
        raise MalformedInput("The same card is named twice.", "Name each card once.")
    if len({card.host_id for card in chosen}) > 1:
        raise Impossible(
            "One lease cannot span hosts.", "Name cards of one host, or ask for each host's cards on their own."
        )
    small = [card for card in chosen if need.memory_mib is not None and card.memory_mib < need.memory_mib]
    if small:
        wanted, has = spoken_memory(need.memory_mib or 0), spoken_memory(small[0].memory_mib)
        raise Impossible(
            f"{small[0].name} has {has}, less than the {wanted} asked for.", "Ask for at most that, or for device any."
        )


def fitting_cards(need: CardNeed, cards: Sequence[KnownCard]) -> list[KnownCard]:
    """Return every card of every host that has `count` fitting ones; raise Impossible where no host has."""
    model = (need.model or "").lower()
    of_model = [card for card in cards if model in card.model.lower()]
    if not of_model:
        models = spoken_list(sorted({card.model for card in cards})[:8])
        raise Impossible(f"No card is a {need.model!r}.", f"The models here are {models}.")
    whole = fit_for(need.count, of_model)
    if not whole:
        raise Impossible(
            f"{need.count} cards cannot be had together: a process can use only one MIG instance, and there are no whole cards.",
            "Ask for one card.",
        )
    fitting = [card for card in whole if card.memory_mib >= (need.memory_mib or 0)]
    if not fitting:
        most = max(card.memory_mib for card in whole)
        largest = [card.name for card in whole if card.memory_mib == most][:4]
        verb = "has" if len(largest) == 1 else "have"
        raise Impossible(
            f"No card has {spoken_memory(need.memory_mib or 0)}; the largest, {spoken_list(largest)}, {verb} {spoken_memory(most)}.",
            f"Ask for at most {spoken_memory(most)}, or for several cards of one host.",
        )
    chosen = room_for(need, fitting)
    if not chosen:
        most_together = max(_count_by_host(fitting).values())
        raise Impossible(
            f"No host has {need.count} such cards; the most on one host is {most_together}.",
            f"Ask for at most {most_together}.",
        )
    return chosen


def room_for(need: CardNeed, cards: Sequence[KnownCard]) -> list[KnownCard]:
    """Return the fitting cards of each host that has `count` of them; empty where no host has."""
    model = (need.model or "").lower()
    whole = fit_for(need.count, cards)
    fitting = [card for card in whole if card.memory_mib >= (need.memory_mib or 0) and model in card.model.lower()]
    counts = _count_by_host(fitting)
    return [card for card in fitting if counts[card.host_id] >= need.count]


def _count_by_host(cards: Sequence[KnownCard]) -> dict[HostId, int]:
    return Counter(card.host_id for card in cards)


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """A wish for cards, already read and checked."""

    job: str
    need: CardNeed
    run: timedelta | None
    priority: Priority
    env_style: EnvStyle
    purpose: str
    """The idempotency key within project and agent."""


def read_wish(wish: Wish) -> GpuRequest:
    """Check a wish and return the request; raises MalformedInput with one sentence for the first thing wrong."""
    job = one_line(wish.job, "job")
    need = parse_need(wish.device, wish.cards, wish.memory_gib, optional_line(wish.model, "model", 120))
    purpose = optional_line(wish.purpose, "purpose", 300)
    return GpuRequest(
        job=job,
        need=need,
        run=run_length(wish.minutes),
        priority=parse_priority(wish.priority),
        env_style=parse_env_style(wish.env_style),
        purpose=purpose or f"{job} on {','.join(need.named) or f'any {need.count}'}"[:300],
    )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a session is told when it shows a sign of life: the offers it has not accepted, the messages it has not read.

    Where it asked for what may be pushed: only what no way has reached it with yet.
    """

    grants: list[TicketAnswer]
    messages: list[MessageView] = field(default_factory=list[MessageView])
    again_in: float | None = None
    """Seconds until an offer that is still left to whoever waits for it may be pushed."""


@dataclass(frozen=True, slots=True)
class Me:
    """What a session holds, waits for and has not read: enough to go on after its context was compacted."""

    session: str
    agent: str
    project: str
    at: datetime
    leases: list[TicketAnswer]
    tickets: list[TicketAnswer]
    notices: list[str]
    next: str
    tasks: list[TaskLine] = field(default_factory=list[TaskLine])
    """The tasks without cards that it has claimed."""
    reservations: list[ReservationView] = field(default_factory=list[ReservationView])
    """What is reserved for it, now or later."""
    proposals: list[ProposalView] = field(default_factory=list[ProposalView])
    """What is proposed to it and by it, and what it has agreed to."""
