"""The one-liner for training scripts: it tells the latest step, and can do no harm."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Script = Callable[..., subprocess.CompletedProcess[str]]
NEEDS_NO = (
    "asyncio",
    "http.client",
    "socket",
    "ssl",
    "json",
    "urllib.parse",
    "typing",
    "inspect",
    "dataclasses",
    "pathlib",
)


class Listener:
    """Takes reports as the server does, and remembers them."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, Any, dict[str, str]]] = []
        self.status = 200
        self.answer = b""
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                listener.reports.append((self.path, body, dict(self.headers)))
                self.send_response(listener.status)
                self.send_header("Content-Length", str(len(listener.answer)))
                self.end_headers()
                self.wfile.write(listener.answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def listener() -> Iterator[Listener]:
    running = Listener()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture
def script(listener: Listener, tmp_path: Path) -> Script:
    """Run a training script inside a lease."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WARPLOOM_")}
    given = kept | {"WARPLOOM_HOME": str(tmp_path), "WARPLOOM_URL": listener.url, "WARPLOOM_LEASE": "L-42"}

    def run(code: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in (given | changes).items() if value is not None}
        command = [sys.executable, "-W", "error", "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)

    return run


def test_a_step_reaches_the_server_even_when_the_script_ends_right_after_it(listener: Listener, script: Script) -> None:
    script("import warploom; warploom.report(120, 3000)")
    ((path, body, headers),) = listener.reports
    assert (path, body) == ("/api/v1/leases/L-42/report", {"step": 120, "total": 3000})
    assert headers["X-Warploom-Process"].count(":") == 1


def test_of_many_steps_the_last_one_arrives_and_few_others(listener: Listener, script: Script) -> None:
    script("import warploom\nfor step in range(1, 20001): warploom.report(step, 20000)")
    steps = [body["step"] for _, body, _ in listener.reports]
    assert steps[-1] == 20000
    assert len(steps) < 100


def test_outside_a_lease_nothing_is_sent_and_no_thread_is_started(listener: Listener, script: Script) -> None:
    done = script(
        "import threading, warploom; warploom.report(1, 2); print(threading.active_count())", WARPLOOM_LEASE=None
    )
    assert done.stdout == "1\n"
    assert listener.reports == []


@pytest.mark.parametrize(
    "arguments", ["'x'", "None", "-1", "float('nan')", "10**30", "object(), object()", "1, 'many'"]
)
def test_nonsense_never_raises(script: Script, arguments: str) -> None:
    assert script(f"import warploom; warploom.report({arguments}); print('on')").stdout == "on\n"


def test_a_server_that_is_away_never_raises_and_never_prints(script: Script) -> None:
    done = script("import warploom; warploom.report(1, 2); print('on')", WARPLOOM_URL="http://127.0.0.1:9")
    assert (done.stdout, done.stderr) == ("on\n", "")


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://x", "http://[", "http://127.0.0.1:99999"])
def test_an_address_that_is_nonsense_never_raises_and_never_prints(script: Script, url: str) -> None:
    done = script("import warploom; warploom.report(1, 2); print('on')", WARPLOOM_URL=url)
    assert (done.stdout, done.stderr) == ("on\n", "")


def test_without_an_address_the_running_server_of_the_home_is_found(
    listener: Listener, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "server.json").write_text(json.dumps({"url": listener.url}))
    script("import warploom; warploom.report(1)", WARPLOOM_URL=None)
    assert listener.reports[0][1] == {"step": 1, "total": None}


def test_a_lease_that_is_over_is_not_reported_on_again(listener: Listener, script: Script) -> None:
    listener.status = 409
    script(
        "import warploom, warploom.report as module\n"
        "warploom.report(1, 9)\n"
        "module._sender._condition.acquire(); module._sender._condition.wait_for(lambda: module._sender._over, 20)\n"
        "module._sender._condition.release(); warploom.report(2, 9)"
    )
    assert [body["step"] for _, body, _ in listener.reports] == [1]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'{"lease":"L-42","should_release":true}', "True True"),
        (b'{"should_release":false}', "False False"),
        (b"{", "False False"),
    ],
)
def test_a_script_is_told_when_its_holder_agreed_to_release(
    listener: Listener, script: Script, answer: bytes, said: str
) -> None:
    listener.answer = answer
    done = script(
        "import warploom, warploom.report as module\n"
        "assert not warploom.report(1, 9)\n"
        "module._sender._condition.acquire(); module._sender._condition.wait_for(lambda: module._sender._heard[0], 20)\n"
        "module._sender._condition.release(); told = warploom.report(2, 9); print(bool(told), told.should_release)"
    )
    assert done.stdout == f"{said}\n"


def test_a_forked_worker_reports_for_itself(listener: Listener, script: Script) -> None:
    script(
        "import os, sys, warnings, warploom\n"
        "warnings.simplefilter('ignore')\n"
        "warploom.report(1, 9)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    warploom.report(5, 9)\n    sys.exit()\n"
        "os.waitpid(pid, 0)"
    )
    assert {body["step"] for _, body, _ in listener.reports} == {1, 5}


def test_the_function_and_the_module_share_one_name_in_every_order(script: Script) -> None:
    for first in (
        "import warploom.report",
        "from warploom.report import report",
        "from warploom import report",
        "pass",
    ):
        assert script(f"{first}\nimport warploom\nwarploom.report(1, 2)\nwarploom.report(2, 2)").returncode == 0


def test_importing_it_loads_next_to_nothing(script: Script) -> None:
    done = script(
        "import sys; before = set(sys.modules); import warploom; warploom.report; print(*set(sys.modules) - before)"
    )
    loaded = set(done.stdout.split())
    assert not loaded & set(NEEDS_NO)
    assert {name for name in loaded if name.startswith("warploom")} == {"warploom", "warploom.report"}
    assert len(loaded) < 20
