"""What can be done to fake cards while everything runs: the actions of `warploom fake` and of scenarios, in one table."""

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, field

from warploom.domain.hosts import ProcessKind
from warploom.domain.texts import spoken_duration, spoken_list, spoken_memory
from warploom.domain.xids import LARGEST_XID, is_hardware, say_xid
from warploom.host.fake_cards import MOST_INSTANCES, NOT_REPORTABLE, FakeCards, FakeProcess
from warploom.host.fake_times import Seconds, decode_seconds

MOST_CARDS: Final = 256
UNREADABLE: Final = "the driver and its library have different versions; reloading the driver, or a restart, mends it"

Card = Annotated[int, Meta(ge=0, lt=MOST_CARDS)]
Memory = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Line = Annotated[str, Meta(min_length=1, max_length=80)]
Reason = Annotated[str, Meta(min_length=1, max_length=300)]


class Unclear(ValueError):
    """An action cannot be read; `problems` names everything that is wrong with it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Action(msgspec.Struct, frozen=True):
    """One change of the fake cards. `apply` makes it and says in a sentence what is different now."""

    name: ClassVar[str]

    def cards(self, count: int) -> list[int]:
        """Return the cards that it changes, of this many."""
        named: int | None = getattr(self, "card", None)
        return list(range(count)) if named is None else [named]

    def problem(self, count: int) -> str | None:
        """Say why it cannot be done to this many cards, or None when it can."""
        wrong = [card for card in self.cards(count) if card >= count]
        return f"there is no card {wrong[0]}; the last of the {count} is {count - 1}" if wrong else None

    def apply(self, cards: FakeCards) -> str:
        """Do it."""
        return self._change(cards)

    def _change(self, cards: FakeCards) -> str:
        raise NotImplementedError


class Occupy(Action, frozen=True):
    """Put a process on a card that nobody started: somebody else's, unless it names a lease."""

    name = "occupy"
    card: Card
    mib: Memory = 2048
    user: Line = "somebody"
    command: Line = "python other.py"
    kind: Literal["compute", "graphics"] = "compute"
    lease: Line | None = None
    stay: Seconds | None = field(default=None, name="for")

    def _change(self, cards: FakeCards) -> str:
        until = None if self.stay is None else time.time() + self.stay
        process = FakeProcess(None, None, self.user, self.command, self.mib, ProcessKind(self.kind), self.lease, until)
        pid = cards.add_process(self.card, process)
        stays = "until it is taken off" if self.stay is None else f"for {_spoken(self.stay)}"
        whose = f"{self.user}'s" if self.lease is None else f"{self.user}'s (lease {self.lease})"
        return f"card {self.card}: {whose} '{self.command}' uses {spoken_memory(self.mib)} as pid {pid}, {stays}"


class Free(Action, frozen=True):
    """Take every invented process and every ghost off a card; real processes stay."""

    name = "free"
    card: Card

    def _change(self, cards: FakeCards) -> str:
        cards.vacate(self.card)
        return f"card {self.card}: invented processes and ghosts are gone"


class Ghost(Action, frozen=True):
    """Let memory of a card be held by no process; 0 gives it back."""

    name = "ghost"
    card: Card
    mib: Memory = 20_480

    def _change(self, cards: FakeCards) -> str:
        cards.set_ghost(self.card, self.mib)
        return f"card {self.card}: {spoken_memory(self.mib) if self.mib else 'nothing'} is held by no process"


class DrainSlowly(Action, frozen=True):
    """Let the memory of a process that ends drain over a time; 0 s ends that."""

    name = "drain-slowly"
    card: Card
    seconds: Seconds = Seconds(30)

    def _change(self, cards: FakeCards) -> str:
        cards.set_drain(self.card, self.seconds)
        return f"card {self.card}: memory drains {_over(self.seconds)} after a process ends"


class Linger(Action, frozen=True):
    """Let a child of each process that ends stay on the card for a time, with its lease; 0 s ends that."""

    name = "linger"
    card: Card
    seconds: Seconds = Seconds(30)

    def _change(self, cards: FakeCards) -> str:
        cards.set_linger(self.card, self.seconds)
        stays = f"a child stays for {_spoken(self.seconds)}" if self.seconds else "nothing stays"
        return f"card {self.card}: {stays} when a process ends"


class Lose(Action, frozen=True):
    """Let a card fall off the bus: the driver says so, or silently lists it no longer."""

    name = "lose"
    card: Card
    silently: bool = False

    def _change(self, cards: FakeCards) -> str:
        if self.silently:
            cards.set_missing(self.card)
            return f"card {self.card}: the driver no longer lists it"
        cards.set_lost(self.card)
        return f"card {self.card}: it has fallen off the bus"


class Find(Action, frozen=True):
    """Let a card that was lost, blind or hanging be read again; without a card, all of them and the driver."""

    name = "find"
    card: Card | None = None

    def _change(self, cards: FakeCards) -> str:
        if self.card is None:
            cards.set_driver_problem(None)
        for card in self.cards(cards.count()):
            cards.find(card)
        return f"{_subject(self.card)}: it can be read again"


class Blind(Action, frozen=True):
    """Let the driver fail to read a card; without a card, fail as a whole."""

    name = "blind"
    card: Card | None = None
    reason: Reason = UNREADABLE

    def _change(self, cards: FakeCards) -> str:
        if self.card is None:
            cards.set_driver_problem(self.reason)
        else:
            cards.set_blind(self.card, self.reason)
        return f"{_subject(self.card)}: it cannot be read ({self.reason})"


class Hang(Action, frozen=True):
    """Let each look at a card take a time, longer than anybody waits for it; 0 s ends that."""

    name = "hang"
    card: Card
    seconds: Seconds = Seconds(3600)

    def _change(self, cards: FakeCards) -> str:
        cards.set_hanging(self.card, self.seconds)
        looks = f"takes {_spoken(self.seconds)}" if self.seconds else "is answered at once"
        return f"card {self.card}: a look at it {looks}"


class Shuffle(Action, frozen=True):
    """Give the cards other indices, as a restart of the machine may: the index of each in turn, or all turned round."""

    name = "shuffle"
    order: list[Card] = field(default_factory=list[int])

    def problem(self, count: int) -> str | None:
        """Say why it cannot be done to this many cards, or None when it can."""
        if not self.order or sorted(self.order) == list(range(count)):
            return None
        return f"order must have each of {spoken_list([str(card) for card in range(count)])} once"

    def _change(self, cards: FakeCards) -> str:
        order = self.order or list(reversed(range(cards.count())))
        for card, index in enumerate(order):
            cards.set_index(card, index)
        moves = [f"card {card} has index {index}" for card, index in enumerate(order)]
        return f"all cards: {spoken_list(moves)}"


class NotReported(Action, frozen=True):
    """Let readings of a card be N/A, which is never 0; without a field everything is reported again."""

    name = "na"
    card: Card
    fields: list[str] = field(default_factory=list[str])

    def problem(self, count: int) -> str | None:
        """Say why it cannot be done to this many cards, or None when it can."""
        wrong = [each for each in self.fields if each not in NOT_REPORTABLE]
        told = f"{wrong[0]!r} is no reading; there are {spoken_list(list(NOT_REPORTABLE))}" if wrong else None
        return told or Action.problem(self, count)

    def _change(self, cards: FakeCards) -> str:
        cards.set_not_reported(self.card, *self.fields)
        silent = spoken_list(sorted(set(self.fields), key=NOT_REPORTABLE.index))
        return f"card {self.card}: {f'{silent} not reported' if silent else 'everything is reported'}"


class Ecc(Action, frozen=True):
    """Let a card have memory errors: whatever starts to use it fails as CUDA does; 0 is a repaired card."""

    name = "ecc"
    card: Card
    errors: Count = 3

    def _change(self, cards: FakeCards) -> str:
        cards.set_ecc_errors(self.card, self.errors)
        return f"card {self.card}: {self.errors or 'no'} memory errors that could not be corrected"


class HaveXid(Action, frozen=True):
    """Let the driver tell of a critical error of a card, by NVIDIA's number for it; it is told once."""

    name = "xid"
    card: Card
    number: Annotated[int, Meta(ge=1, le=LARGEST_XID)] = 79

    def _change(self, cards: FakeCards) -> str:
        cards.add_xid(self.card, self.number)
        blamed = "the card" if is_hardware(self.number) else "the program, or nobody"
        return f"card {self.card}: {say_xid(self.number)}; {blamed} is to blame"


class Mig(Action, frozen=True):
    """Divide a card into MIG instances, each a card of its own; 0 makes it whole again."""

    name = "mig"
    card: Card
    instances: Annotated[int, Meta(ge=0, le=MOST_INSTANCES)]

    def _change(self, cards: FakeCards) -> str:
        cards.set_instances(self.card, self.instances)
        return f"card {self.card}: {f'{self.instances} MIG instances' if self.instances else 'MIG is off'}"


class Busy(Action, frozen=True):
    """Fix how busy a card is; without a percent the processes that use it decide again."""

    name = "busy"
    card: Card
    percent: Percent | None = None

    def _change(self, cards: FakeCards) -> str:
        cards.set_utilisation(self.card, self.percent)
        return f"card {self.card}: {'as busy as its processes' if self.percent is None else f'{self.percent} % busy'}"


class Baseline(Action, frozen=True):
    """Set what a card uses by itself, when nobody is on it."""

    name = "baseline"
    card: Card
    mib: Memory = 400

    def _change(self, cards: FakeCards) -> str:
        cards.set_baseline(self.card, self.mib)
        return f"card {self.card}: uses {spoken_memory(self.mib)} by itself"


class Reset(Action, frozen=True):
    """Let a card behave well again; without a card, all of them and the driver. Real processes stay."""

    name = "reset"
    card: Card | None = None

    def _change(self, cards: FakeCards) -> str:
        if self.card is None:
            cards.set_driver_problem(None)
        for card in self.cards(cards.count()):
            cards.reset(card)
        return f"{_subject(self.card)}: nothing invented is left"


_KINDS: tuple[type[Action], ...] = (
    Occupy,
    Free,
    Ghost,
    DrainSlowly,
    Linger,
    Lose,
    Find,
    Blind,
    Hang,
    Shuffle,
    NotReported,
    Ecc,
    HaveXid,
    Mig,
    Busy,
    Baseline,
    Reset,
)
ACTIONS: Final[Mapping[str, type[Action]]] = {kind.name: kind for kind in _KINDS}


def read_action(name: str, arguments: Mapping[str, Any]) -> Action:
    """Read an action by name, with its arguments as a scenario writes them; raise Unclear with every problem."""
    kind = ACTIONS.get(name)
    if kind is None:
        raise Unclear([f"there is no action {name!r}; there are {', '.join(ACTIONS)}"])
    fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}
    problems = [f"{name} has no {wrong!r}, only {', '.join(fields)}" for wrong in arguments if wrong not in fields]
    values: dict[str, Any] = {}
    for wanted, each in fields.items():
        if wanted in arguments:
            try:
                values[each.name] = msgspec.convert(arguments[wanted], each.type, dec_hook=decode_seconds)
            except msgspec.ValidationError as error:
                problems.append(f"{wanted} is {arguments[wanted]!r}: {error}"[:200])
        elif each.required:
            problems.append(f"{name} needs {wanted!r}")
    if problems:
        raise Unclear(problems)
    return kind(**values)


def _subject(card: int | None) -> str:
    return "all cards" if card is None else f"card {card}"


def _spoken(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 1 else spoken_duration(timedelta(seconds=seconds))


def _over(seconds: float) -> str:
    return f"over {_spoken(seconds)}" if seconds else "at once"
