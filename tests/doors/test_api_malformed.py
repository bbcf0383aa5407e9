"""Whatever is sent to the HTTP API: one form of refusal with the right status, one sentence each, and nothing stored."""

import json
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from refusals import BODIES, HUGE, IDS, JSON, counts, refused

from support.invariants import assert_whole
from support.serving import Caller, ServerProcess, server_processes, survey_of

WISH = {"job": "train", "device": "0"}


@pytest.fixture(scope="module")
def server(
    module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ServerProcess]:
    settings: dict[str, object] = {"database_url": module_database_url, "redis_url": redis_url}
    with server_processes(tmp_path_factory.mktemp("server"), settings) as (server,):
        yield server


@pytest.fixture(scope="module")
def agent(server: ServerProcess) -> Generator[Caller]:
    """An agent that holds L-1 on local/0 and knows of nothing else."""
    caller = Caller(server.url, "agent")
    caller.survey(cards=2)
    assert caller.request()["lease"] == "L-1"
    yield caller
    caller.close()


@pytest.fixture(autouse=True)
def stored(agent: Caller, module_database_url: str) -> Iterator[None]:
    """Whatever a test sends here leaves no trace."""
    before = counts(module_database_url)
    yield
    assert counts(module_database_url) == before
    assert_whole(module_database_url)


@pytest.mark.parametrize("text", IDS, ids=lambda text: text[:12])
def test_what_is_no_ticket(agent: Caller, text: str) -> None:
    answers = [
        agent.http.get(f"/api/v1/tickets/{text}"),
        agent.http.get(f"/api/v1/tickets/{text}/wait?seconds=1"),
        agent.http.delete(f"/api/v1/tickets/{text}"),
    ]
    for answer in answers:
        assert "is not a ticket" in refused(answer, 422, "malformed")


@pytest.mark.parametrize("text", [text.replace("T", "L") for text in IDS], ids=lambda text: text[:12])
def test_what_is_no_lease(agent: Caller, text: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "accept": {},
        "release": {},
        "extend": {"minutes": 5, "reason": "x"},
        "report": {"step": 1},
        "kill": {"reason": "x"},
        "force-release": {"reason": "x"},
    }
    for verb, body in bodies.items():
        answer = agent.http.post(f"/api/v1/leases/{text}/{verb}", json=body)
        assert "is not a lease" in refused(answer, 422, "malformed")


@pytest.mark.parametrize(
    "body",
    [
        {"error": 7},
        {"error": "x", "failure": "sabotage"},
        {"failure": "infra"},
        {"error": ["x"]},
        {"keep_place": "maybe"},
    ],
)
def test_what_is_no_way_to_fail(agent: Caller, body: dict[str, Any]) -> None:
    refused(agent.http.post("/api/v1/leases/L-1/release", json=body), 422, "malformed")


def test_numbers_that_nobody_has(agent: Caller) -> None:
    for number in (2, 2**31, 2**63 - 1):
        refused(agent.http.get(f"/api/v1/tickets/T-{number}"), 404, "not_found")
        refused(agent.http.delete(f"/api/v1/tickets/T-{number}"), 404, "not_found")
        refused(agent.http.post(f"/api/v1/leases/L-{number}/release"), 404, "not_found")
        refused(agent.http.post(f"/api/v1/leases/L-{number}/kill", json={"reason": "x"}), 404, "not_found")
        refused(agent.http.get(f"/api/v1/errands/E-{number}"), 404, "not_found")
        refused(agent.http.post(f"/api/v1/hosts/local/errands/E-{number}", json={}), 404, "not_found")
        refused(agent.http.post(f"/api/v1/leases/L-{number}/report", json={"step": 1}), 404, "not_found")


@pytest.mark.parametrize("text", [text.replace("T", "E") for text in IDS], ids=lambda text: text[:12])
def test_what_is_no_errand(agent: Caller, text: str) -> None:
    answers = [
        agent.http.get(f"/api/v1/errands/{text}"),
        agent.http.post(f"/api/v1/hosts/local/errands/{text}", json={}),
    ]
    for answer in answers:
        assert "is not an errand" in refused(answer, 422, "malformed")
    refused(agent.http.get(f"/api/v1/hosts/local/orders?seconds=0&having={text}"), 422, "malformed")


ENDS: list[tuple[str, dict[str, Any]]] = [
    ("no reason", {}),
    ("a blank reason", {"reason": " \n"}),
    ("a long reason", {"reason": "x" * 501}),
    ("a grace backwards", {"reason": "x", "grace_seconds": -1}),
    ("a grace of hours", {"reason": "x", "grace_seconds": 7_200}),
    ("a grace that is a word", {"reason": "x", "grace_seconds": "soon"}),
]


@pytest.mark.parametrize(("name", "body"), ENDS, ids=[name for name, _ in ENDS])
def test_nothing_of_a_lease_is_ended_for(agent: Caller, name: str, body: dict[str, Any]) -> None:
    if "reason" not in name:
        refused(agent.http.post("/api/v1/leases/L-1/kill", json=body), 422, "malformed")
        return
    refused(agent.http.post("/api/v1/leases/L-1/force-release", json=body), 422, "malformed")
    refused(agent.http.post("/api/v1/leases/L-1/kill", json=body), 422, "malformed")


@pytest.mark.parametrize(
    "card",
    ["local/9", "nowhere/0", "local/%00", "%00/0", "local/x", "a" * 3_000 + "/0", "local/" + HUGE, "%F0%9F/0"],
    ids=lambda text: text[:12],
)
def test_cards_that_are_not_there(agent: Caller, card: str) -> None:
    for verb in ("drain", "undrain", "quarantine", "clear", "probe"):
        refused(agent.http.post(f"/api/v1/cards/{card}/{verb}", json={"reason": "why"}), 404, "not_found")


WISHES: list[tuple[str, dict[str, Any], int, str]] = [
    ("no job", {"device": "0"}, 422, "malformed"),
    ("an empty job", {"job": ""}, 422, "malformed"),
    ("a blank job", {"job": " \n\t\x00\x1b\u202e "}, 422, "malformed"),
    ("half a character", {"job": "\ud800"}, 422, "malformed"),
    ("a job of 1 MB", {"job": "x" * 1_000_000}, 422, "malformed"),
    ("a job of 201", {"job": "x" * 201}, 422, "malformed"),
    ("a job that is a list", {"job": ["x"]}, 422, "malformed"),
    ("a job that is null", {"job": None}, 422, "malformed"),
    ("no card", {**WISH, "device": ""}, 422, "malformed"),
    ("another card", {**WISH, "device": "7"}, 404, "not_found"),
    ("a card with NUL", {**WISH, "device": "local/0\x00"}, 404, "not_found"),
    ("half a card", {**WISH, "device": "\ud800"}, 404, "not_found"),
    ("a card of 1 MB", {**WISH, "device": "0" * 1_000_000}, 422, "malformed"),
    ("a thousand cards", {**WISH, "device": ",".join(map(str, range(1_000)))}, 422, "malformed"),
    ("a foreign digit", {**WISH, "device": "²"}, 404, "not_found"),
    ("a card twice", {**WISH, "device": "0,local/0"}, 422, "malformed"),
    ("no cards", {"job": "x", "cards": 0}, 422, "malformed"),
    ("fewer cards", {"job": "x", "cards": -3}, 422, "malformed"),
    ("half a card of any", {"job": "x", "cards": 1.5}, 422, "malformed"),
    ("more cards than there are", {"job": "x", "cards": 3}, 422, "impossible"),
    ("more cards than there can be", {"job": "x", "cards": 10**40}, 422, "malformed"),
    ("minutes backwards", {**WISH, "minutes": -1}, 422, "malformed"),
    ("no minutes", {**WISH, "minutes": 0}, 422, "malformed"),
    ("less than a moment", {**WISH, "minutes": 1e-300}, 422, "malformed"),
    ("for ever", {**WISH, "minutes": 1e300}, 422, "malformed"),
    ("minutes that are a word", {**WISH, "minutes": "ten"}, 422, "malformed"),
    ("less memory than none", {"job": "x", "memory_gib": -0.5}, 422, "malformed"),
    ("more memory than there is", {"job": "x", "memory_gib": 500}, 422, "impossible"),
    ("more memory than a number holds", {"job": "x", "memory_gib": 1e300}, 422, "malformed"),
    ("a model of 1 MB", {"job": "x", "model": "x" * 1_000_000}, 422, "malformed"),
    ("half a model", {"job": "x", "model": "\udc00"}, 422, "malformed"),
    ("an unknown model", {"job": "x", "model": "<img src=x>"}, 422, "impossible"),
    ("a strange priority", {**WISH, "priority": "p9"}, 422, "malformed"),
    ("a long priority", {**WISH, "priority": "p" * 100_000}, 422, "malformed"),
    ("a strange style", {**WISH, "env_style": "nvidia"}, 422, "malformed"),
    ("a purpose of 1 MB", {**WISH, "purpose": "x" * 1_000_000}, 422, "malformed"),
]


@pytest.mark.parametrize(("wish", "status", "code"), [each[1:] for each in WISHES], ids=[each[0] for each in WISHES])
def test_wishes_that_make_no_sense(agent: Caller, wish: dict[str, Any], status: int, code: str) -> None:
    refused(agent.http.post("/api/v1/tickets", content=json.dumps(wish), headers=JSON), status, code)


RESERVATIONS: list[tuple[str, dict[str, Any], int, str]] = [
    ("nothing", {}, 422, "malformed"),
    ("no length", {"card": "0"}, 422, "malformed"),
    ("no card", {"minutes": 60}, 422, "malformed"),
    ("another card", {"card": "7", "minutes": 60}, 404, "not_found"),
    ("a card with NUL", {"card": "local/0\x00", "minutes": 60}, 404, "not_found"),
    ("no time", {"card": "0", "minutes": 0}, 422, "malformed"),
    ("time backwards", {"card": "0", "minutes": -60}, 422, "malformed"),
    ("a week", {"card": "0", "minutes": 10_080}, 422, "impossible"),
    ("for ever", {"card": "0", "minutes": 1e300}, 422, "impossible"),
    ("a word", {"card": "0", "minutes": "soon"}, 422, "malformed"),
    ("no zone", {"card": "0", "minutes": 60, "starts_at": "2026-03-01T18:00:00"}, 422, "malformed"),
    ("no moment", {"card": "0", "minutes": 60, "starts_at": "18:00"}, 422, "malformed"),
    ("the past", {"card": "0", "minutes": 60, "starts_at": "0001-01-01T00:00:00+14:00"}, 422, "impossible"),
    ("the end of time", {"card": "0", "minutes": 60, "starts_at": "9999-12-31T23:59:59-14:00"}, 422, "impossible"),
    ("a long title", {"card": "0", "minutes": 60, "title": "x" * 201}, 422, "malformed"),
]


@pytest.mark.parametrize(
    ("wish", "status", "code"), [each[1:] for each in RESERVATIONS], ids=[each[0] for each in RESERVATIONS]
)
def test_reservations_that_make_no_sense(agent: Caller, wish: dict[str, Any], status: int, code: str) -> None:
    refused(agent.http.post("/api/v1/reservations", content=json.dumps(wish), headers=JSON), status, code)


@pytest.mark.parametrize("text", [text.replace("T", "R") for text in IDS], ids=lambda text: text[:12])
def test_what_is_no_reservation(agent: Caller, text: str) -> None:
    assert "is not a reservation" in refused(agent.http.delete(f"/api/v1/reservations/{text}"), 422, "malformed")


def test_a_reservation_that_nobody_has(agent: Caller) -> None:
    refused(agent.http.delete(f"/api/v1/reservations/R-{2**63 - 1}"), 404, "not_found")


PROPOSALS: list[tuple[str, dict[str, Any], int, str]] = [
    ("nothing", {}, 422, "malformed"),
    ("no reason", {"kind": "swap", "about": "T-1"}, 422, "malformed"),
    ("an empty reason", {"kind": "swap", "about": "T-1", "reason": " "}, 422, "malformed"),
    ("a long reason", {"kind": "swap", "about": "T-1", "reason": "x" * 501}, 422, "malformed"),
    ("no kind", {"kind": "", "about": "T-1", "reason": "x"}, 422, "malformed"),
    ("a kind of its own", {"kind": "steal\x00", "about": "T-1", "reason": "x"}, 422, "malformed"),
    ("another thing", {"kind": "swap", "about": "R-1", "reason": "x"}, 422, "malformed"),
    ("a huge thing", {"kind": "swap", "about": f"T-{HUGE}", "reason": "x"}, 422, "malformed"),
    ("a thing nobody has", {"kind": "swap", "about": "T-999999", "reason": "x"}, 404, "not_found"),
    ("no step", {"kind": "release_at_step", "about": "L-1", "reason": "x"}, 422, "malformed"),
    ("a huge step", {"kind": "release_at_step", "about": "L-1", "reason": "x", "step": 2**60}, 422, "malformed"),
    ("half a step", {"kind": "release_at_step", "about": "L-1", "reason": "x", "step": 1.5}, 422, "malformed"),
    ("no minutes", {"kind": "split_window", "about": "R-1", "reason": "x"}, 422, "malformed"),
    ("minutes for ever", {"kind": "split_window", "about": "R-1", "reason": "x", "minutes": 1e300}, 422, "malformed"),
    ("open for ever", {"kind": "swap", "about": "T-1", "reason": "x", "open_minutes": 1e300}, 422, "malformed"),
    ("to many", {"kind": "swap", "about": "T-1", "reason": "x", "to": ["a", "b"]}, 422, "malformed"),
]


@pytest.mark.parametrize(
    ("wish", "status", "code"), [each[1:] for each in PROPOSALS], ids=[each[0] for each in PROPOSALS]
)
def test_proposals_that_make_no_sense(agent: Caller, wish: dict[str, Any], status: int, code: str) -> None:
    refused(agent.http.post("/api/v1/proposals", content=json.dumps(wish), headers=JSON), status, code)


@pytest.mark.parametrize("text", [text.replace("T", "P") for text in IDS], ids=lambda text: text[:12])
def test_what_is_no_proposal(agent: Caller, text: str) -> None:
    for verb, body in {"accept": {}, "decline": {"reason": "x"}, "withdraw": {}}.items():
        answer = agent.http.post(f"/api/v1/proposals/{text}/{verb}", json=body)
        assert "is not a proposal" in refused(answer, 422, "malformed")


def test_a_proposal_that_nobody_has_made(agent: Caller) -> None:
    for verb, body in {"accept": {}, "decline": {"reason": "x"}, "withdraw": {}}.items():
        refused(agent.http.post(f"/api/v1/proposals/P-{2**63 - 1}/{verb}", json=body), 404, "not_found")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize(
    "path",
    ["/tickets", "/leases/L-1/extend", "/leases/L-1/report", "/reservations", "/proposals", "/hosts/local/survey"],
)
def test_bodies_that_are_none(agent: Caller, path: str, body: bytes) -> None:
    refused(agent.http.post(f"/api/v1{path}", content=body, headers=JSON), 422, "malformed")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_bodies_of_another_kind(agent: Caller, kind: str) -> None:
    headers = {"Content-Type": kind}
    refused(agent.http.post("/api/v1/tickets", content=b'{"jobb": 1}', headers=headers), 422, "malformed")


@pytest.mark.parametrize("path", ["/api/v1/tickets", "/api/v1/hosts/local/survey", "/mcp"])
@pytest.mark.parametrize("is_chunked", [False, True], ids=["sized", "chunked"])
def test_five_megabytes(agent: Caller, path: str, is_chunked: bool) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"job": "'
        for _ in range(80):
            yield b"x" * 65_536
        yield b'"}'

    content = pieces() if is_chunked else b"".join(pieces())
    headers = JSON | {"Accept": "application/json, text/event-stream"}
    assert "4 MiB" in refused(agent.http.post(path, content=content, headers=headers), 413, "malformed")


PROCESSES = [
    "x",
    "1",
    "1:",
    ":1",
    "0:5",
    "-1:5",
    "1:-5",
    "1.5:5",
    "²:5",
    "%C2%B2:5",
    "%EF%BC%91:5",
    "5:²",
    "99999999999:5",
    "5:99999999999999999999",
    f"{HUGE}:5",
    f"5:{HUGE}",
    "%00:%00",
    "1:5:6",
]


@pytest.mark.parametrize("header", ["X-Warploom-Process", "X-Warploom-Ancestors"])
@pytest.mark.parametrize("text", PROCESSES, ids=lambda text: text[:12])
def test_processes_that_are_none(agent: Caller, header: str, text: str) -> None:
    headers = [(b"X-Warploom-Session", b""), (header.encode(), text.encode("latin-1"))]
    for path in ("/api/v1/me", "/events?session=mine"):
        assert "is not a process" in refused(agent.http.get(path, headers=headers), 422, "malformed")


@pytest.mark.parametrize("header", ["Session", "Agent", "Project", "Client", "Directory", "Host"])
@pytest.mark.parametrize("text", ["x" * 2_001, "x" * 30_000, "%41" * 2_000], ids=["long", "longer", "encoded"])
def test_names_that_are_too_long(agent: Caller, header: str, text: str) -> None:
    answer = agent.http.get("/api/v1/me", headers={"X-Warploom-Session": "new", f"X-Warploom-{header}": text})
    assert "characters" in refused(answer, 422, "malformed")


@pytest.mark.parametrize("text", ["%00", "%E2%80%AE"])
def test_a_session_without_a_name(agent: Caller, text: str) -> None:
    answer = agent.http.get("/api/v1/me", headers={"X-Warploom-Session": text})
    assert "empty" in refused(answer, 422, "malformed")


CURSORS = [
    "x",
    "1",
    "1-",
    "-1",
    "1--",
    "1---5",
    "1-99999999999999999999",
    "99999999999999999999-1",
    "18446744073709551616-1",
    "1-2-3",
    "²-1",
    "1-²",
    "%00",
    HUGE,
    f"1-{HUGE}",
    "<b>",
]


@pytest.mark.parametrize("cursor", CURSORS, ids=lambda text: text[:12])
def test_cursors_that_are_none(agent: Caller, cursor: str) -> None:
    for path in ("/api/v1/events", "/events"):
        answer = agent.http.get(f"{path}?after={cursor}")
        assert "is not a cursor" in refused(answer, 422, "malformed")
    answer = agent.http.get("/events", headers=[(b"Last-Event-ID", cursor.encode("latin-1"))])
    assert "is not a cursor" in refused(answer, 422, "malformed")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=201", "limit=x", f"limit={HUGE}", "limit=1.5", "limit="]
)
def test_limits_that_are_none(agent: Caller, query: str) -> None:
    refused(agent.http.get(f"/api/v1/events?{query}"), 422, "malformed")


@pytest.mark.parametrize("seconds", ["-1", "56", "nan", "inf", "-inf", "1e999", "x", HUGE, ""])
@pytest.mark.parametrize("path", ["/tickets/T-1/wait", "/hosts/local/orders"])
def test_waits_that_are_none(agent: Caller, path: str, seconds: str) -> None:
    refused(agent.http.get(f"/api/v1{path}?seconds={seconds}"), 422, "malformed")


def test_streams_of_others_are_not_had(agent: Caller) -> None:
    refused(agent.http.get("/events?session=S-1"), 422, "malformed")


LEASE_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "minutes backwards": ("extend", {"minutes": -5, "reason": "x"}),
    "no time at all": ("extend", {"minutes": 0, "reason": "x"}),
    "for ever": ("extend", {"minutes": 1e9, "reason": "x"}),
    "less than a moment": ("extend", {"minutes": 1e-300, "reason": "x"}),
    "no reason": ("extend", {"minutes": 5}),
    "an empty reason": ("extend", {"minutes": 5, "reason": "\x00"}),
    "a reason of 1 MB": ("extend", {"minutes": 5, "reason": "x" * 1_000_000}),
    "half a reason": ("extend", {"minutes": 5, "reason": "\ud800"}),
    "a step backwards": ("report", {"step": -1}),
    "half a step": ("report", {"step": 0.5}),
    "a step too far": ("report", {"step": 2**63}),
    "a step beyond numbers": ("report", {"step": 10**400}),
    "no total": ("report", {"step": 1, "total": 0}),
    "a total too far": ("report", {"step": 1, "total": 2**64}),
    "no step": ("report", {"total": 5}),
}


@pytest.mark.parametrize(("verb", "body"), LEASE_CALLS.values(), ids=LEASE_CALLS.keys())
def test_calls_of_a_holder_that_make_no_sense(agent: Caller, verb: str, body: dict[str, Any]) -> None:
    answer = agent.http.post(f"/api/v1/leases/L-1/{verb}", content=json.dumps(body), headers=JSON)
    refused(answer, 422, "malformed")


@pytest.mark.parametrize("reason", ["x" * 501, "x" * 1_000_000, "\ud800"], ids=["long", "1 MB", "half a character"])
def test_drains_for_no_good_reason(agent: Caller, reason: str) -> None:
    answer = agent.http.post("/api/v1/cards/local/0/drain", content=json.dumps({"reason": reason}), headers=JSON)
    refused(answer, 422, "malformed")


def _card(**facts: Any) -> list[dict[str, Any]]:
    return [survey_of()["cards"][0] | facts]


def _process(**facts: Any) -> list[dict[str, Any]]:
    return _card(processes=[{"pid": 1, "started": 1} | facts])


SURVEYS: dict[str, dict[str, Any]] = {
    "no cards": {"cards": None},
    "a card twice": {"cards": _card() * 2},
    "too many cards": {"cards": [_card(uuid=f"GPU-{number}", index=number)[0] for number in range(300)]},
    "too many processes": {"cards": _card(processes=[{"pid": 1, "started": 1}] * 501)},
    "a card without a name": {"cards": _card(uuid="")},
    "a card with a long name": {"cards": _card(uuid="G" * 1_000)},
    "half a card": {"cards": _card(uuid="GPU-\ud800")},
    "an index below none": {"cards": _card(index=-1)},
    "an index too far": {"cards": _card(index=2**40)},
    "memory below none": {"cards": _card(memory_mib=-1)},
    "memory too large": {"cards": _card(memory_mib=2**40)},
    "use below none": {"cards": _card(used_mib=-1)},
    "use too large": {"cards": _card(used_mib=2**40)},
    "busier than can be": {"cards": _card(utilisation=101)},
    "less busy than can be": {"cards": _card(utilisation=-1)},
    "a model of 1 MB": {"cards": _card(model="x" * 1_000_000)},
    "a bus of 1 MB": {"cards": _card(pci_bus_id="x" * 1_000_000)},
    "an unknown fault": {"cards": _card(fault="tired")},
    "a process of no number": {"cards": _process(pid=0)},
    "a process beyond numbers": {"cards": _process(pid=2**40)},
    "a start beyond numbers": {"cards": _process(started=2**70)},
    "a process with memory below none": {"cards": _process(memory_mib=-5)},
    "an ancestor beyond numbers": {"cards": _process(ancestors=[{"pid": 2**40, "started": 1}])},
    "an unknown kind": {"cards": _process(kind="hybrid")},
    "an interval of nothing": {"interval_seconds": 0},
    "an interval NaN": {"interval_seconds": float("nan")},
    "an interval of ever": {"interval_seconds": float("inf")},
    "an age below none": {"age_seconds": -1},
    "an age NaN": {"age_seconds": float("nan")},
    "a clock NaN": {"clock": float("nan")},
    "a clock of ever": {"clock": float("inf")},
    "a provider of 1 MB": {"provider": "x" * 1_000_000},
    "a driver of 1 MB": {"driver": "x" * 1_000_000},
    "a version of 1 MB": {"version": "x" * 1_000_000},
    "a problem of 1 MB": {"problem": "x" * 1_000_000},
}


@pytest.mark.parametrize("facts", SURVEYS.values(), ids=SURVEYS.keys())
def test_surveys_that_make_no_sense(agent: Caller, facts: dict[str, Any]) -> None:
    answer = agent.http.post("/api/v1/hosts/new/survey", content=json.dumps(survey_of() | facts), headers=JSON)
    refused(answer, 422, "malformed")


@pytest.mark.parametrize("name", ["%00", "a,b", "17", "x" * 81, "x" * 9_000, "%0A", "%20"], ids=lambda text: text[:12])
def test_hosts_that_are_none(agent: Caller, name: str) -> None:
    refused(agent.http.post(f"/api/v1/hosts/{name}/survey", json=survey_of()), 422, "malformed")
    refused(agent.http.get(f"/api/v1/hosts/{name}/orders?seconds=0"), 422, "malformed")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/nothing", 404),
        ("GET", "/%00", 404),
        ("GET", "/" + "x" * 10_000, 404),
        ("PUT", "/api/v1/rack", 405),
        ("DELETE", "/api/v1/leases/L-1/release", 405),
        ("POST", "/health", 405),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_does_not_exist(agent: Caller, method: str, path: str, status: int) -> None:
    refused(agent.http.request(method, path), status, "not_found")
