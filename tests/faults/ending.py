"""The end of a run: everything is given back, and each card must be granted to whoever asks for it."""

import threading
import time

from faults.agents import Agent
from faults.troubles import put_back
from faults.world import CARDS, World

PATIENCE_SECONDS = 60.0
_PAUSE = 0.1


def stuck_cards(world: World) -> list[str]:
    """Give everything back, ask for every card, and say of each that is not granted in time why it is not."""
    end = time.monotonic() + PATIENCE_SECONDS
    world.stack.clear()
    for agent in world.agents:
        agent.is_silent = True
    inspectors = [Agent(f"inspector-{card}", world.stack.caller(f"inspector-{card}")) for card in range(CARDS)]
    waiting = dict(enumerate(inspectors))
    while waiting and time.monotonic() < end:
        put_back(world)
        waiting = {card: agent for card, agent in waiting.items() if not _is_granted(world, card, agent)}
        threading.Event().wait(_PAUSE)
    return [f"Stuck: card {card} ({world.uuids[card]}): {_why(world, card)}" for card in waiting]


def _is_granted(world: World, card: int, agent: Agent) -> bool:
    """Ask for a card, and give it back as soon as it is granted."""
    if not agent.tickets and not agent.offers and not agent.leases:
        answer = agent.call("POST", "/tickets", job=f"inspect {card}", device=world.uuids[card])
        if answer is not None:
            agent.note(answer)
    agent.synchronise()
    for lease in [*agent.offers, *agent.leases]:
        agent.release(lease)
        return True
    return False


def _why(world: World, card: int) -> str:
    lane = next((lane for lane in world.lanes() if lane["uuid"] == world.uuids[card]), None)
    return "the server does not answer" if lane is None else f"{lane['state']}, {lane['say']}"
