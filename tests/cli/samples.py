"""Values as a server would answer with them."""

from datetime import UTC, datetime, timedelta

from warploom.domain.cards import CardLane, CardState, Condition, HostLanes, QueuePlace, Rack, Service
from warploom.domain.claims import Claim, StepAnswer
from warploom.domain.etas import EtaView, EtaWord
from warploom.domain.events import EventKind, EventView
from warploom.domain.leases import Holder, LeaseAnswer, LeaseState
from warploom.domain.standings import Standing, TicketAnswer
from warploom.domain.task_answers import TaskAnswer, TaskLine
from warploom.domain.tasks import TaskKind, TaskState

NOW = datetime(2026, 3, 1, 14, 20, tzinfo=UTC)
UUID = "GPU-5f3a91c2-0000-4000-8000-000000000000"
EXPORT = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": UUID, "WARPLOOM_LEASE": "L-57"}
SOON = EtaView("44–52 min", EtaWord.MEASURED, "from its step rate", [44, 52])
LATER = EtaView("~2 h", EtaWord.DECLARED, "from its holder's own estimate", [120, 120])
UNKNOWN = EtaView("unknown", EtaWord.UNKNOWN, "nobody can say")


def queued(**changes: object) -> TicketAnswer:
    facts = {
        "ticket": "T-18",
        "title": "eval-sweep",
        "state": Standing.QUEUED,
        "next": "Run `warploom wait T-18` in the background and end your turn.",
        "agent": "claude-2",
        "cards": ["local/0"],
        "place": 1,
        "reason": "local/0 is held by L-42 'train bert-base' (claude-1), free in 44–52 min, measured from its step rate",
        "starts": SOON,
        "chain": ["local/0 is held by L-42", "ahead of you: T-9"],
        "also_free": ["local/1"],
    }
    return TicketAnswer(**(facts | changes))  # type: ignore[arg-type]


def offered(**changes: object) -> TicketAnswer:
    facts = {
        "ticket": "T-18",
        "title": "eval-sweep",
        "state": Standing.OFFERED,
        "next": "Start the job now.",
        "agent": "claude-2",
        "cards": ["local/0"],
        "lease": "L-57",
        "export": EXPORT,
        "expires_at": NOW + timedelta(minutes=3, seconds=10),
    }
    return TicketAnswer(**(facts | changes))  # type: ignore[arg-type]


def active(**changes: object) -> TicketAnswer:
    return offered(**({"state": Standing.ACTIVE} | changes))


def ended(**changes: object) -> TicketAnswer:
    facts = {
        "ticket": "T-18",
        "title": "eval-sweep",
        "state": Standing.ENDED,
        "next": "Ask again with gpu_request if you still need a card.",
        "reason": "it left the queue",
    }
    return TicketAnswer(**(facts | changes))  # type: ignore[arg-type]


def lease(state: LeaseState = LeaseState.ACTIVE, **changes: object) -> LeaseAnswer:
    facts = {"lease": "L-57", "ticket": "T-18", "state": state, "cards": ["local/0"], "next": "Go on."}
    return LeaseAnswer(**(facts | changes))  # type: ignore[arg-type]


def holder(**changes: object) -> Holder:
    facts = {
        "lease": "L-42",
        "ticket": "T-17",
        "title": "train bert-base",
        "agent": "claude-1",
        "session": "S-1",
        "client": "claude-code",
        "directory": "/src",
        "state": LeaseState.ACTIVE,
        "granted_at": NOW - timedelta(hours=1),
        "expires_at": NOW + timedelta(minutes=9),
        "expected_end": None,
        "step": 18_900,
        "total": 30_000,
        "rate": 4.0,
        "labels": [],
        "clocks": [],
        "eta": SOON,
    }
    return Holder(**(facts | changes))  # type: ignore[arg-type]


def lane(index: int = 0, state: CardState = CardState.FREE, **changes: object) -> CardLane:
    facts = {
        "card": f"local/{index}",
        "uuid": f"{UUID[:-1]}{index}",
        "index": index,
        "model": "H200",
        "memory_mib": 144_384,
        "state": state,
        "say": f"Local/{index} is {state.value}.",
        "since": NOW - timedelta(minutes=6),
        "service": Service.IN_SERVICE,
        "condition": Condition.CLEAR,
        "used_mib": 12,
        "lease_mib": None,
        "utilisation": 0,
        "holder": None,
        "processes": [],
        "queue": [],
        "waiting": 0,
        "free": EtaView("now", EtaWord.MEASURED, "from its step rate", [0, 0]),
    }
    return CardLane(**(facts | changes))  # type: ignore[arg-type]


def place(number: int, ticket: str, title: str, agent: str, waiting: str, starts: EtaView) -> QueuePlace:
    return QueuePlace(ticket, number, title, agent, 2, NOW, waiting, starts)


def busy_lane(index: int = 0, **changes: object) -> CardLane:
    queue = [
        place(1, "T-18", "eval-sweep", "claude-2", "41 min", EtaView("~48 min", EtaWord.MEASURED, "", [48, 48])),
        place(2, "T-91", "hotfix-repro", "codex-1", "3 min", LATER),
    ]
    facts = {"holder": holder(), "queue": queue, "waiting": 2, "free": SOON}
    return lane(index, CardState.LEASED, **(facts | changes))


def rack(*lanes: CardLane, **changes: object) -> Rack:
    host = {
        "host": "local",
        "provider": "nvml",
        "driver": "580.65",
        "surveyed_at": NOW - timedelta(milliseconds=400),
        "is_present": True,
        "problem": None,
        "cards": list(lanes),
    }
    hosts = [HostLanes(**(host | changes))] if lanes else []  # type: ignore[arg-type]
    return Rack(NOW, hosts, sum(each.waiting for each in lanes), None, "No host has reported yet: run `warploom up`.")


def event(cursor: str, text: str = "claude-2 holds local/0 for 'eval-sweep'") -> EventView:
    return EventView(cursor, NOW, EventKind.LEASE_GRANTED, text, "T-18", "L-57", "S-2", ["local/0"], "local")


def task(state: TaskState = TaskState.READY, **changes: object) -> TaskAnswer:
    facts = {
        "task": "T-17",
        "title": "train bert-base",
        "state": state,
        "kind": TaskKind.WORK,
        "priority": "p1",
        "project": "default",
        "next": "Claim it with loom_claim.",
        "created_at": NOW,
    }
    return TaskAnswer(**(facts | changes))  # type: ignore[arg-type]


def line(name: str = "T-17", state: TaskState = TaskState.READY, **changes: object) -> TaskLine:
    facts = {"task": name, "title": "train bert-base", "state": state, "kind": TaskKind.WORK, "priority": "p1"}
    return TaskLine(**(facts | changes))  # type: ignore[arg-type]


def claimed(**changes: object) -> Claim:
    return Claim(task(TaskState.CLAIMED, **changes), "L-42", NOW + timedelta(minutes=10))


def step(state: TaskState = TaskState.DONE, **changes: object) -> StepAnswer:
    facts = {"task": "T-17", "state": state, "next": "Claim the next one.", "lease": "L-42"}
    return StepAnswer(**(facts | changes))  # type: ignore[arg-type]
