"""Calls of a host agent: tell what it saw, hear what to do."""

from warploom.client.calls import Calls, part
from warploom.domain.hosts import Orders, Survey, SurveyAnswer


class HostCalls(Calls):
    """Calls of hosts."""

    def survey(self, host: str, survey: Survey) -> SurveyAnswer:
        """Tell what a host saw on its cards."""
        return self._call("POST", f"/api/v1/hosts/{part(host)}/survey", SurveyAnswer, survey)

    def orders(self, host: str, cursor: str | None = None, seconds: float = 25) -> Orders:
        """Wait up to `seconds` (at most 55) for something a host should do."""
        return self._poll(f"/api/v1/hosts/{part(host)}/orders", Orders, seconds, cursor=cursor or None)
