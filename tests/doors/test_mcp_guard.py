"""Who may come in at /mcp and /api: Host and Origin on loopback, keys wherever they are set, nobody without them beyond."""

import re
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from tools import agent_at

from support.serving import PATIENCE, Caller, ServerProcess, environment_of, server_processes
from warploom.config import Settings
from warploom.domain.errors import NotAllowed
from warploom.web.guard import require_keys

PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream"}
KEYS = {"key": "agents' key", "operator_key": "operators' key"}


@pytest.fixture(scope="module")
def both(
    module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[list[ServerProcess]]:
    """One server without keys, and one with both."""
    common: dict[str, object] = {"database_url": module_database_url, "redis_url": redis_url}
    with server_processes(tmp_path_factory.mktemp("servers"), common, common | KEYS) as both:
        Caller(both[0].url).survey()
        yield both


@pytest.fixture(scope="module")
def open_server(both: list[ServerProcess]) -> ServerProcess:
    return both[0]


@pytest.fixture(scope="module")
def keyed(both: list[ServerProcess]) -> ServerProcess:
    return both[1]


@pytest.mark.parametrize("path", ["/mcp", "/api/v1/tickets", "/dashboard/cards/local/0/drain"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
    ],
    ids=str,
)
def test_a_page_of_another_site_is_refused(
    open_server: ServerProcess, path: str, headers: dict[str, str], status: int
) -> None:
    answer = httpx.post(f"{open_server.url}{path}", json=PING, headers=ACCEPT | headers, verify=False)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == "not_allowed"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_the_names_of_this_machine_and_the_servers_own_pages_are_let_in(open_server: ServerProcess, name: str) -> None:
    own = f"{name}:{open_server.port}"
    headers = ACCEPT | {"Host": own, "Origin": f"http://{own}"}
    answer = httpx.post(f"{open_server.url}/mcp", json=PING, headers=headers, verify=False)
    assert answer.status_code == 200
    assert "gpu_request" in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/mcp"), ("GET", "/api/v1/rack"), ("GET", "/events"), ("GET", "/dashboard"), ("GET", "/openapi.json")],
)
@pytest.mark.parametrize(
    "authorization", [None, "Bearer wrong", "Bearer  x y", "Basic !!", "agents' key", "Bearer k\xe4"]
)
def test_without_a_key_nothing_is_served(
    keyed: ServerProcess, method: str, path: str, authorization: str | None
) -> None:
    given = [] if authorization is None else [(b"Authorization", authorization.encode("latin-1"))]
    headers = [(name.encode(), value.encode()) for name, value in ACCEPT.items()]
    answer = httpx.request(method, f"{keyed.url}{path}", headers=[*headers, *given], verify=False)
    assert answer.status_code == 401
    assert answer.json()["error"] == {
        "code": "not_allowed",
        "cause": "No valid key was given.",
        "next": "Set WARPLOOM_KEY to the key of this server.",
    }


def test_health_is_open_to_those_who_watch_over_the_server(keyed: ServerProcess) -> None:
    assert httpx.get(f"{keyed.url}/health", verify=False).json()["status"] == "ok"


async def test_agents_work_but_only_operators_drain(keyed: ServerProcess) -> None:
    async with agent_at(keyed.url, "keyed", key=KEYS["key"]) as agent:
        assert (await agent.call("loom_me"))["agent"] == "keyed"
    ways = {name: Caller(keyed.url, "keyed", key) for name, key in KEYS.items()}
    answers = {
        (name, verb): way.http.post(f"/api/v1/cards/local/0/{verb}", json={})
        for name, way in ways.items()
        for verb in ("drain", "undrain")
    }
    assert {place: answer.status_code for place, answer in answers.items()} == {
        ("key", "drain"): 403,
        ("key", "undrain"): 403,
        ("operator_key", "drain"): 200,
        ("operator_key", "undrain"): 200,
    }
    assert answers["key", "drain"].json()["error"]["code"] == "not_allowed"


def test_beyond_loopback_it_does_not_listen_without_keys(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, bind="0.0.0.0", port=0, database_url="postgresql://nowhere/none", key="one")
    ended = subprocess.run(
        [sys.executable, "-m", "warploom.server"], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "Listening on 0.0.0.0 without keys would open the cards to everybody. "
        "Set WARPLOOM_KEY and WARPLOOM_OPERATOR_KEY, or listen on 127.0.0.1.\n"
    )


@pytest.mark.parametrize("given", [{}, {"KEY": "one"}, {"OPERATOR_KEY": "one"}], ids=str)
@pytest.mark.parametrize("address", ["::", "192.0.2.7", "127.0.0.1.evil.example", "cards.example"])
def test_no_other_address_does_without_both_keys(given: dict[str, str], address: str) -> None:
    environment = {"WARPLOOM_BIND": address} | {f"WARPLOOM_{name}": value for name, value in given.items()}
    with pytest.raises(NotAllowed, match=re.escape(f"Listening on {address} without keys")):
        require_keys(Settings.load(environment))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "localhost", "::1"])
def test_loopback_needs_no_key(address: str) -> None:
    require_keys(Settings.load({"WARPLOOM_BIND": address}))


def test_beyond_loopback_it_listens_with_both_keys_and_answers_to_any_name(
    module_database_url: str, redis_url: str, tmp_path: Path
) -> None:
    settings: dict[str, object] = {"database_url": module_database_url, "redis_url": redis_url, "bind": "0.0.0.0"}
    with server_processes(tmp_path, settings | KEYS) as (server,):
        address = f"http://{_own_address()}:{server.port}/api/v1/rack"
        headers = {"Host": "cards.example", "Authorization": f"Bearer {KEYS['key']}"}
        assert httpx.get(address, headers=headers, verify=False).status_code == 200
        assert httpx.get(address, verify=False).status_code == 401


def _own_address() -> str:
    """Return the address with which this machine would speak to others; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return probe.getsockname()[0]
