"""Agents of a torture run: each asks, waits, holds and releases again and again, and some do not behave."""

import random
import threading
import time
import traceback
from dataclasses import dataclass

from support.invariants import ask
from support.serving import eventually
from torture.book import Book, Waiter
from torture.ways import Answer, LeaseGone, Way

LONGEST_HOLD = 1.5


@dataclass(frozen=True, slots=True)
class Conduct:
    """What an agent wants, how it draws what it does, and where it sees what became of its lease without a sign of life."""

    device: str
    chance: random.Random
    misbehaving: float
    database_url: str


class Agent(threading.Thread):
    """One agent, which goes on until it is told to stop, and then until it has got what it waits for."""

    def __init__(self, way: Way, waiter: Waiter, conduct: Conduct, book: Book) -> None:
        super().__init__(name=waiter.agent, daemon=True)
        self.way = way
        self.waiter = waiter
        self.stopping = threading.Event()
        self.turns = 0
        self._conduct = conduct
        self._book = book

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._turn()
        except EOFError:
            pass
        except Exception:  # noqa: BLE001 - what a thread meets is told by the judge
            self._book.fault(f"{self.name}: {traceback.format_exc(limit=-3)}")
        finally:
            self.way.close()

    def _turn(self) -> None:
        self.turns += 1
        drawn, hold = self._conduct.chance.random(), self._conduct.chance.uniform(0.1, LONGEST_HOLD)
        answer = self.way.request(self._conduct.device, f"{self.name} {self.turns}")
        if answer["state"] != "active":
            answer = self._delivered(answer["ticket"])
            if drawn < self._conduct.misbehaving:
                answer = self._missed(answer)
            self.way.accept(answer["lease"])
        threading.Event().wait(hold)
        if drawn > 1 - self._conduct.misbehaving:
            self._vanish(answer["lease"])
        else:
            self.way.release(answer["lease"])

    def _delivered(self, ticket: str) -> Answer:
        since = time.time()
        answer = self.way.wait(ticket)
        assert answer["state"] in ("offered", "active"), f"woken for nothing: {answer}"
        assert answer["ticket"] == ticket, f"{ticket} was answered with {answer}"
        self._book.deliver(int(answer["lease"][2:]), int(ticket[2:]), self.waiter, since)
        return answer

    def _missed(self, answer: Answer) -> Answer:
        """Let an offer lapse, come back with it too late, and wait on with the same ticket."""
        self._until_over(answer["lease"])
        try:
            self.way.accept(answer["lease"])
        except LeaseGone:
            return self._delivered(answer["ticket"])
        raise AssertionError(f"{answer['lease']} was accepted after it had lapsed")

    def _vanish(self, lease: str) -> None:
        """Hold a lease in silence until it has expired; nothing can be done with it any more."""
        self.way.vanish()
        self._until_over(lease)
        try:
            self.way.release(lease)
        except LeaseGone:
            return
        raise AssertionError(f"{lease} was released after it had expired")

    def _until_over(self, lease: str) -> None:
        eventually(lambda: self._has_ended(lease), 300)

    def _has_ended(self, lease: str) -> bool:
        threading.Event().wait(0.5)
        try:
            [row] = ask(self._conduct.database_url, "select state::text from lease where id = $1", int(lease[2:]))
        except Exception:  # noqa: BLE001 - the database may be away, as everything here may be
            return False
        return row["state"] == "ended"
