"""The host agent: surveys its cards again and again, and at once when the server asks."""

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from warploom.client.pauses import pause_before
from warploom.domain.cards import Condition
from warploom.domain.hosts import Survey, SurveyAnswer
from warploom.domain.texts import spoken_list, spoken_memory
from warploom.host.errands import Errands
from warploom.host.link import Link
from warploom.host.survey import Surveyor, uptime

log = logging.getLogger(__name__)

QUICK = timedelta(seconds=0.1)
_SLOWING = 1.5
_LONG_POLL_SECONDS = 25.0
_HASTY_SECONDS = 1.0
_LOOK_SECONDS = 5.0
_EAGER_SECONDS = 15.0
_EAGER_PAUSE = 0.03


class Pace:
    """How soon to look again: at the usual interval, and quickly while a card settles, ever slower if that takes long."""

    def __init__(self, interval: timedelta, quick: timedelta = QUICK) -> None:
        self._interval = interval
        self._quick = quick
        self._next = quick

    def after(self, answer: SurveyAnswer) -> timedelta:
        """Return the pause before the next look."""
        if Condition.SETTLING not in answer.conditions.values():
            self._next = self._quick
            return self._interval
        pause, self._next = self._next, self._next * _SLOWING
        return min(pause, self._interval)

    def hurry(self) -> None:
        """Begin quickly again: something new is expected."""
        self._next = self._quick


class _Looks:
    """Counts the looks, so that one can wait for the end of a look that has not begun yet."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun = 0
        self._ended = 0

    @contextmanager
    def one(self) -> Generator[None]:
        with self._changed:
            self._begun += 1
        yield
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def next_number(self) -> int:
        return self._begun + 1

    def await_end(self, number: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended >= number, timeout=seconds)


class HostAgent:
    """Two threads: one looks and tells, one waits for orders. Neither ends before `stop`, whatever goes wrong.

    Errands are seen to on threads of their own.
    """

    def __init__(self, host: str, surveyor: Surveyor, link: Link) -> None:
        self._host = host
        self._surveyor = surveyor
        self._link = link
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._looks = _Looks()
        self._errands = Errands(host, surveyor.probe, link)
        self._pace = Pace(surveyor.interval)
        self._outlook: object = None
        self._cursor: str | None = None
        self._refused_surveys = 0
        self._refused_polls = 0
        self._eager_until = time.monotonic() + _EAGER_SECONDS

    def run(self) -> None:
        """Work until `stop` is called; what still hangs in a driver or on the server then ends with the process."""
        for work in (self._survey, self._follow_orders):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()
        self._stopping.wait()

    def stop(self) -> None:
        """End `run` at once; safe in a signal handler."""
        self._stopping.set()
        self._errands.stop()
        self._wanted.set()

    def _survey(self) -> None:
        while not self._stopping.is_set():
            self._wanted.clear()
            with self._looks.one():
                pause = self._survive(self._look_and_tell)
            self._wanted.wait(pause)

    def _follow_orders(self) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(self._survive(self._obey))

    def _survive(self, work: Callable[[], float]) -> float:
        try:
            return work()
        except Exception:
            log.exception("This round failed; the next one follows.")
            return self._surveyor.interval.total_seconds()

    def _look_and_tell(self) -> float:
        """Make one survey and return the seconds until the next."""
        began_at, survey = uptime(), self._surveyor.look()
        self._log_changes(survey)
        # Whatever came between the look and the telling, the machine's sleep included, makes it older.
        answer = self._link.call(
            "survey", lambda server: server.survey(self._host, replace(survey, age_seconds=uptime() - began_at))
        )
        if answer is None:
            self._refused_surveys += 1
            return pause_before(self._refused_surveys)
        self._refused_surveys = 0
        self._surveyor.untold.clear()
        return self._pace.after(answer).total_seconds()

    def _obey(self) -> float:
        """Wait for one order and return the seconds to pause: none, unless the server is away or does not wait.

        After an order to look, nothing more is asked for until a look that began since has been told. A server that
        was away is not waited for but shown the cards as soon as it answers.
        """
        asked_at, cursor = time.monotonic(), self._cursor
        seconds = 0.0 if self._refused_polls else _LONG_POLL_SECONDS
        having = self._errands.in_hand()
        orders = self._link.call("orders", lambda server: server.orders(self._host, cursor, seconds, having))
        if orders is None:
            self._refused_polls += 1
            return self._pause_before_poll()
        was_away, self._refused_polls, self._cursor = self._refused_polls > 0, 0, orders.cursor
        has_errand = self._errands.take(orders.errands)
        if orders.survey or was_away:
            return self._look_at_once()
        is_hasty = not has_errand and orders.cursor == cursor and time.monotonic() - asked_at < _HASTY_SECONDS
        return _HASTY_SECONDS if is_hasty else 0.0

    def _pause_before_poll(self) -> float:
        """Ask often at first: the server that was started together with this agent is about to answer."""
        return _EAGER_PAUSE if time.monotonic() < self._eager_until else pause_before(self._refused_polls)

    def _look_at_once(self) -> float:
        awaited = self._looks.next_number()
        self._pace.hurry()
        self._wanted.set()
        self._looks.await_end(awaited, _LOOK_SECONDS)
        return pause_before(self._refused_surveys) if self._refused_surveys else 0.0

    def _log_changes(self, survey: Survey) -> None:
        faults = [(card.uuid, card.fault) for card in survey.cards]
        outlook = (survey.provider, survey.driver, survey.problem is None, faults)
        if outlook != self._outlook:
            self._outlook = outlook
            log.info("%s: %s", self._host, describe(survey))


def describe(survey: Survey) -> str:
    """Say in one line what a host has and what ails it."""
    if survey.problem is not None:
        return survey.problem
    models = [f"{card.model} {spoken_memory(card.memory_mib)}" for card in survey.cards]
    noun = "card" if len(models) == 1 else "cards"
    faults = [f"{card.index} is {card.fault}: {card.problem}" for card in survey.cards if card.fault is not None]
    return "; ".join([f"{len(models)} {noun} ({spoken_list(models)}), driver {survey.driver}", *faults])
