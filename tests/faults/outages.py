"""What happens to the stack itself: parts killed, a machine asleep, a clock that jumps."""

import os
import signal
from contextlib import suppress

from faults.doings import Dice
from faults.world import CARDS, World

ASLEEP = "sleeping host agent"
UNSUPERVISED = "absent host agent"


def _is_whole(world: World) -> bool:
    return UNSUPERVISED not in world.causes and world.healthy_at is None


def kill_host(world: World, dice: Dice) -> str | None:
    """Kill the host agent; the supervisor starts another."""
    if not _is_whole(world):
        return None
    world.end_trouble(ASLEEP)
    world.stack.kill("host")
    return "the host agent is killed"


def remove_host(world: World, dice: Dice) -> str | None:
    """Kill the host agent, and let nobody start another for some steps."""
    if not _is_whole(world):
        return None
    world.end_trouble(ASLEEP)
    supervisor = world.stack.part("daemon").process.pid
    os.kill(supervisor, signal.SIGSTOP)
    world.stack.kill("host")
    spells = world.spells(range(CARDS), "no host agent looks")

    def end() -> None:
        world.truth.close(spells)
        os.kill(supervisor, signal.SIGCONT)

    world.trouble(UNSUPERVISED, dice[1], end)
    return "the host agent is gone"


def sleep_host(world: World, dice: Dice) -> str | None:
    """Stop the host agent in the middle of whatever it does, as a laptop that sleeps, and let it go on after some steps."""
    if not _is_whole(world) or ASLEEP in world.causes:
        return None
    agent = world.stack.part("host").process.pid
    os.kill(agent, signal.SIGSTOP)
    spells = world.spells(range(CARDS), "the host agent sleeps")

    def end() -> None:
        world.truth.close(spells)
        with suppress(ProcessLookupError):
            os.kill(agent, signal.SIGCONT)

    world.trouble(ASLEEP, dice[1], end)
    return "the host agent falls asleep"


def kill_server(world: World, dice: Dice) -> str | None:
    """Kill the server."""
    return _kill(world, "server", dice)


def kill_valkey(world: World, dice: Dice) -> str | None:
    """Kill Valkey."""
    return _kill(world, "valkey", dice)


def kill_postgres(world: World, dice: Dice) -> str | None:
    """Kill Postgres."""
    return _kill(world, "postgres", dice)


def _kill(world: World, part: str, dice: Dice) -> str | None:
    if not _is_whole(world):
        return None
    world.stack.kill(part)
    world.recover_within(1 + int(dice[0] * 5))
    return f"{part} is killed"


def jump(world: World, dice: Dice) -> str | None:
    """Let the database's clock jump ahead or back, and stay there."""
    if world.healthy_at is not None:
        return None
    seconds = (1 if dice[0] < 0.5 else -1) * (1 + 600 * dice[2] ** 3)
    world.witness.jump(seconds)
    return f"the database's clock jumps by {seconds:+.1f} s"
