"""What happens to cards: intruders, ghosts, slow drains, lost, blind and hanging cards, and people who take them out."""

from collections.abc import Callable, Sequence
from typing import Any

from faults.doings import Dice, Step
from faults.world import CARDS, World, choose

DRIVER = "the driver and its library have different versions"


def _on_card(
    what: str, slot: str, begin: Callable[[World, int, Dice], Any], end: Callable[[World, int, Any], None]
) -> Step:
    """Make a step that takes one card until its end; two that share a slot never take the same card."""

    def step(world: World, dice: Dice) -> str | None:
        card = int(dice[0] * CARDS)
        name = f"{slot} of card {card}"
        if name in world.causes:
            return None
        begun = begin(world, card, dice)
        spells = world.spells([card], what)

        def over() -> None:
            world.truth.close(spells)
            end(world, card, begun)

        world.trouble(name, dice[1], over)
        return f"card {card}: {what}"

    return step


foreign = _on_card(
    "somebody else's process",
    "foreign",
    lambda world, card, dice: world.cards.add_process(card),
    lambda world, card, pid: world.cards.remove_process(card, pid),
)
ghost = _on_card(
    "a ghost",
    "ghost",
    lambda world, card, dice: world.cards.set_ghost(card, 20_480),
    lambda world, card, _: world.cards.set_ghost(card, 0),
)
lost = _on_card(
    "fallen off the bus",
    "fault",
    lambda world, card, dice: world.cards.set_lost(card),
    lambda world, card, _: world.cards.set_lost(card, is_lost=False),
)
missing = _on_card(
    "silently missing",
    "fault",
    lambda world, card, dice: world.cards.set_missing(card),
    lambda world, card, _: world.cards.set_missing(card, is_missing=False),
)
blind = _on_card(
    "blind",
    "fault",
    lambda world, card, dice: world.cards.set_blind(card, DRIVER),
    lambda world, card, _: world.cards.set_blind(card, None),
)
hanging = _on_card(
    "a look hangs",
    "hang",
    lambda world, card, dice: world.cards.set_hanging(card, 3600),
    lambda world, card, _: world.cards.set_hanging(card, 0),
)


def driver(world: World, dice: Dice) -> str | None:
    """Let the driver fail as a whole."""
    if "driver" in world.causes:
        return None
    world.cards.set_driver_problem(DRIVER)
    spells = world.spells(range(CARDS), "the driver fails")

    def end() -> None:
        world.truth.close(spells)
        world.cards.set_driver_problem(None)

    world.trouble("driver", dice[1] / 2, end)
    return "the driver fails as a whole"


def drain_slowly(world: World, dice: Dice) -> str | None:
    """Let memory drain slowly after a process ends on a card, or a child stay."""
    card, name = int(dice[0] * CARDS), f"slowness of card {int(dice[0] * CARDS)}"
    if name in world.causes:
        return None
    is_drain = dice[2] < 0.6
    change = world.cards.set_drain if is_drain else world.cards.set_linger
    change(card, 2 * dice[2])
    world.trouble(name, 3 * dice[1], lambda: change(card, 0))
    return f"card {card}: {'memory drains slowly' if is_drain else 'children linger'}"


def shuffle(world: World, dice: Dice) -> str | None:
    """Give the cards other indices."""
    turn = 1 + int(dice[0] * (CARDS - 1))
    for card in range(CARDS):
        world.cards.set_index(card, (card + turn) % CARDS)
    return f"the driver numbers the cards anew, by {turn}"


def ecc(world: World, dice: Dice) -> str | None:
    """Let a card count memory errors; it is repaired and then cleared in the end."""
    card = int(dice[0] * CARDS)
    name = f"errors of card {card}"
    if name in world.causes:
        return None
    world.cards.set_ecc_errors(card, 3)
    spells = world.spells([card], "memory errors")

    def end() -> None:
        world.truth.close(spells)
        world.cards.set_ecc_errors(card, 0)
        put_back(world)

    world.trouble(name, dice[1], end)
    return f"card {card}: memory errors"


def drain(world: World, dice: Dice) -> str | None:
    """Take a card out of service, until it is put back."""
    return _take_out(world, dice, "drain")


def quarantine(world: World, dice: Dice) -> str | None:
    """Quarantine a card, until it is cleared."""
    return _take_out(world, dice, "quarantine")


def _take_out(world: World, dice: Dice, verb: str) -> str | None:
    lane = choose(dice[0], world.lanes())
    name = "service"
    if lane is None or name in world.causes:
        return None
    world.operator.call("POST", f"/cards/{lane['card']}/{verb}", reason="to see whether it stays out")
    spells = out_of_service(world, world.lanes())

    def end() -> None:
        world.truth.close(spells)
        put_back(world)

    world.trouble(name, dice[1], end)
    return f"{lane['card']}: {verb}"


def out_of_service(world: World, lanes: Sequence[dict[str, Any]]) -> list[int]:
    """Open a spell for each card that people or the breaker have taken out."""
    return [
        world.truth.open(lane["uuid"], f"out of service ({lane['service']})")
        for lane in lanes
        if lane["service"] != "in_service"
    ]


def put_back(world: World) -> None:
    """Put every card back in service. What else keeps one out is taken away first, because it would be excused by that."""
    world.truth.close(
        number for number, spell in enumerate(world.truth.spells()) if spell.cause.startswith(("out of", "memory"))
    )
    for lane in world.lanes():
        if lane["service"] != "in_service":
            verb = "clear" if lane["service"] == "quarantined" else "undrain"
            world.operator.call("POST", f"/cards/{lane['card']}/{verb}", reason="it is well again")
