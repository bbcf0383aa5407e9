"""Commands that are really run, against a server that answers as the test scripts it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_server import Command, ScriptedServer, scripted_server


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.fixture
def environment(server: ScriptedServer, tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WARPLOOM_", "CUDA_"))}
    return kept | {
        "WARPLOOM_HOME": str(tmp_path / "home"),
        "WARPLOOM_URL": server.url,
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


@pytest.fixture
def warploom(environment: dict[str, str], tmp_path: Path) -> Command:
    """Run one command to its end."""

    def run(*arguments: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
        changed = {name: value for name, value in (environment | changes).items() if value is not None}
        return subprocess.run(
            [sys.executable, "-m", "warploom", *arguments],
            env=changed,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )

    return run
