"""Tells a session, with whatever it is answered, what it has not been told yet."""

from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

from warploom.app import App
from warploom.domain.sessions import Actor


class WithNotices(Protocol):
    """An answer that has room for notices."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def notices(self) -> list[str]:
        """What the session had not been told, each line once."""
        ...


AnswerT = TypeVar("AnswerT", bound=WithNotices)


async def told(app: App, actor: Actor, answer: AnswerT) -> AnswerT:
    """Return the answer with the session's unread notices; each is handed out once."""
    notices = await app.sessions.take_notices(actor)
    return replace(answer, notices=notices) if notices else answer
