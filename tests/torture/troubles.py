"""What is done to everything around the hand-overs: parts killed, stopped, paused, cut off in silence; each is bounded and healed."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Final

from support.invariants import ask
from support.serving import eventually
from torture.book import Reach
from torture.verdict import LONGEST_PAUSE, SILENT_LAG, START_SECONDS
from torture.world import REPLICAS, Replica, World
from warploom.client.processes import is_alive
from warploom.domain.processes import ProcessIdentity

Dice = tuple[float, float, float]
Trouble = Callable[[World, Dice], None]

EVERYWHERE = frozenset(range(REPLICAS))
_LEADER = "select holder from leader where expires_at > clock_now()"


def _last(world: World, dice: Dice) -> None:
    threading.Event().wait(dice[1] * world.plan.longest_trouble)


def kill_waiter(world: World, dice: Dice) -> None:
    """Kill a command that waits; its agent starts it again."""
    _kill_one(world, dice, "warploom wait")


def kill_stdio_server(world: World, dice: Dice) -> None:
    """Kill a stdio server in the middle of a wait; its client starts it again."""
    _kill_one(world, dice, "gpu_wait")


def _kill_one(world: World, dice: Dice, way: str) -> None:
    agents = [agent for agent in world.agents if agent.waiter.way == way]
    first = int(dice[0] * len(agents))
    for agent in [*agents[first:], *agents[:first]]:
        with world.book.trouble(f"{way} killed", Reach(START_SECONDS, agents=frozenset([agent.name]))):
            if agent.way.kill():
                return


def kill_replica(world: World, dice: Dice) -> None:
    """Kill a server."""
    _kill_server(world, int(dice[0] * REPLICAS), dice, "replica killed")


def kill_leader(world: World, dice: Dice) -> None:
    """Kill the server that does the orchestrator's duties."""
    holder = eventually(lambda: ask(world.postgres.url, _LEADER))[0]["holder"]
    pids = [replica.server.pid for replica in world.replicas]
    _kill_server(world, pids.index(int(holder.split()[1])), dice, "leader killed")


def _kill_server(world: World, number: int, dice: Dice, name: str) -> None:
    server = world.replicas[number].server
    with world.book.trouble(name, Reach(LONGEST_PAUSE, frozenset([number]))):
        server.kill()
        _last(world, dice)
        server.start()
        server.until_healthy()


def stop_redis(world: World, dice: Dice) -> None:
    """Kill Redis, and start it some time later."""
    with world.book.trouble("redis stopped"):
        _end(world.valkey.process, signal.SIGKILL)
        _last(world, dice)
        world.valkey.start()


def restart_redis(world: World, dice: Dice) -> None:
    """Stop Redis as is proper, and start it at once."""
    with world.book.trouble("redis restarted"):
        world.valkey.stop()
        world.valkey.start()


def pause_redis(world: World, dice: Dice) -> None:
    """Stop Redis in the middle of whatever it does, and let it go on."""
    process = world.valkey.process
    assert process is not None
    with world.book.trouble("redis paused"):
        os.kill(process.pid, signal.SIGSTOP)
        try:
            _last(world, dice)
        finally:
            os.kill(process.pid, signal.SIGCONT)


def lose_redis(world: World, dice: Dice) -> None:
    """Let the way to Redis become a black hole."""
    with world.book.trouble("redis black-holed"):
        for replica in _struck(world, dice):
            replica.redis.black_hole()
        _last(world, dice)
        for replica in world.replicas:
            replica.redis.restore()


def cut_redis(world: World, dice: Dice) -> None:
    """Reset every connection to Redis, for a while."""
    with world.book.trouble("redis cut"):
        for replica in _struck(world, dice):
            replica.redis.cut()
        _last(world, dice)
        for replica in world.replicas:
            replica.redis.restore()


def lose_database(world: World, dice: Dice) -> None:
    """Let the way to the database become a black hole."""
    with world.book.trouble("database black-holed", Reach(SILENT_LAG, _places(dice))):
        for replica in _struck(world, dice):
            replica.database.black_hole()
        _last(world, dice)
        for replica in world.replicas:
            replica.database.restore()


def cut_database(world: World, dice: Dice) -> None:
    """Reset every connection to the database, for a while."""
    with world.book.trouble("database cut", Reach(LONGEST_PAUSE, _places(dice))):
        for replica in _struck(world, dice):
            replica.database.cut()
        _last(world, dice)
        for replica in world.replicas:
            replica.database.restore()


def restart_postgres(world: World, dice: Dice) -> None:
    """Let Postgres end every session in order, and start again."""
    _restart(world, signal.SIGINT, "postgres restarted")


def crash_postgres(world: World, dice: Dice) -> None:
    """Let Postgres end at once and recover from its log."""
    _restart(world, signal.SIGQUIT, "postgres crashed")


def _restart(world: World, blow: signal.Signals, name: str) -> None:
    with world.book.trouble(name, Reach(LONGEST_PAUSE, EVERYWHERE)):
        _end(world.postgres.process, blow)
        world.postgres.start()


def _end(process: ProcessIdentity | None, blow: signal.Signals) -> None:
    assert process is not None
    os.kill(process.pid, blow)
    eventually(lambda: not is_alive(process))


def _places(dice: Dice) -> frozenset[int]:
    """Choose one replica or all."""
    return EVERYWHERE if dice[2] < 0.4 else frozenset([int(dice[0] * REPLICAS)])


def _struck(world: World, dice: Dice) -> list[Replica]:
    return [world.replicas[place] for place in _places(dice)]


EVERY: Final[tuple[Trouble, ...]] = (
    kill_waiter,
    kill_stdio_server,
    kill_replica,
    kill_leader,
    stop_redis,
    restart_redis,
    pause_redis,
    lose_redis,
    cut_redis,
    lose_database,
    cut_database,
    restart_postgres,
    crash_postgres,
)
