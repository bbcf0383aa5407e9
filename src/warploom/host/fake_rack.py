"""The fake cards of a home as people see them: which there are, and how each of them behaves."""

from dataclasses import dataclass

from warploom.config import Settings
from warploom.domain.errors import Impossible, MalformedInput, NotFound
from warploom.domain.texts import spoken_list, spoken_memory
from warploom.domain.xids import say_xid
from warploom.host.fake_actions import Action
from warploom.host.fake_cards import FakeCards, FakeProcess, FakeScript, has_left

_WELL = "behaves well"


@dataclass(frozen=True, slots=True)
class FakeCardView:
    """How one fake card behaves: `number` never changes, `card` is what the rack calls it now."""

    number: int
    card: str
    uuid: str
    instances: list[str]
    behaviour: list[str]
    """What is not as it should be, in words; empty for a card that behaves well."""


@dataclass(frozen=True, slots=True)
class FakeRackView:
    """How the fake cards of a home behave, and whether a host agent serves them now."""

    home: str
    is_served: bool
    problem: str | None
    """What ails the driver as a whole."""
    cards: list[FakeCardView]


class FakeRack:
    """The fake cards of a home that has some; raises Impossible for one whose cards are real, or which has none."""

    def __init__(self, settings: Settings) -> None:
        self.cards = FakeCards(settings.home)
        self._settings = settings
        self.is_served = self.cards.is_served()
        if settings.fake_gpus and not self.is_served:
            self.cards.set_count(settings.fake_gpus)
        is_fake = self.is_served or settings.fake_gpus or settings.fake_scenario is not None
        self.count = self.cards.count() if is_fake else 0
        if not self.count:
            raise Impossible(
                f"No fake cards are served in {settings.home}, and real ones are never touched.",
                "Use a home of its own: set WARPLOOM_HOME=~/warploom-fake and WARPLOOM_FAKE_GPUS=2, run `warploom up`, "
                "then this again.",
            )

    def number_of(self, text: str) -> int:
        """Return the number of a card that is named by its number, as `host/index`, or by its UUID's beginning."""
        wanted = text.strip()
        names = {number: self._names(number) for number in range(self.count)}
        found = [number for number, known in names.items() if wanted in known]
        found = found or [
            number
            for number, known in names.items()
            if "-" in wanted and any(name.startswith(wanted) for name in known)
        ]
        if len(found) != 1:
            what = "could be several cards" if found else "is no fake card of this home"
            raise NotFound(
                f"{wanted[:40]!r} {what}.", f"The cards are {spoken_list([str(number) for number in names])}."
            )
        return found[0]

    def do(self, action: Action) -> str:
        """Do something to the cards and say what is different now; raise MalformedInput when it cannot be done."""
        problem = action.problem(self.count)
        if problem is not None:
            raise MalformedInput(
                f"{problem[0].upper()}{problem[1:]}.", f"`warploom fake {action.name} --help` shows how."
            )
        return action.apply(self.cards)

    def view(self) -> FakeRackView:
        """Return how the cards behave."""
        views = [self._view(number) for number in range(self.count)]
        return FakeRackView(str(self._settings.home), self.is_served, self.cards.driver_problem(), views)

    def _names(self, number: int) -> list[str]:
        script = self.cards.script(number)
        parts = [self.cards.instance_uuid(number, instance) for instance in range(script.instances)]
        return [str(number), *self._places(number, script), self.cards.uuid(number), *parts]

    def _places(self, number: int, script: FakeScript) -> list[str]:
        """Name what the rack shows of a card: itself, or with MIG on its instances."""
        host, index = self._settings.host_name, number if script.index is None else script.index
        parts = [f"{host}/{(index + 1) * 100 + instance}" for instance in range(script.instances)]
        return parts or [f"{host}/{index}"]

    def _view(self, number: int) -> FakeCardView:
        script = self.cards.script(number)
        places = self._places(number, script)
        instances = places if script.instances else []
        return FakeCardView(number, places[0], self.cards.uuid(number), instances, behaviour_of(script))


def behaviour_of(script: FakeScript) -> list[str]:
    """Say in words everything that is not as it should be."""
    said = [
        *(_process(process) for process in script.processes if not has_left(process)),
        f"{spoken_memory(script.ghost_mib)} is held by no process" if script.ghost_mib else None,
        f"uses {spoken_memory(script.baseline_mib)} by itself" if script.baseline_mib else None,
        f"memory drains over {script.drain_seconds:g} s" if script.drain_seconds else None,
        f"children stay for {script.linger_seconds:g} s" if script.linger_seconds else None,
        f"a look at it takes {script.hanging_seconds:g} s" if script.hanging_seconds else None,
        f"{script.fault.value}{f' ({script.problem})' if script.problem else ''}" if script.fault else None,
        f"fixed at {script.utilisation} % busy" if script.utilisation is not None else None,
        f"has index {script.index}" if script.index is not None else None,
        f"{script.instances} MIG instances" if script.instances else None,
        f"{script.ecc_errors} memory errors that could not be corrected" if script.ecc_errors else None,
        f"{spoken_list([say_xid(xid.number) for xid in script.xids])}: not told yet" if script.xids else None,
        f"{spoken_list(script.not_reported)} not reported" if script.not_reported else None,
    ]
    return [sentence for sentence in said if sentence is not None]


def rack_lines(view: FakeRackView) -> list[str]:
    """Write the cards as lines for people."""
    driver = [f"driver  cannot be read: {view.problem}"] if view.problem else []
    return [*driver, *(f"card {each.number}  {each.card}  {each.uuid[:12]}  {_told(each)}" for each in view.cards)]


def _told(card: FakeCardView) -> str:
    return "; ".join(card.behaviour) or _WELL


def _process(process: FakeProcess) -> str:
    memory = "memory not reported" if process.memory_mib is None else spoken_memory(process.memory_mib)
    return f"{process.user or 'somebody'}'s '{process.command or 'process'}' (pid {process.pid}, {memory})"
