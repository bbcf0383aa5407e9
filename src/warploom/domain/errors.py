"""What can go wrong, as facts: each error has a code, one sentence of cause and one of what to do next."""

from typing import ClassVar


class WarploomError(Exception):
    """A refusal that a person or a model can act on; `next_step` never names a destructive command."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 400

    def __init__(self, cause: str, next_step: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.cause} {self.next_step}"


class MalformedInput(WarploomError):
    """Something given could not be read: an id, a duration, a text that is too long."""

    code = "malformed"
    status = 422


class NotFound(WarploomError):
    """There is no such card, ticket, lease or host."""

    code = "not_found"
    status = 404


class Impossible(WarploomError):
    """A request that could never be met, refused at once with the most that could be had."""

    code = "impossible"
    status = 422


class LeaseLost(WarploomError):
    """The lease named is no longer live; nothing was changed."""

    code = "lease_lost"
    status = 409


class NotYours(WarploomError):
    """The lease or ticket belongs to another agent."""

    code = "not_yours"
    status = 403


class NotAllowed(WarploomError):
    """The caller lacks the role or the key that the operation needs."""

    code = "not_allowed"
    status = 403


class Taken(WarploomError):
    """Somebody else has it: the answer names who."""

    code = "taken"
    status = 409


class NotReady(WarploomError):
    """The task cannot make this move as it stands: it waits, is over, or nobody has claimed it."""

    code = "not_ready"
    status = 409


class PlanRefused(WarploomError):
    """A plan has faults, all of which are named; nothing of it was written."""

    code = "plan"
    status = 422


class CycleFound(WarploomError):
    """An edge would make tasks wait for one another for ever."""

    code = "cycle"
    status = 409


class SchemaMismatch(WarploomError):
    """This binary and the database's schema do not fit; nothing is written."""

    code = "schema_mismatch"
    status = 503


class Busy(WarploomError):
    """The database had no connection free in time; asking again shortly is right."""

    code = "busy"
    status = 503


class Crowded(WarploomError):
    """The caller holds as many streams open on this server as one may."""

    code = "crowded"
    status = 429


class Collision(Busy):
    """Another change came in between and nothing was changed; the server has repeated it a few times already."""


class Unreachable(WarploomError):
    """The server, the database or the host could not be reached."""

    code = "unreachable"
    status = 503


class ProviderMissing(WarploomError):
    """This machine has nothing that can tell of cards, such as a driver; only cards are missing, all else works."""

    code = "provider_missing"
    status = 503


def every_error() -> list[type[WarploomError]]:
    """List every kind of error, in the order they are written here."""
    return WarploomError.__subclasses__()
