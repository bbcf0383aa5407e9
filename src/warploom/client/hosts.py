"""Calls of a host agent: tell what it saw, hear what to do."""

from collections.abc import Sequence

from warploom.client.calls import Calls, part
from warploom.domain.errands import ErrandView, Outcome
from warploom.domain.hosts import Orders, Survey, SurveyAnswer


class HostCalls(Calls):
    """Calls of hosts."""

    def survey(self, host: str, survey: Survey) -> SurveyAnswer:
        """Tell what a host saw on its cards."""
        return self._call("POST", f"/api/v1/hosts/{part(host)}/survey", SurveyAnswer, survey)

    def orders(self, host: str, cursor: str | None = None, seconds: float = 25, having: Sequence[str] = ()) -> Orders:
        """Wait up to `seconds` (at most 55) for something a host should do; errands it is `having` are not told again."""
        path = f"/api/v1/hosts/{part(host)}/orders"
        return self._poll(path, Orders, seconds, cursor=cursor or None, having=",".join(having) or None)

    def answer_errand(self, host: str, errand: str, outcome: Outcome) -> ErrandView:
        """Say what came of an errand."""
        return self._call("POST", f"/api/v1/hosts/{part(host)}/errands/{part(errand)}", ErrandView, outcome)
