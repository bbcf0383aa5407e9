"""Every byte on stdout is JSON-RPC, whatever else in the process writes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rawclient import RawClient

NOISY_START = """
import atexit, os, sys
print("noise from the start \\u2713")
sys.stdout.write("half a line")
atexit.register(print, "noise at exit")
"""
NOISY_IMPORT = """
import atexit, os, subprocess, sys
print("noise from an import", flush=True)
sys.__stdout__.write("noise behind the back\\n")
sys.__stdout__.flush()
os.write(1, b"noise on the descriptor\\n")
subprocess.run(["sh", "-c", "echo noise from a child"], check=True)
atexit.register(os.write, 1, b"noise at exit")
from {name} import *
"""


def _assert_only_messages(client: RawClient) -> None:
    assert client.lines
    for line in client.lines:
        assert json.loads(line)["jsonrpc"] == "2.0"
        assert line.endswith(b"\n")


def _converse(client: RawClient) -> None:
    client.introduce()
    assert client.ask("tools/list")["result"]["tools"]
    assert not client.call("gpu_request", job="✓")["isError"]
    assert client.leave() == 0


def test_what_is_printed_while_python_starts_stays_off_the_wire(
    connect: Callable[..., RawClient], tmp_path: Path
) -> None:
    """Casebook C48."""
    (tmp_path / "sitecustomize.py").write_text(NOISY_START)
    client = connect(PYTHONPATH=str(tmp_path), PYTHONUNBUFFERED="")

    _converse(client)

    _assert_only_messages(client)
    assert b"noise from the start" in client.noise


def test_a_noisy_dependency_and_its_children_stay_off_the_wire(
    connect: Callable[..., RawClient], tmp_path: Path
) -> None:
    """Casebook C48: every line of standard output is JSON-RPC, whatever an import, a child or an exit handler prints."""
    # A module that stands in front of one that the server imports, and hands its names on.
    finder = "import sys; sys.path.append(sys.path.pop(0))"
    (tmp_path / "anyio_noise.py").write_text(NOISY_IMPORT.format(name="math"))
    (tmp_path / "run.py").write_text(
        f"{finder}\n"
        "import builtins, sys\n"
        "sys.path.append(%r)\n"
        "real = builtins.__import__\n"
        "def noisy(name, *rest):\n"
        "    if name == 'anyio' and 'anyio' not in sys.modules and 'anyio_noise' not in sys.modules:\n"
        "        real('anyio_noise')\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = noisy\n"
        "from warploom.stdio.main import main\n"
        "main()\n" % str(tmp_path)
    )
    client = connect((sys.executable, str(tmp_path / "run.py")))

    _converse(client)

    _assert_only_messages(client)
    for text in ("an import", "behind the back", "on the descriptor", "a child"):
        assert f"{text}\n" in client.noise.decode()


@pytest.mark.parametrize("command", [("warploom-mcp",), ("warploom", "mcp")])
def test_the_installed_commands_speak_the_same_protocol(
    connect: Callable[..., RawClient], command: tuple[str, ...]
) -> None:
    client = connect((str(Path(sys.executable).with_name(command[0])), *command[1:]))

    _converse(client)

    _assert_only_messages(client)


@pytest.mark.parametrize(("name", "value"), [("WARPLOOM_PORT", "many"), ("WARPLOOM_URL", "ftp://nowhere")])
def test_broken_settings_are_explained_on_stderr(connect: Callable[..., RawClient], name: str, value: str) -> None:
    client = connect(**{name: value})

    assert client.ended() == 2
    assert client.lines == []
    assert name in client.noise.decode()
    assert "Traceback" not in client.noise.decode()


def test_closed_standard_error_does_not_put_anything_on_the_wire(
    connect: Callable[..., RawClient], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('noise')")
    client = connect(
        ("sh", "-c", f"exec {sys.executable} -m warploom.stdio 2>&-"), PYTHONPATH=str(tmp_path), PYTHONUNBUFFERED=""
    )

    _converse(client)

    _assert_only_messages(client)
