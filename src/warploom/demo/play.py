"""The demo itself: two agents want the same card; one trains on it, the other waits, is woken and trains."""

import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from warploom.client.connection import Client
from warploom.demo.cast import Performer
from warploom.demo.happenings import Happening, Kind, now
from warploom.demo.outcomes import Outcome, Run
from warploom.demo.parts import Part
from warploom.demo.stage import CARDS, Stage
from warploom.demo.telling import Teller
from warploom.domain.cards import CardState
from warploom.domain.errors import WarploomError
from warploom.domain.etas import EtaWord
from warploom.domain.events import EventKind, EventView
from warploom.domain.sessions import Caller
from warploom.domain.tickets import Standing, TicketAnswer

PARTS: Final = (
    Part("claude-1", "train digits classifier", device="0", minutes=2, hidden=24, epochs=40, seed=1),
    Part("claude-2", "train small digits classifier", device="0", minutes=1, hidden=12, epochs=40, seed=2),
)
PATIENCE_SECONDS: Final = 150.0
_LOOK_SECONDS: Final = 0.1
_BEGINNING: Final = "0-0"


class Play:
    """A run of the demo on a stage that is open."""

    def __init__(self, stage: Stage, url: str, teller: Teller) -> None:
        self._stage = stage
        self._client = Client(url, Caller(agent="demo"))
        self._teller = teller
        self._heard: queue.Queue[Happening] = queue.Queue()
        self._past: list[Happening] = []
        self._give_up_at = time.monotonic() + PATIENCE_SECONDS
        self._is_over = False

    def perform(self) -> Outcome:
        """Play it to the end; raise WarploomError, saying what, as soon as anything is not as it should be."""
        self._in_background(self._follow_log)
        self._await_cards()
        with self._performers() as (first, second):
            for performer in (first, second):
                self._until(performer, Kind.CONNECTED)
            first.cue()
            self._expect(first, Kind.GRANTED, instead=Kind.QUEUED)
            second.cue()
            queued = self._expect(second, Kind.QUEUED, instead=Kind.GRANTED)
            second.cue()
            self._until(second, Kind.WAITS)
            self._in_background(lambda: self._follow_estimate(queued.facts["ticket"]))
            first.cue()
            for performer in (first, second):
                self._until(performer, Kind.LEFT)
        self._await_cards()
        return self._outcome()

    def close(self) -> None:
        """Stop following the log and the estimate."""
        self._is_over = True
        self._client.close()

    @contextmanager
    def _performers(self) -> Generator[tuple[Performer, Performer]]:
        cast: list[Performer] = []
        try:
            for part in PARTS:
                log = self._stage.logs / f"{part.name}.log"
                cast.append(Performer(part, self._stage.environment, log, self._heard.put))
            yield cast[0], cast[1]
        finally:
            for performer in cast:
                performer.end()

    def _await_cards(self) -> None:
        """Wait until every card is free, has no holder and nobody waiting, and tell it."""
        while True:
            lanes = [lane for host in self._client.rack().hosts for lane in host.cards]
            idle = [lane for lane in lanes if lane.state is CardState.FREE and not lane.waiting]
            if len(idle) == CARDS:
                free = " and ".join(lane.card for lane in idle)
                self._heard.put(now("rack", Kind.RACK, f"{free} are free: observed clear, no holder, nobody waits"))
                return
            self._hear_some("the cards did not become free")

    def _expect(self, performer: Performer, kind: Kind, instead: Kind) -> Happening:
        found = self._until(performer, kind, instead)
        if found.kind is not kind:
            raise self._failure(f"{performer.name} should have been {kind.name.lower()}, but: {found.text}")
        return found

    def _until(self, performer: Performer, *kinds: Kind) -> Happening:
        """Return the first of an agent's happenings of these kinds, once there is one."""
        while True:
            for happening in self._past:
                if happening.kind in kinds and happening.facts.get("agent") == performer.name:
                    return happening
            self._hear_some(f"{performer.name} did not get to '{kinds[0].value}'")

    def _hear_some(self, otherwise: str) -> None:
        """Take in what has happened; raise WarploomError for a failure, or for `otherwise` when patience ends."""
        self._teller.tell()
        try:
            happening = self._heard.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            if time.monotonic() > self._give_up_at:
                raise self._failure(f"{otherwise} within {PATIENCE_SECONDS:.0f} s") from None
            return
        self._past.append(happening)
        self._teller.hear(happening)
        if happening.kind is Kind.FAILED:
            raise self._failure(f"{happening.who}: {happening.text}")

    def _failure(self, what: str) -> WarploomError:
        return WarploomError(f"The demo failed: {what.rstrip('.')}.", f"The logs are kept in {self._stage.logs}.")

    def _outcome(self) -> Outcome:
        runs = (self._run(PARTS[0]), self._run(PARTS[1]))
        wake = self._moment(PARTS[1], Kind.WOKEN).clock - self._moment(PARTS[0], Kind.RELEASES).clock
        if runs[1].held_at < runs[0].released_at:
            raise self._failure(f"{runs[1].agent} had the card before {runs[0].agent} released it")
        return Outcome(runs, wake)

    def _run(self, part: Part) -> Run:
        asked = self._moment(part, Kind.GRANTED, Kind.QUEUED)
        held = self._moment(part, Kind.GRANTED, Kind.WOKEN)
        return Run(
            part.name,
            part.job,
            asked.facts["ticket"],
            held.facts["lease"],
            asked.clock,
            held.clock,
            self._moment(part, Kind.RELEASES).clock,
            self._moment(part, Kind.TRAINED).facts["accuracy"],
        )

    def _moment(self, part: Part, *kinds: Kind) -> Happening:
        return next(each for each in self._past if each.kind in kinds and each.facts.get("agent") == part.name)

    def _in_background(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except WarploomError as error:
                if not self._is_over:
                    self._heard.put(now("demo", Kind.FAILED, str(error)))

        threading.Thread(target=run, daemon=True).start()

    def _follow_log(self) -> None:
        """Pass on each line of the event log, at the moment that the log gives it."""
        offset = time.monotonic() - time.time()
        for event in self._client.event_stream(_BEGINNING):
            if event.kind is not EventKind.SESSION_STARTED:
                self._heard.put(_told(event, offset))

    def _follow_estimate(self, ticket: str) -> None:
        """Tell each change of the word that the ticket's estimate carries, until it no longer waits."""
        before: EtaWord | None = None
        while not self._is_over:
            answer = self._client.explain(ticket)
            if answer.state is not Standing.QUEUED or answer.starts is None:
                return
            if answer.starts.word is not before:
                self._heard.put(_estimate(answer, before))
                before = answer.starts.word
            time.sleep(_LOOK_SECONDS)


def _told(event: EventView, offset: float) -> Happening:
    facts: Mapping[str, str | None] = {"event": event.kind.value, "ticket": event.ticket, "lease": event.lease}
    known = {name: value for name, value in facts.items() if value is not None}
    return Happening(event.at.timestamp() + offset, "log", Kind.EVENT, event.text, known)


def _estimate(answer: TicketAnswer, before: EtaWord | None) -> Happening:
    starts = answer.starts
    assert starts is not None
    source = f"{starts.word.value}, {starts.source}"
    change = f"is now {source}" if before is None else f"turns from {before.value} to {source}"
    text = f"the start of {answer.ticket} {change}: {_when(starts.soonest, starts.latest)}"
    return now("estimate", Kind.ESTIMATE, text, ticket=answer.ticket, word=starts.word.value)


def _when(soonest: datetime | None, latest: datetime | None) -> str:
    if soonest is None or latest is None:
        return "unknown"
    seconds = [max(0.0, (moment - datetime.now(UTC)).total_seconds()) for moment in (soonest, latest)]
    low, high = (f"{value:.0f}" for value in seconds)
    return f"in {low} s" if low == high else f"in {low} to {high} s"
