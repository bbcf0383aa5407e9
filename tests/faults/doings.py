"""What agents and holders do, well-behaved and not."""

from collections.abc import Callable

from faults.agents import Agent, Exports
from faults.holders import start_holder
from faults.world import AGENTS, CARDS, World, choose

Dice = tuple[float, float, float]
Step = Callable[[World, Dice], str | None]
"""Does something and says what; None when there was nothing to do it to."""

MOST_TICKETS = 3
MOST_HOLDERS = 8
LONGEST_HOLD = 30


def request(world: World, dice: Dice) -> str | None:
    """Ask for one card, any card or several, with and without minutes."""
    agent = world.agents[int(dice[0] * AGENTS)]
    if len(agent.tickets) + len(agent.leases) >= MOST_TICKETS:
        return None
    wish = _wish(dice[1])
    minutes = None if dice[2] < 0.5 else round(dice[2] * 2, 2)
    style = "index" if dice[0] * AGENTS % 1 < 0.2 else "uuid"
    answer = agent.call("POST", "/tickets", job=f"job {world.number}", minutes=minutes, env_style=style, **wish)
    if answer is not None:
        agent.note(answer)
    return f"{agent.name} asks for {wish}"


def _wish(dice: float) -> dict[str, str | int]:
    if dice < 0.6:
        return {"device": str(int(dice / 0.6 * CARDS))}
    if dice < 0.8:
        return {"device": "any"}
    if dice < 0.9:
        return {"device": "any", "cards": 2}
    return {"device": "0,2" if dice < 0.95 else "1,2,3"}


def accept(world: World, dice: Dice) -> str | None:
    """Take an offer up."""
    chosen = choose(dice[0], [(agent, lease) for agent in world.agents for lease in agent.offers])
    if chosen is None:
        return None
    agent, lease = chosen
    agent.accept(lease)
    return f"{agent.name} accepts {lease}"


def hold(world: World, dice: Dice) -> str | None:
    """Start a holder with a lease, sometimes with a mere offer."""
    ready = [(agent, lease) for agent, lease in world.leases() if world.holder_of(lease) is None]
    known: list[tuple[Agent, str, Exports]] = [(agent, lease, agent.leases[lease]) for agent, lease in ready]
    if dice[1] < 0.2:
        known += [(agent, lease, offer["export"]) for agent in world.agents for lease, offer in agent.offers.items()]
    return _start(world, dice, known)


def hold_late(world: World, dice: Dice) -> str | None:
    """Start a process with a lease that has ended."""
    return _start(world, dice, [(agent, *past) for agent in world.agents for past in list(agent.past.items())[-3:]])


def _start(world: World, dice: Dice, known: list[tuple[Agent, str, Exports]]) -> str | None:
    chosen = choose(dice[0], known)
    if chosen is None or len(world.holders) >= MOST_HOLDERS:
        return None
    agent, lease, exports = chosen
    environment = world.stack.environment | exports
    holder = start_holder(world.truth, lease, environment, has_child=dice[2] < 0.3)
    if holder is None:
        return f"{agent.name} cannot use the cards of {lease}"
    world.add_holder(holder, 3 + round(dice[1] * LONGEST_HOLD))
    return f"{agent.name} uses the cards of {lease}"


def crash(world: World, dice: Dice) -> str | None:
    """Kill a holder, as kill -9 does; its child may stay."""
    holder = choose(dice[0], world.holders)
    if holder is None:
        return None
    world.end_holder(holder, spare_child=dice[1] < 0.3)
    return f"a holder of {holder.lease} is killed"


def finish(world: World, dice: Dice) -> str | None:
    """Let a holder come to its end and give its lease back; its child may stay."""
    chosen = choose(dice[0], world.leases())
    if chosen is None:
        return None
    agent, lease = chosen
    holder = world.holder_of(lease)
    if holder is not None:
        world.end_holder(holder, politely=True, spare_child=dice[1] < 0.3)
    agent.release(lease)
    return f"{agent.name} gives {lease} back after its end"


def release_early(world: World, dice: Dice) -> str | None:
    """Give a lease back while its process stays."""
    chosen = choose(dice[0], [(agent, lease) for agent, lease in world.leases() if world.holder_of(lease)])
    if chosen is None:
        return None
    agent, lease = chosen
    agent.release(lease)
    return f"{agent.name} gives {lease} back while its process stays"


def fall_silent(world: World, dice: Dice) -> str | None:
    """Let an agent fall silent, alone or with all its processes."""
    agent = world.agents[int(dice[0] * AGENTS)]
    name = f"silence of {agent.name}"
    if name in world.causes:
        return None
    agent.is_silent = True
    if dice[1] < 0.5:
        for holder in [holder for lease in agent.leases if (holder := world.holder_of(lease))]:
            world.end_holder(holder)

    def end() -> None:
        agent.is_silent = False
        agent.synchronise()

    world.trouble(name, 0.5 + 2 * dice[2], end)
    return f"{agent.name} falls silent"


def leave(world: World, dice: Dice) -> str | None:
    """Leave a queue, or give an offer back."""
    waiting = [(agent, ticket) for agent in world.agents for ticket in agent.tickets]
    waiting += [(agent, offer["ticket"]) for agent in world.agents for offer in agent.offers.values()]
    chosen = choose(dice[0], sorted(waiting, key=lambda each: each[1]))
    if chosen is None:
        return None
    agent, ticket = chosen
    agent.leave(ticket)
    return f"{agent.name} leaves with {ticket}"


def report(world: World, dice: Dice) -> str | None:
    """Report progress or ask for longer."""
    chosen = choose(dice[0], world.leases())
    if chosen is None:
        return None
    agent, lease = chosen
    if dice[1] < 0.7:
        agent.call("POST", f"/leases/{lease}/report", step=world.number, total=10_000)
    else:
        agent.call("POST", f"/leases/{lease}/extend", minutes=0.1, reason="slower than thought")
    return f"{agent.name} reports on {lease}"
