"""The HTTP API as a whole: every route is described, and names of any kind come back as the data they are."""

import json
import re
from collections.abc import Generator
from typing import Any

import pytest
from fastapi import FastAPI
from stage import listening

from support.invariants import ask, assert_whole
from support.serving import Caller
from warploom.app import build_app
from warploom.config import Settings
from warploom.server import build_server

REFUSAL = {"$ref": "#/components/schemas/Refusal"}


@pytest.fixture(scope="module")
def server(module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    environment = {
        "WARPLOOM_HOME": str(tmp_path_factory.mktemp("home")),
        "WARPLOOM_DATABASE_URL": module_database_url,
        "WARPLOOM_REDIS_URL": redis_url,
    }
    return build_server(build_app(Settings.load(environment), "http://127.0.0.1:8765"))


@pytest.fixture(scope="module")
def agent(server: FastAPI) -> Generator[Caller]:
    with listening(server) as url:
        caller = Caller(url, "agent")
        caller.survey(cards=4)
        yield caller
        caller.close()


@pytest.fixture(scope="module")
def described(agent: Caller) -> dict[str, Any]:
    return agent.http.get("/openapi.json").json()


def operations(described: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }


ROUTES = """
GET /health
GET /events
GET /api/v1/rack
POST /api/v1/tickets
GET /api/v1/tickets/{ticket}
DELETE /api/v1/tickets/{ticket}
GET /api/v1/tickets/{ticket}/wait
POST /api/v1/leases/{lease}/accept
POST /api/v1/leases/{lease}/extend
POST /api/v1/leases/{lease}/report
POST /api/v1/leases/{lease}/release
GET /api/v1/me
POST /api/v1/heartbeat
POST /api/v1/cards/{host}/{index}/drain
POST /api/v1/cards/{host}/{index}/undrain
POST /api/v1/hosts/{host}/survey
GET /api/v1/hosts/{host}/orders
GET /api/v1/events
GET /api/v1/doctor
"""


def test_every_route_is_described_and_nothing_else(described: dict[str, Any]) -> None:
    assert set(operations(described)) == set(ROUTES.strip().splitlines())


def test_every_operation_says_what_it_does_what_it_answers_and_how_it_refuses(described: dict[str, Any]) -> None:
    for name, operation in operations(described).items():
        assert re.fullmatch(r"[A-Z][^\n]+\.", operation["description"].strip()), name
        assert operation["responses"]["200"]["content"], name
        refusals = {
            code: told["content"]["application/json"]["schema"]
            for code, told in operation["responses"].items()
            if code != "200"
        }
        assert refusals == {"4XX": REFUSAL, "5XX": REFUSAL}, name
    assert "HTTPValidationError" not in json.dumps(described)


def test_every_part_of_an_answer_has_a_type(described: dict[str, Any]) -> None:
    for name, schema in described["components"]["schemas"].items():
        untyped = [
            part for part, told in schema.get("properties", {}).items() if not {"type", "$ref", "anyOf"} & set(told)
        ]
        assert not untyped, name


NAMES = {
    "html": ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    "nul": ("a\x00b", "a b"),
    "lines": ("first\nsecond\r\nthird", "first second third"),
    "escapes": ("\x1b[31mred\x1b[0m", "[31mred [0m"),
    "direction": ("abc\u202ecba", "abc cba"),
    "half a character": ("a\ud800b", "a b"),
    "other scripts": ("训练 🧵 épreuve", "训练 🧵 épreuve"),
    "quotes": ("'; drop table task; --", "'; drop table task; --"),
    "braces": ("{agent} %s {0}", "{agent} %s {0}"),
    "the longest": ("x" * 200, "x" * 200),
}


@pytest.mark.parametrize(("given", "kept"), NAMES.values(), ids=NAMES.keys())
def test_a_name_is_kept_as_one_clean_line_and_shown_as_it_is(
    agent: Caller, module_database_url: str, given: str, kept: str
) -> None:
    headers = {"Content-Type": "application/json"}
    wish = json.dumps({"job": given, "device": "any", "purpose": f"test {kept}"})
    answer = agent.http.post("/api/v1/tickets", content=wish, headers=headers).json()
    assert (answer["title"], answer["state"]) == (kept, "active")
    rack = agent.get("/rack")
    held = [card["holder"]["title"] for host in rack["hosts"] for card in host["cards"] if card["holder"]]
    assert kept in held
    told = [event["text"] for event in agent.get("/events", limit=10)["events"] if event["ticket"] == answer["ticket"]]
    assert [text for text in told if f"'{kept}'" in text]
    assert ask(module_database_url, "select title from task order by id desc limit 1") == [{"title": kept}]
    agent.release(answer["lease"])
    agent.survey(cards=4)
    assert_whole(module_database_url)
