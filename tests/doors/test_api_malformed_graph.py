"""Whatever is sent to the routes of the task graph: one form of refusal with the right status, and nothing stored."""

import json
import re
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from refusals import BODIES, HUGE, IDS, JSON, counts, refused

from support.invariants import assert_whole
from support.serving import Caller, ServerProcess, server_processes

MEGABYTE = "x" * 1_000_000
HALF = "\ud800"


@pytest.fixture(scope="module")
def server(
    module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ServerProcess]:
    settings: dict[str, object] = {"database_url": module_database_url, "redis_url": redis_url}
    with server_processes(tmp_path_factory.mktemp("server"), settings) as (server,):
        yield server


@pytest.fixture(scope="module")
def agent(server: ServerProcess) -> Generator[Caller]:
    """An agent that holds T-3 by L-1; T-1 is an epic, T-2 waits for T-3, T-4 is an idea, T-5 may be claimed."""
    caller = Caller(server.url, "agent")
    caller.survey(cards=2)
    assert caller.post("/tasks", title="epic", kind="epic")["task"] == "T-1"
    assert caller.post("/tasks", title="later", parent_id="T-1")["task"] == "T-2"
    assert caller.post("/tasks", title="now")["task"] == "T-3"
    caller.http.patch("/api/v1/tasks/T-2", json={"depends_on": ["T-3"]})
    assert caller.post("/ideas", title="some day")["task"] == "T-4"
    assert caller.post("/claims", task="T-3")["claims"][0]["lease"] == "L-1"
    assert caller.post("/tasks", title="free")["task"] == "T-5"
    yield caller
    caller.close()


@pytest.fixture(scope="module")
def other(server: ServerProcess, agent: Caller) -> Generator[Caller]:
    """An agent that holds nothing."""
    _ = agent
    caller = Caller(server.url, "other")
    caller.get("/me")
    yield caller
    caller.close()


@pytest.fixture(autouse=True)
def stored(agent: Caller, other: Caller, module_database_url: str) -> Iterator[None]:
    """Whatever a test sends here leaves no trace."""
    before = counts(module_database_url)
    yield
    assert counts(module_database_url) == before
    assert_whole(module_database_url)


def send(caller: Caller, method: str, path: str, body: object) -> Any:
    """Send any body, also one that is no proper JSON."""
    return caller.http.request(method, f"/api/v1{path}", content=json.dumps(body), headers=JSON)


OF_A_TASK: dict[str, dict[str, Any]] = {
    "comments": {"text": "x"},
    "promote": {},
    "drop": {},
    "heartbeat": {},
    "done": {},
    "fail": {"reason": "x"},
    "escalate": {"message": "x"},
    "reset": {},
    "cancel": {},
    "skip": {},
    "answer": {"answer": "x"},
}


@pytest.mark.parametrize("text", IDS, ids=lambda text: text[:12])
def test_what_is_no_task(agent: Caller, text: str) -> None:
    answers = [agent.http.post(f"/api/v1/tasks/{text}/{verb}", json=body) for verb, body in OF_A_TASK.items()]
    answers += [
        agent.http.get(f"/api/v1/tasks/{text}"),
        agent.http.get(f"/api/v1/tasks/{text}/explain"),
        agent.http.patch(f"/api/v1/tasks/{text}", json={"title": "x"}),
        agent.http.get(f"/api/v1/tasks/wait?seconds=0&task={text}"),
        agent.http.get(f"/api/v1/graph?around={text}"),
    ]
    for answer in answers:
        assert "is not a task" in refused(answer, 422, "malformed")


def test_numbers_that_nobody_has(agent: Caller) -> None:
    for number in (999, 2**31, 2**63 - 1):
        for verb, body in OF_A_TASK.items():
            if verb != "promote":
                refused(agent.http.post(f"/api/v1/tasks/T-{number}/{verb}", json=body), 404, "not_found")
        refused(agent.http.get(f"/api/v1/tasks/T-{number}"), 404, "not_found")
        refused(agent.http.get(f"/api/v1/tasks/T-{number}/explain"), 404, "not_found")
        refused(agent.http.get(f"/api/v1/tasks/wait?task=T-{number}"), 404, "not_found")
        refused(agent.http.get(f"/api/v1/graph?around=T-{number}"), 404, "not_found")
        refused(agent.http.patch(f"/api/v1/tasks/T-{number}", json={"title": "x"}), 404, "not_found")
        refused(send(agent, "POST", "/claims", {"task": f"T-{number}"}), 404, "not_found")
        promoted = agent.post(f"/tasks/T-{number}/promote")
        assert (promoted["done"], list(promoted["refused"])) == ([], [f"T-{number}"])


TASKS: list[tuple[str, dict[str, Any], int, str]] = [
    ("no title", {}, 422, "malformed"),
    ("an empty title", {"title": ""}, 422, "malformed"),
    ("a blank title", {"title": " \n\t\x00\x1b\u202e "}, 422, "malformed"),
    ("half a character", {"title": HALF}, 422, "malformed"),
    ("a title of 201", {"title": "x" * 201}, 422, "malformed"),
    ("a title of 1 MB", {"title": MEGABYTE}, 422, "malformed"),
    ("a title that is a list", {"title": ["x"]}, 422, "malformed"),
    ("a title that is null", {"title": None}, 422, "malformed"),
    ("a context of 20,001", {"context": "x" * 20_001}, 422, "malformed"),
    ("a context that is an object", {"context": {"files": []}}, 422, "malformed"),
    ("criteria of 1 MB", {"done_when": MEGABYTE}, 422, "malformed"),
    ("a strange priority", {"priority": "p9"}, 422, "malformed"),
    ("a long priority", {"priority": "p" * 100_000}, 422, "malformed"),
    ("a kind that comes about by itself", {"kind": "gpu"}, 422, "malformed"),
    ("a kind that nobody knows", {"kind": MEGABYTE}, 422, "malformed"),
    ("an epic that is none", {"parent_id": "T-5"}, 422, "malformed"),
    ("an epic that is not there", {"parent_id": "T-999"}, 404, "not_found"),
    ("an epic with a strange name", {"parent_id": "E-1"}, 422, "malformed"),
    ("a dependency that is none", {"depends_on": ["now"]}, 422, "malformed"),
    ("a dependency that is not there", {"depends_on": ["T-999"]}, 404, "not_found"),
    ("a dependency on an idea", {"depends_on": ["T-4"]}, 409, "not_ready"),
    ("dependencies that are no list", {"depends_on": "T-5"}, 422, "malformed"),
    ("dependencies of nothing", {"depends_on": [None]}, 422, "malformed"),
    ("too many dependencies", {"depends_on": [f"T-{number}" for number in range(1, 1_002)]}, 422, "malformed"),
    ("another card", {"needs": {"device": "7"}}, 404, "not_found"),
    ("no card's name", {"needs": {"device": ","}}, 422, "malformed"),
    ("more cards than there are", {"needs": {"cards": 3}}, 422, "impossible"),
    ("fewer cards than none", {"needs": {"cards": -1}}, 422, "malformed"),
    ("more cards than a number holds", {"needs": {"cards": 10**40}}, 422, "malformed"),
    ("more memory than there is", {"needs": {"memory_gib": 500}}, 422, "impossible"),
    ("less memory than none", {"needs": {"memory_gib": -1}}, 422, "malformed"),
    ("an unknown model", {"needs": {"model": "<img src=x>"}}, 422, "impossible"),
    ("a model of 1 MB", {"needs": {"model": MEGABYTE}}, 422, "malformed"),
    ("half a model", {"needs": {"model": HALF}}, 422, "malformed"),
    ("a strange style", {"needs": {"device": "0", "env_style": "nvidia"}}, 422, "malformed"),
    ("a strange style of nothing", {"needs": {"env_style": "nvidia"}}, 422, "malformed"),
    ("too many resources", {"needs": {"resources": [f"r{number}" for number in range(17)]}}, 422, "malformed"),
    ("a resource without a name", {"needs": {"resources": [" "]}}, 422, "malformed"),
    ("a resource with a long name", {"needs": {"resources": ["x" * 81]}}, 422, "malformed"),
    ("a capability of 1 MB", {"needs": {"capabilities": [MEGABYTE]}}, 422, "malformed"),
    ("needs that are a list", {"needs": []}, 422, "malformed"),
    ("an epic with needs", {"kind": "epic", "needs": {"device": "0"}}, 422, "malformed"),
    ("a key of 301", {"key": "x" * 301}, 422, "malformed"),
    ("half a key", {"key": HALF}, 422, "malformed"),
    ("a deadline that is a word", {"deadline": "soon"}, 422, "malformed"),
    ("a day that is not there", {"deadline": "2027-02-30"}, 422, "malformed"),
    ("a deadline before all time", {"deadline": "0001-01-01T00:00:00+14:00"}, 422, "malformed"),
    ("a deadline after all time", {"deadline": "9999-12-31T23:59:59-12:00"}, 422, "malformed"),
    ("no attempts", {"max_attempts": 0}, 422, "malformed"),
    ("too many attempts", {"max_attempts": 101}, 422, "malformed"),
    ("half an attempt", {"max_attempts": 1.5}, 422, "malformed"),
    ("no minutes", {"minutes": 0}, 422, "malformed"),
    ("for ever", {"minutes": 1e300}, 422, "malformed"),
    ("another project", {"project": "nowhere"}, 404, "not_found"),
    ("a project of 1 MB", {"project": MEGABYTE}, 422, "malformed"),
]


@pytest.mark.parametrize(("wish", "status", "code"), [each[1:] for each in TASKS], ids=[each[0] for each in TASKS])
def test_tasks_that_make_no_sense(agent: Caller, wish: dict[str, Any], status: int, code: str) -> None:
    whole = wish if wish == {} else {"title": "new"} | wish
    refused(send(agent, "POST", "/tasks", whole), status, code)


CHANGES: list[tuple[str, dict[str, Any], int, str]] = [
    ("an empty title", {"title": ""}, 422, "malformed"),
    ("half a title", {"title": HALF}, 422, "malformed"),
    ("a context of 1 MB", {"context": MEGABYTE}, 422, "malformed"),
    ("a strange priority", {"priority": "urgent"}, 422, "malformed"),
    ("a circle of one", {"depends_on": ["T-5"]}, 409, "cycle"),
    ("a dependency that is not there", {"depends_on": ["T-999"]}, 404, "not_found"),
    ("an epic that is none", {"parent_id": "T-3"}, 422, "malformed"),
    ("a deadline that is a word", {"deadline": "later"}, 422, "malformed"),
    ("no attempts", {"max_attempts": 0}, 422, "malformed"),
    ("minutes backwards", {"minutes": -1}, 422, "malformed"),
]


@pytest.mark.parametrize(
    ("changes", "status", "code"), [each[1:] for each in CHANGES], ids=[each[0] for each in CHANGES]
)
def test_changes_that_make_no_sense(agent: Caller, changes: dict[str, Any], status: int, code: str) -> None:
    refused(send(agent, "PATCH", "/tasks/T-5", changes), status, code)


def test_an_epic_is_not_part_of_itself(agent: Caller) -> None:
    assert "T-1 cannot" in refused(send(agent, "PATCH", "/tasks/T-1", {"parent_id": "T-1"}), 409, "cycle")


def test_a_circle_is_named(agent: Caller) -> None:
    told = refused(send(agent, "PATCH", "/tasks/T-3", {"depends_on": ["T-2"]}), 409, "cycle")
    assert "T-3" in told
    assert "T-2" in told


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize(
    "path", ["/tasks", "/ideas", "/claims/batch", "/tasks/batch-done", "/tasks/T-3/fail", "/tasks/T-3/comments"]
)
def test_bodies_that_are_none(agent: Caller, path: str, body: bytes) -> None:
    refused(agent.http.post(f"/api/v1{path}", content=body, headers=JSON), 422, "malformed")


CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("a task that is none", "/claims", {"task": "next"}),
    ("no tasks at all", "/claims", {"count": 0}),
    ("too many tasks", "/claims", {"count": 21}),
    ("a number of tasks that is a word", "/claims", {"count": "many"}),
    ("a life of a moment", "/claims", {"life_seconds": 1}),
    ("a life of ever", "/claims", {"life_seconds": 1e300}),
    ("a life of nobody knows", "/claims", {"life_seconds": float("nan")}),
    ("several of nothing", "/claims/batch", {"tasks": []}),
    ("several that are none", "/claims/batch", {"tasks": ["T-5", "x"]}),
    ("very many", "/claims/batch", {"tasks": ["T-5"] * 101}),
    ("progress below none", "/tasks/T-3/heartbeat", {"percent": -1}),
    ("progress beyond all", "/tasks/T-3/heartbeat", {"percent": 101}),
    ("progress beyond numbers", "/tasks/T-3/heartbeat", {"percent": 10**40}),
    ("progress of 1 MB", "/tasks/T-3/heartbeat", {"progress": MEGABYTE}),
    ("half progress", "/tasks/T-3/heartbeat", {"progress": HALF}),
    ("a lease that is none", "/tasks/T-3/heartbeat", {"lease": "T-3"}),
    ("done by what is no lease", "/tasks/T-3/done", {"lease": "L-x"}),
    ("an output of 200 kB", "/tasks/T-3/done", {"output": {"log": "x" * 200_000}}),
    ("an output that is no number", "/tasks/T-3/done", {"output": {"loss": float("nan")}}),
    ("a branch of 301", "/tasks/T-3/done", {"branch_name": "x" * 301}),
    ("half a branch", "/tasks/T-3/done", {"branch_name": HALF}),
    ("failed by what is no lease", "/tasks/T-3/fail", {"lease": "L-x", "reason": "x"}),
    ("failed for nothing", "/tasks/T-3/fail", {"reason": ""}),
    ("failed for 1 MB", "/tasks/T-3/fail", {"reason": MEGABYTE}),
    ("failed in a strange class", "/tasks/T-3/fail", {"reason": "x", "failure": "bad luck"}),
    ("a question of nothing", "/tasks/T-3/escalate", {"message": " \x1b\u202e"}),
    ("a question of 1 MB", "/tasks/T-3/escalate", {"message": MEGABYTE}),
    ("a comment of nothing", "/tasks/T-3/comments", {"text": "\n"}),
    ("a comment of 1 MB", "/tasks/T-3/comments", {"text": MEGABYTE}),
    ("a comment that is a number", "/tasks/T-3/comments", {"text": 5}),
    ("an idea of nothing", "/ideas", {"title": "\x00"}),
    ("an idea of 1 MB", "/ideas", {"title": "x", "context": MEGABYTE}),
    ("an answer of nothing", "/tasks/T-3/answer", {"answer": ""}),
    ("an answer of 1 MB", "/tasks/T-3/answer", {"answer": MEGABYTE}),
    ("a reason of 1 MB to cancel", "/tasks/T-3/cancel", {"reason": MEGABYTE}),
    ("a reason of 1 MB to skip", "/tasks/T-3/skip", {"reason": MEGABYTE}),
    ("settled for 1 MB", "/tasks/batch-done", {"tasks": ["T-5"], "reason": MEGABYTE}),
    ("settled by what is no output", "/tasks/batch-done", {"tasks": ["T-5"], "output": {"x": float("inf")}}),
    ("nothing settled", "/tasks/batch-done", {"tasks": []}),
    ("recovered maybe", "/recovery", {"execute": "perhaps"}),
]


@pytest.mark.parametrize(("path", "body"), [each[1:] for each in CALLS], ids=[each[0] for each in CALLS])
def test_calls_that_make_no_sense(agent: Caller, path: str, body: dict[str, Any]) -> None:
    refused(send(agent, "POST", path, body), 422, "malformed")


STANDING: list[tuple[str, str, dict[str, Any], str]] = [
    ("what somebody else holds", "/claims", {"task": "T-3"}, "taken"),
    ("what waits", "/claims", {"task": "T-2"}, "not_ready"),
    ("an epic", "/claims", {"task": "T-1"}, "not_ready"),
    ("an idea", "/claims", {"task": "T-4"}, "not_ready"),
    ("finishing what nobody holds", "/tasks/T-5/done", {}, "not_ready"),
    ("failing what nobody holds", "/tasks/T-5/fail", {"reason": "x"}, "not_ready"),
    ("asking about what nobody holds", "/tasks/T-5/escalate", {"message": "x"}, "not_ready"),
    ("showing progress of what nobody holds", "/tasks/T-5/heartbeat", {}, "not_ready"),
    ("dropping what is no idea", "/tasks/T-5/drop", {}, "not_ready"),
    ("answering what did not ask", "/tasks/T-5/answer", {"answer": "x"}, "not_ready"),
]


@pytest.mark.parametrize(("path", "body", "code"), [each[1:] for each in STANDING], ids=[each[0] for each in STANDING])
def test_what_does_not_fit_how_a_task_stands(other: Caller, path: str, body: dict[str, Any], code: str) -> None:
    refused(send(other, "POST", path, body), 409, code)


@pytest.mark.parametrize("verb", ["heartbeat", "done", "fail", "escalate"])
def test_what_only_the_holder_may_do(other: Caller, verb: str) -> None:
    told = refused(send(other, "POST", f"/tasks/T-3/{verb}", OF_A_TASK[verb]), 409, "taken")
    assert "agent" in told


@pytest.mark.parametrize(
    "path",
    [
        "/tasks?state=flying",
        f"/tasks?state={'x' * 9_000}",
        "/tasks?limit=0",
        "/tasks?limit=1001",
        f"/tasks?limit={HUGE}",
        "/tasks/ready?priority=p9",
        "/tasks/ready?limit=x",
        "/tasks/ready/wait?seconds=56",
        "/tasks/ready/wait?seconds=nan",
        "/tasks/wait",
        "/tasks/wait?task=",
        "/tasks/wait?task=T-5&seconds=-1",
        f"/tasks/wait?{'&'.join(['task=T-5'] * 101)}",
        "/dead-letters?limit=0",
        "/escalations?limit=x",
        "/graph?depth=-1",
        "/graph?depth=1000",
        "/graph?limit=0",
        "/graph?format=png",
    ],
    ids=lambda path: path[:40],
)
def test_questions_that_make_no_sense(agent: Caller, path: str) -> None:
    refused(agent.http.get(f"/api/v1{path}"), 422, "malformed")


@pytest.mark.parametrize("path", ["/tasks", "/tasks/ready", "/tasks/ready/wait", "/dead-letters", "/graph"])
def test_projects_that_are_not_there(agent: Caller, path: str) -> None:
    refused(agent.http.get(f"/api/v1{path}?project=nowhere"), 404, "not_found")


PLANS: dict[str, Any] = {
    "no plan": {},
    "a plan that is a list": {"plan": []},
    "a plan that is a text": {"plan": "tasks:\n- title: x"},
    "a plan of nothing": {"plan": {}},
    "a plan of strange tasks": {"plan": {"tasks": [5]}},
}


@pytest.mark.parametrize("body", PLANS.values(), ids=PLANS.keys())
def test_plans_that_make_no_sense(agent: Caller, body: dict[str, Any]) -> None:
    answer = send(agent, "POST", "/graph/import", body)
    if body.get("plan") in ({}, {"tasks": [5]}):
        told = answer.json()["error"]
        assert (answer.status_code, told["code"]) == (422, "plan")
        assert re.fullmatch(r"The plan has 1 fault:\n- [^\n]+", told["cause"])
    else:
        refused(answer, 422, "malformed")
