"""Calls about messages, and about who there is to write to."""

from warploom.client.calls import Calls, query_of
from warploom.domain.messages import MessageView, SentAnswer
from warploom.domain.sessions import AgentView


class MessageCalls(Calls):
    """Calls about messages between agents."""

    def send(self, to: str, text: str, task: str | None = None) -> SentAnswer:
        """Send a message to an agent's name, a session such as S-3, or `all`."""
        return self._call("POST", "/api/v1/messages", SentAnswer, {"to": to, "text": text, "task": task})

    def messages(self, limit: int = 20) -> list[MessageView]:
        """Look at what this session has not been told yet; that marks nothing read."""
        return self._call("GET", f"/api/v1/messages{query_of(limit=limit)}", list[MessageView])

    def agents(self) -> list[AgentView]:
        """List the agents heard last, with their sessions."""
        return self._call("GET", "/api/v1/agents", list[AgentView])
