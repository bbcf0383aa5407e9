"""Does the errands of a host, each on a thread of its own, so that none delays a look at the cards or another errand."""

import logging
import threading
from collections.abc import Sequence
from typing import Final

from warploom.client.pauses import pause_before
from warploom.domain.errands import Errand, Outcome
from warploom.host.endings import Ending
from warploom.host.link import Link
from warploom.host.probe import GpuProbe, Proof

_MOST_TRIES: Final = 100
log = logging.getLogger(__name__)


class Errands:
    """What this host has in hand. An errand stays there until the server has heard what came of it."""

    def __init__(self, host: str, probe: GpuProbe, link: Link) -> None:
        self._host = host
        self._probe = probe
        self._link = link
        self._lock = threading.Lock()
        self._in_hand: set[str] = set()
        self._stopping = threading.Event()

    def in_hand(self) -> list[str]:
        """Name the errands that the server need not tell again."""
        with self._lock:
            return sorted(self._in_hand)

    def take(self, errands: Sequence[Errand]) -> bool:
        """Begin those that are not in hand yet; say whether there were any."""
        with self._lock:
            new = [each for each in errands if each.errand not in self._in_hand]
            self._in_hand.update(each.errand for each in new)
        for each in new:
            threading.Thread(target=self._see_to, args=(each,), name=each.errand, daemon=True).start()
        return bool(new)

    def stop(self) -> None:
        """Try to tell nothing more; what was not told is done again by whoever is asked next, which does no harm."""
        self._stopping.set()

    def _see_to(self, errand: Errand) -> None:
        try:
            self._tell(errand.errand, self._do(errand))
        finally:
            with self._lock:
                self._in_hand.discard(errand.errand)

    def _do(self, errand: Errand) -> Outcome:
        try:
            if errand.kill is not None:
                log.info("%s: ending the processes of %s", errand.errand, errand.kill.lease)
                return Ending(errand.kill).run()
            if errand.probe is not None:
                log.info("%s: probing %s", errand.errand, errand.probe.uuid)
                return _outcome(self._probe.prove(errand.probe.uuid))
        except Exception as error:
            log.exception("%s failed.", errand.errand)
            return Outcome(problem=f"the host agent failed at it ({type(error).__name__}); its log says more")
        return Outcome(problem="this host agent is older than the server and does not know how")

    def _tell(self, errand: str, outcome: Outcome) -> None:
        for attempt in range(1, _MOST_TRIES):
            answer = self._link.call("errand", lambda server: server.answer_errand(self._host, errand, outcome))
            if answer is not None or self._stopping.wait(pause_before(attempt)):
                return


def _outcome(proof: Proof) -> Outcome:
    return Outcome(problem=proof.text) if proof.passed is None else Outcome(passed=proof.passed, text=proof.text)
