"""Keeps a session alive from threads of their own, which no busy event loop can starve."""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from warploom.client.connection import Client
from warploom.client.pauses import pause_before
from warploom.domain.deliveries import DeliveryWay
from warploom.domain.errors import WarploomError
from warploom.domain.events import EventKind
from warploom.domain.tickets import Heartbeat

LONGEST_INTERVAL = timedelta(seconds=15)
_PATIENCE_SECONDS = 5.0
_WORTH_A_LOOK = (EventKind.LEASE_OFFERED, EventKind.LEASE_GRANTED, EventKind.MESSAGE_SENT)

_log = logging.getLogger(__name__)


def interval_for(lease_time: timedelta) -> timedelta:
    """Return how often to beat: every 15 s, and at least four times in a lease time."""
    return min(LONGEST_INTERVAL, lease_time / 4)


class Pulse:
    """Beats at an interval, at once when asked to, and listens for the events that make a beat worth while.

    Everything a session is told comes in the answers to its beats, each thing once, by the way that is given; the event
    stream is only a hint to ask sooner.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        interval: timedelta,
        way: DeliveryWay,
        on_answer: Callable[[Heartbeat], None],
    ) -> None:
        self._connect = connect
        self._seconds = interval.total_seconds()
        self._way = way
        self._on_answer = on_answer
        self._due = threading.Event()

    def start(self) -> None:
        """Start both threads; they end with the process."""
        for work in (self._beat_forever, self._listen_forever):
            threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True).start()

    def beat_now(self) -> None:
        """Ask for a beat at once; several wishes at the same time become one beat."""
        self._due.set()

    def _beat_forever(self) -> None:
        failures = 0
        while True:
            self._due.clear()
            answer = self._beat()
            failures = 0 if answer is not None else failures + 1
            pauses = [self._seconds]
            if answer is None:
                pauses.append(pause_before(failures))
            elif answer.again_in is not None:
                pauses.append(answer.again_in)
            self._due.wait(min(pauses))

    def _beat(self) -> Heartbeat | None:
        try:
            with self._connect() as client:
                answer = client.heartbeat(self._way)
        except WarploomError as error:
            _log.info("no heartbeat: %s", error)
            return None
        try:
            self._on_answer(answer)
        except Exception:  # noqa: BLE001  (the loop must survive a failed round)
            _log.exception("the answer to a heartbeat could not be used")
        return answer

    def _listen_forever(self) -> None:
        failures = 0
        while True:
            try:
                self._listen()
                failures = 0
            except WarploomError as error:
                _log.info("no event stream: %s", error)
            failures += 1
            threading.Event().wait(pause_before(failures))

    def _listen(self) -> None:
        with self._connect() as client:
            cursor = client.events(limit=1).cursor
            self.beat_now()
            for event in client.event_stream(cursor, mine=True, patience=_PATIENCE_SECONDS):
                if event.kind in _WORTH_A_LOOK:
                    self.beat_now()
