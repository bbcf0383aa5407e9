"""Hand-made racks, answers and events for the tests of the pages."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from warploom.domain.callers import Role
from warploom.domain.cards import (
    CardLane,
    CardState,
    Condition,
    HostLanes,
    Owner,
    ProcessView,
    QueuePlace,
    Rack,
    Service,
    ServiceAnswer,
)
from warploom.domain.etas import EtaView, EtaWord, Pace, Span, at, measured_end, show_eta
from warploom.domain.events import EventKind, EventView
from warploom.domain.leases import Clock, Holder, Label, LeaseState
from warploom.domain.reservations import ReservationView
from warploom.web.pages.router import pages_router
from warploom.web.pages.sources import PageSources

NOW = datetime.now(UTC)
NOTHING_KNOWN = show_eta(Span(EtaWord.UNKNOWN), NOW)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def eta(low: float, high: float, word: EtaWord = EtaWord.MEASURED) -> EtaView:
    return show_eta(Span(word, NOW + timedelta(minutes=low), NOW + timedelta(minutes=high)), NOW)


def holder(**changes: Any) -> Holder:
    facts: dict[str, Any] = {
        "lease": "L-42",
        "ticket": "T-17",
        "title": "train bert-base on wiki-40b",
        "agent": "claude-1",
        "session": "S-3",
        "client": "claude-code",
        "directory": "~/src/bert",
        "state": LeaseState.ACTIVE,
        "granted_at": ago(80),
        "expires_at": NOW + timedelta(minutes=10),
        "expected_end": NOW + timedelta(minutes=50),
        "step": 18_900,
        "total": 30_000,
        "rate": 3.9,
        "labels": [],
        "clocks": [
            Clock("session", True, "session alive"),
            Clock("process", True, "process alive"),
            Clock("steps", True, "stepping, 3.9 /s"),
        ],
        "eta": show_eta(measured_end(Pace(18_900, 30_000, 3.9, 0.08, NOW), NOW), NOW),
    }
    return Holder(**(facts | changes))


def place(number: int, title: str, agent: str, waited: float, starts: EtaView, priority: int = 2) -> QueuePlace:
    return QueuePlace(f"T-{90 + number}", number, title, agent, priority, ago(waited), f"{waited:g} min", starts)


def reserved(name: str = "R-3", card: str = "local/1", agent: str = "ada", title: str | None = None) -> ReservationView:
    return ReservationView(name, card, agent, title, ago(30), NOW + timedelta(minutes=90), is_current=True)


def lane(card: str = "local/1", state: CardState = CardState.FREE, **changes: Any) -> CardLane:
    index = int(card.rpartition("/")[2])
    facts: dict[str, Any] = {
        "card": card,
        "uuid": f"GPU-09be77d{index}-1c52-4a7e-9d30-5f3a91c20b11",
        "index": index,
        "model": "NVIDIA H200",
        "memory_mib": 144_384,
        "state": state,
        "say": f'Observed clear. Ask for it with gpu_request(device="{card}") or `warploom run --card {card} -- …`.',
        "since": ago(6),
        "service": Service.IN_SERVICE,
        "condition": Condition.CLEAR,
        "used_mib": 420,
        "lease_mib": None,
        "utilisation": 0,
        "holder": None,
        "processes": [],
        "queue": [],
        "waiting": 0,
        "free": show_eta(at(NOW), NOW),
    }
    return CardLane(**(facts | changes))


def leased_lane(card: str = "local/0", **changes: Any) -> CardLane:
    its = changes.pop("holder", None) or holder()
    facts: dict[str, Any] = {
        "since": its.granted_at,
        "condition": Condition.OCCUPIED,
        "say": f"{card} is held by {its.lease}.",
        "used_mib": 98_304,
        "lease_mib": 97_800,
        "utilisation": 92,
        "holder": its,
        "processes": [ProcessView(4127, Owner.MEMBER, "python train.py (L-42, pid 4127, 95.5 GiB)", "ada", 97_800)],
        "queue": [
            place(1, "eval-sweep", "claude-2", 41, eta(44, 52)),
            place(2, "hotfix-repro", "codex-1", 3, eta(64, 72, EtaWord.DECLARED), priority=0),
            place(3, "distil-small", "claude-1", 1, NOTHING_KNOWN),
        ],
        "waiting": 5,
        "free": its.eta,
    }
    return lane(card, **({"state": CardState.LEASED} | facts | changes))


def busy_rack() -> Rack:
    late = holder(
        lease="L-39", ticket="T-88", title="ablation grid, point 7 of 24", agent="sweeper", session="S-1", client=None,
        directory=None, expected_end=ago(12), step=None, total=None, rate=None,
        labels=[Label.OVERDUE, Label.UNATTENDED],
        clocks=[
            Clock("session", False, "session silent for 20 min"), Clock("process", True, "process alive"),
            Clock("steps", False, "no steps reported"),
        ],
    )  # fmt: skip
    offered = holder(
        lease="L-57", ticket="T-93", title="quantise llama", agent="codex-1", session="S-9", client="codex",
        directory="/srv/quant", state=LeaseState.OFFERED, step=None, total=None, rate=None, clocks=[],
    )  # fmt: skip
    foreign = "python serve.py (user 1004, pid 41233, 22 GiB)"
    local = [
        leased_lane(),
        lane(),
        leased_lane(
            "local/2", holder=offered, state=CardState.OFFERED, since=ago(1), used_mib=420, lease_mib=0, utilisation=0,
            processes=[], queue=[], waiting=0, free=NOTHING_KNOWN,
            say="Local/2 is offered to codex-1 for 'quantise llama' (L-57) until 14:05:22 UTC.",
        ),
    ]  # fmt: skip
    small = {"model": "NVIDIA A100-SXM4-80GB", "memory_mib": 81_920}
    rack_b = [
        leased_lane(
            "rack-b/0", holder=late, state=CardState.OVERDUE, since=ago(12), used_mib=31_744, lease_mib=31_744,
            utilisation=71, queue=[], waiting=0, free=NOTHING_KNOWN, service=Service.DRAINING, **small,
        ),
        lane(
            "rack-b/1", CardState.FOREIGN, since=ago(291), condition=Condition.FOREIGN, used_mib=22_528, utilisation=40,
            say=f"Rack-b/1 is used by somebody else since 09:12 UTC: {foreign}.", free=NOTHING_KNOWN,
            processes=[ProcessView(41233, Owner.FOREIGN, foreign, "1004", 22_528)], **small,
        ),
        lane(
            "rack-b/2", CardState.DRAINED, since=ago(2000), service=Service.DRAINED, free=NOTHING_KNOWN,
            say="Rack-b/2 is drained by an operator: fan replacement on Friday.", **small,
        ),
        lane(
            "rack-b/3", CardState.LOST, since=ago(33), condition=Condition.LOST, used_mib=None, utilisation=None,
            say="Rack-b/3 is lost: it no longer answers.", free=NOTHING_KNOWN, **small,
        ),
    ]  # fmt: skip
    return Rack(
        at=NOW,
        hosts=[
            HostLanes("local", "nvml", "580.65", NOW - timedelta(seconds=0.4), True, None, local),
            HostLanes("rack-b", "nvml", "580.65", NOW - timedelta(seconds=1.1), True, None, rack_b),
        ],
        waiting=5,
        longest_wait="41 min",
        next="Ask with gpu_request.",
    )


def every_state_rack() -> Rack:
    lanes = [lane(f"local/{number}", state) for number, state in enumerate(CardState)]
    return Rack(NOW, [HostLanes("local", "fake", None, NOW, True, None, lanes)], 0, None, "")


def empty_rack() -> Rack:
    return Rack(NOW, [], 0, None, "Run `warploom up`.")


def some_events() -> list[EventView]:
    return [
        EventView("810-5", ago(6), EventKind.LEASE_RELEASED, "codex-2 released local/1", "T-12", "L-41", "S-2",
                  ["local/1"]),
        EventView("811-6", ago(2.3), EventKind.LEASE_EXTENDED, "claude-1 extended by 30 min: loss still falling",
                  "T-17", "L-42", "S-3", ["local/0"]),
        EventView("812-7", NOW, EventKind.TICKET_QUEUED, "codex-1 joined the queue of local/0 with 'hotfix-repro'",
                  "T-92", None, "S-9", ["local/0"]),
    ]  # fmt: skip


@dataclass
class Shown:
    """What the pages under test read, and what they were asked to do."""

    rack: Rack = field(default_factory=busy_rack)
    events: list[EventView] = field(default_factory=some_events)
    consequences: list[str] = field(
        default_factory=lambda: [
            "T-18 and 2 more go on waiting.",
            "L-42 'train bert-base' keeps running until it ends.",
        ]
    )
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)
    failure: Exception | None = None

    async def read_rack(self) -> Rack:
        if self.failure:
            raise self.failure
        return self.rack

    async def latest_events(self, limit: int) -> list[EventView]:
        return self.events[-limit:]

    async def drain(self, card: str, reason: str | None, *, role: Role, preview: bool) -> ServiceAnswer:
        self.roles.append(role)
        return self._change("drain", card, reason, preview)

    async def undrain(self, card: str, reason: str | None, *, role: Role, preview: bool) -> ServiceAnswer:
        self.roles.append(role)
        return self._change("undrain", card, reason, preview)

    def sources(self) -> PageSources:
        return PageSources(self.read_rack, self.latest_events, self.drain, self.undrain)

    def _change(self, verb: str, card: str, reason: str | None, preview: bool) -> ServiceAnswer:
        if self.failure:
            raise self.failure
        if not preview:
            self.asked.append((verb, card, reason))
        service = Service.DRAINED if verb == "drain" else Service.IN_SERVICE
        return ServiceAnswer(card, service, not preview, self.consequences)


HOSTILE_TEXTS = [
    "<script>window.stolen = 1</script>",
    '"><img src=x onerror="window.stolen = 1">',
    "' onmouseover='window.stolen = 1' x='",
    "</title></textarea></svg><script>window.stolen = 1</script>",
    "javascript:window.stolen=1",
    "{{ 7 * 7 }}{% for x in y %}",
    "`<b>code</b>` gpu_request(<i>)",
    "&lt;script&gt;&amp;nbsp;",
    "x" * 200,
    "ถ้าไม่มีช่องว่าง" * 12,
    "مرحبا עולם " * 8,
]


def hostile_rack(text: str) -> Rack:
    """A rack with `text` in every field that people, drivers or agents may fill."""
    its = holder(
        runs_into=text, title=text, agent=text, client=text, directory=text, labels=[Label.UNATTENDED],
        clocks=[Clock("session", False, text)],
    )  # fmt: skip
    queue = [place(1, text, text, 4, eta(3, 9)), place(2, text, text, 2, NOTHING_KNOWN, priority=0)]
    lanes = [
        leased_lane(
            f"{text}/0", holder=its, say=text, uuid=text, model=text, queue=queue,
            processes=[ProcessView(1, Owner.FOREIGN, text, text)],
        ),
        lane(f"{text}/1", CardState.FOREIGN, say=text, uuid=text, model=text),
        lane(f"{text}/2", CardState.RESERVED, say=text, reservations=[reserved(text, f"{text}/2", text, text)]),
    ]  # fmt: skip
    return Rack(NOW, [HostLanes(text, text, text, NOW, False, text, lanes)], 2, text, text, [text])


def hostile_events(text: str) -> list[EventView]:
    return [EventView("1-1", NOW, EventKind.TICKET_QUEUED, text, text, text, text, [text, f"{text}/0"], text)]


def page_client(shown: Shown, role: Role | None = None) -> httpx.AsyncClient:
    """A client of the pages alone; `role` is what the server's guard would have settled."""
    app = FastAPI()
    app.include_router(pages_router(shown.sources()))

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope if role is None else {**scope, "warploom.role": role}, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url="http://warploom.test")
