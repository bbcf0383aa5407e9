"""The demo itself: two agents want the same card; one trains on it, the other waits, is woken and trains."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from warploom.client.connection import Client
from warploom.demo.cast import Performer
from warploom.demo.faults import Faults
from warploom.demo.happenings import Happening, Kind, now
from warploom.demo.outcomes import DemoFailed, Outcome, Run
from warploom.demo.parts import Part
from warploom.demo.stage import CARDS
from warploom.demo.telling import Teller
from warploom.domain.callers import Caller
from warploom.domain.cards import CardState
from warploom.domain.errors import WarploomError
from warploom.domain.etas import EtaView, EtaWord
from warploom.domain.events import EventKind, EventView
from warploom.domain.standings import Standing

PARTS: Final = (
    Part("claude-1", "train digits classifier", device="0", minutes=2, hidden=24, epochs=70, seed=1),
    Part("claude-2", "train small digits classifier", device="0", minutes=1, hidden=12, epochs=60, seed=2),
)
PATIENCE_SECONDS: Final = 150.0
_LOOK_SECONDS: Final = 0.1
_RETELL_SECONDS: Final = 3.0
_BEGINNING: Final = "0-0"


class Play:
    """A run of the demo on a stack that is up. `heard` brings what the agents tell."""

    def __init__(self, url: str, heard: queue.Queue[Happening], teller: Teller, faults: Faults | None = None) -> None:
        self._client = Client(url, Caller(agent="demo"))
        self._heard = heard
        self._teller = teller
        self._faults = faults
        self._past: list[Happening] = []
        self._patience = PATIENCE_SECONDS + (0 if faults is None else faults.seconds)
        self._give_up_at = time.monotonic() + self._patience
        self._is_over = False

    def perform(self, first: Performer, second: Performer) -> Outcome:
        """Play it to the end; raise DemoFailed, saying what, as soon as anything is not as it should be."""
        self._in_background(self._follow_log)
        for performer in (first, second):
            performer.cue()
        self._await_cards()
        for performer in (first, second):
            self._until(performer, Kind.CONNECTED)
        self._share(first, second)
        self._end_faults()
        self._await_cards()
        return self._outcome()

    def close(self) -> None:
        """Stop following the log and the estimate."""
        self._is_over = True
        self._end_faults()
        self._client.close()

    def _end_faults(self) -> None:
        if self._faults is not None:
            self._faults.end()

    def _share(self, first: Performer, second: Performer) -> None:
        """Let the first have the card and the second ask for it, and then both do what they are told by their answers."""
        first.cue()
        self._expect(first, Kind.GRANTED, instead=Kind.QUEUED)
        if self._faults is not None:
            self._faults.begin()
        second.cue()
        queued = self._expect(second, Kind.QUEUED, instead=Kind.GRANTED)
        second.cue()
        self._until(second, Kind.WAITS)
        self._in_background(lambda: self._follow_estimate(queued.facts["ticket"]))
        first.cue()
        for performer in (first, second):
            self._until(performer, Kind.LEFT)

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
            raise DemoFailed(f"{performer.name} should have been {kind.name.lower()}, but: {found.text}")
        return found

    def _until(self, performer: Performer, *kinds: Kind) -> Happening:
        """Return the first of an agent's happenings of these kinds, once there is one."""
        while True:
            for happening in self._past:
                if happening.kind in kinds and happening.facts.get("agent") == performer.name:
                    return happening
            self._hear_some(f"{performer.name} did not get to '{kinds[0].value}'")

    def _hear_some(self, otherwise: str) -> None:
        """Take in what has happened; raise DemoFailed for a failure, or for `otherwise` when patience ends."""
        self._teller.tell()
        try:
            happening = self._heard.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            if time.monotonic() > self._give_up_at:
                raise DemoFailed(f"{otherwise} within {self._patience:.0f} s") from None
            return
        self._past.append(happening)
        self._teller.hear(happening)
        if happening.kind is Kind.FAILED:
            raise DemoFailed(f"{happening.who}: {happening.text.rstrip('.')}")

    def _outcome(self) -> Outcome:
        runs = (self._run(PARTS[0]), self._run(PARTS[1]))
        wake = self._moment(PARTS[1], Kind.WOKEN).clock - self._moment(PARTS[0], Kind.RELEASES).clock
        if runs[1].held_at < runs[0].released_at:
            raise DemoFailed(f"{runs[1].agent} had the card before {runs[0].agent} released it")
        return Outcome(runs, wake)

    def _run(self, part: Part) -> Run:
        asked = self._moment(part, Kind.GRANTED, Kind.QUEUED)
        held = self._moment(part, Kind.GRANTED, Kind.WOKEN)
        return Run(
            part.name,
            part.job,
            asked.facts["ticket"],
            held.facts["lease"],
            held.facts["card"],
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
        """Tell when the ticket starts, now and then and whenever the word of its estimate changes, while it waits."""
        before, told_at = EtaWord.UNKNOWN, 0.0
        while not self._is_over:
            answer = self._client.explain(ticket)
            if answer.state is not Standing.QUEUED or answer.starts is None:
                return
            word, is_stale = answer.starts.word, time.monotonic() - told_at > _RETELL_SECONDS
            if word is not EtaWord.UNKNOWN and (word is not before or is_stale):
                self._heard.put(_estimate(answer.ticket, answer.starts, before))
                before, told_at = word, time.monotonic()
            time.sleep(_LOOK_SECONDS)


def _told(event: EventView, offset: float) -> Happening:
    facts: Mapping[str, str | None] = {"event": event.kind.value, "ticket": event.ticket, "lease": event.lease}
    known = {name: value for name, value in facts.items() if value is not None}
    return Happening(event.at.timestamp() + offset, "log", Kind.EVENT, event.text, known)


def _estimate(ticket: str, starts: EtaView, before: EtaWord) -> Happening:
    earlier = "" if before in (starts.word, EtaWord.UNKNOWN) else f", no longer {before.value}"
    text = f"{ticket} starts {_when(starts.soonest, starts.latest)}: {starts.word.value} {starts.source}{earlier}"
    return now("estimate", Kind.ESTIMATE, text, ticket=ticket, word=starts.word.value)


def _when(soonest: datetime | None, latest: datetime | None) -> str:
    if soonest is None or latest is None:
        return "at an unknown time"
    seconds = [max(0.0, (moment - datetime.now(UTC)).total_seconds()) for moment in (soonest, latest)]
    low, high = (f"{value:.0f}" for value in seconds)
    return f"in {low} s" if low == high else f"in {low} to {high} s"
