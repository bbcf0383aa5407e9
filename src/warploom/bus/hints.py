"""Hints that something changed, within this process and between processes; all of them may be lost."""

# pyright: reportUnknownMemberType=false

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from warploom.bus.breaker import Breaker
from warploom.telemetry.logs import get_logger

CHANNEL: Final = "warploom:hints"
POLL_SECONDS: Final = 3.0
"""How long a waiter trusts silence before it reads the database itself; the bound on a lost hint."""

_TIMEOUT_SECONDS: Final = 1.0
_GAP_SECONDS: Final = 0.003
"""A hint after a quiet moment goes at once; those that follow closer than this go together."""
_PING_SECONDS: Final = 5.0
"""How long a connection may be silent before it is asked whether it is still there; half-open ones are found by that."""
_log = get_logger("bus")


class BusState(StrEnum):
    """How hints travel between processes."""

    ABSENT = "absent"
    CONNECTED = "connected"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class BusHealth:
    """The state of the bus and for how many seconds it has been in it, how long ago a hint came, how many listen here."""

    state: BusState
    seconds_in_state: float
    seconds_since_hint: float | None
    listeners: int
    problem: str | None


class Listener:
    """Hears the topics it listens to. Listen first, then read, then wait: no change can fall between."""

    def __init__(self, bus: "Bus") -> None:
        self._bus = bus
        self._heard = asyncio.Event()

    def ring(self) -> None:
        """Note that a topic was heard."""
        self._heard.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for a hint, at most this long; True when one came. Forgets it, so that the next wait is a new one.

        Returns at once when the process is about to stop.
        """
        if self._bus.is_closing:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._heard.wait()
        heard = self._heard.is_set()
        self._heard.clear()
        return heard


class Bus:
    """One subscription per process, however many waiters; publishing never fails and never waits for Redis.

    Two connections, one that hears and one that sends, each behind a breaker of its own: whatever fails or stays silent is left
    alone for a while and then tried once. Only with both is the bus connected.
    """

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._me = uuid.uuid4().hex
        self._listeners: dict[str, set[Listener]] = {}
        self._outbox: asyncio.Queue[list[str]] = asyncio.Queue(maxsize=10_000)
        self._tasks: list[asyncio.Task[None]] = []
        self._hearing, self._sending = Breaker(), Breaker()
        self._problem: str | None = None
        self._last_hint: float | None = None
        self.is_closing = False
        """Whether the process is about to stop: whoever waits should answer at once with what there is."""

    async def start(self) -> None:
        """Start to subscribe and publish in the background; an absent or dead Redis is no error."""
        if self._url is not None:
            links = ((self._hearing, self._hear), (self._sending, self._send))
            self._tasks = [asyncio.create_task(self._keep(breaker, work, self._url)) for breaker, work in links]

    async def stop(self) -> None:
        """Stop the background work. One cancellation is not enough: `wait_for`, which the client uses, can swallow it."""
        while running := [task for task in self._tasks if not task.done()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=0.1)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def publish(self, topics: Iterable[str]) -> None:
        """Ring everybody in this process who listens to one of `topics`, and hint to the other processes."""
        names = sorted(set(topics))
        self.ring(names)
        if self._sending.is_closed:
            with suppress(asyncio.QueueFull):
                self._outbox.put_nowait(names)

    def ring(self, topics: Iterable[str]) -> None:
        """Ring everybody in this process who listens to one of `topics`."""
        for topic in topics:
            for listener in self._listeners.get(topic, ()):
                listener.ring()

    def heard(self) -> list[str]:
        """Return the topics that somebody in this process listens to."""
        return list(self._listeners)

    @contextmanager
    def listen(self, *topics: str) -> Generator[Listener]:
        """Listen to topics for the length of a block."""
        listener = Listener(self)
        for topic in topics:
            self._listeners.setdefault(topic, set()).add(listener)
        try:
            yield listener
        finally:
            for topic in topics:
                group = self._listeners[topic]
                group.discard(listener)
                if not group:
                    del self._listeners[topic]

    def hang_up(self) -> None:
        """Let everybody who waits in this process go, because it is about to stop; safe in a signal handler."""
        self.is_closing = True
        self._ring_all()

    def health(self) -> BusHealth:
        """Tell how the bus is."""
        age = None if self._last_hint is None else time.monotonic() - self._last_hint
        listeners = len({listener for group in self._listeners.values() for listener in group})
        links = (self._hearing, self._sending)
        broken = [link for link in links if not link.is_closed]
        seconds = [link.seconds_since_change() for link in broken or links]
        return BusHealth(self._state(), max(seconds) if broken else min(seconds), age, listeners, self._problem)

    def _state(self) -> BusState:
        if self._url is None:
            return BusState.ABSENT
        return BusState.CONNECTED if self._hearing.is_closed and self._sending.is_closed else BusState.BROKEN

    def _ring_all(self) -> None:
        self.ring(list(self._listeners))

    async def _keep(self, breaker: Breaker, work: Callable[[str], Coroutine[Any, Any, None]], url: str) -> None:
        """Keep one of the two connections: begin it anew whenever it fails, after the pause that its breaker asks for."""
        while True:
            try:
                await work(url)
            except (RedisError, OSError, TimeoutError) as error:
                self._note(breaker, str(error)[:200] or type(error).__name__)
            await asyncio.sleep(breaker.pause())

    def _note(self, breaker: Breaker, problem: str | None = None) -> None:
        before = self._state()
        breaker.worked() if problem is None else breaker.failed()
        state = self._state()
        self._problem = None if state is BusState.CONNECTED else problem or self._problem
        if state is not before:
            _log.info("redis is %s%s", state.value, f": {problem}" if problem else "")

    async def _hear(self, url: str) -> None:
        """Subscribe once and hear until the connection fails; what is silent is asked for a sign of life."""
        client = _client(url)
        try:
            async with client.pubsub() as pubsub:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    await pubsub.subscribe(CHANNEL)
                    while await pubsub.get_message(timeout=_TIMEOUT_SECONDS) is None:
                        pass  # the answer to the subscription: from here on nothing is missed
                self._note(self._hearing)
                self._ring_all()
                last_sign = time.monotonic()
                while True:
                    message: dict[str, Any] | None = await pubsub.get_message(timeout=_PING_SECONDS)
                    if message is not None:
                        last_sign = time.monotonic()
                        self._take(message)
                    elif time.monotonic() - last_sign > 2 * _PING_SECONDS + _TIMEOUT_SECONDS:
                        raise TimeoutError("no answer to a ping")
                    else:
                        async with asyncio.timeout(_TIMEOUT_SECONDS):
                            await pubsub.ping()
        finally:
            await _close(client)

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] != "message":
            return
        with suppress(ValueError, KeyError, TypeError):
            hint = json.loads(message["data"])
            if hint["topics"]:
                self._last_hint = time.monotonic()
            if hint["from"] != self._me:
                self.ring(hint["topics"])

    async def _send(self, url: str) -> None:
        """Send what is to be hinted until that fails; a hint of nothing, first and in a silence, shows that hints get through."""
        client = _client(url)
        topics: list[str] = []
        try:
            while True:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    await client.publish(CHANNEL, json.dumps({"from": self._me, "topics": topics}))
                self._note(self._sending)
                await asyncio.sleep(_GAP_SECONDS)
                topics = await self._next_topics()
        finally:
            await _close(client)

    async def _next_topics(self) -> list[str]:
        """Return what is to be hinted next, all of it together; nothing after a silence."""
        try:
            async with asyncio.timeout(_PING_SECONDS):
                topics = set(await self._outbox.get())
        except TimeoutError:
            return []
        while not self._outbox.empty():
            topics.update(self._outbox.get_nowait())
        return sorted(topics)


async def _close(client: Any) -> None:
    """Close every connection of a client, one that is still being set up included."""
    with suppress(RedisError, OSError, TimeoutError):
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await client.aclose()


def _client(url: str) -> Any:
    return redis.Redis.from_url(
        url, socket_connect_timeout=_TIMEOUT_SECONDS, retry=Retry(NoBackoff(), 0), decode_responses=True
    )
