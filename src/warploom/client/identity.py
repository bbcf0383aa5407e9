"""Who a command speaks for, and to which server: the caller, its headers, the address."""

import getpass
import json
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from warploom.client.processes import ancestors_of, command_of
from warploom.config import Settings
from warploom.domain.callers import Caller
from warploom.domain.errors import MalformedInput
from warploom.domain.processes import ProcessIdentity

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "nu", "pwsh", "xonsh"})
_LONGEST_VALUE = 400


def shell_caller(settings: Settings) -> Caller:
    """Describe the caller of a CLI command: its ancestors, and the shell it was typed into (else the user, as agent)."""
    ancestors = ancestors_of(os.getpid())
    shell = session_process(ancestors)
    return Caller(
        session_key=settings.session,
        agent=settings.agent or (_login() if shell is None else None),
        project=settings.project,
        client=None if shell is None else _name(command_of(shell.pid)) or None,
        directory=_directory(),
        host=settings.host_name,
        process=shell,
        ancestors=ancestors,
    )


def client_caller(settings: Settings, lifeline: Sequence[ProcessIdentity]) -> Caller:
    """Describe the session of the client that started a program: the last of the processes whose life it shares."""
    return Caller(
        session_key=settings.session,
        agent=settings.agent,
        project=settings.project,
        client=_name(command_of(lifeline[-1].pid)) or None if lifeline else None,
        directory=_directory(),
        host=settings.host_name,
        process=lifeline[-1] if lifeline else None,
    )


def session_process(ancestors: Sequence[ProcessIdentity]) -> ProcessIdentity | None:
    """Pick the process whose life a command's session shares: the nearest shell that stays after the command.

    A shell started for one command (`sh -c …`) ends with it, so the search goes on above it; where no other shell
    is found, the program that started that one is taken.
    """
    commands = {step: command_of(step.pid) for step in ancestors}
    lasting = [step for step in ancestors if not _is_one_shot(commands[step])]
    shells = [step for step in lasting if _name(commands[step]) in _SHELLS]
    return next(iter([*shells, *lasting, *ancestors]), None)


def headers_of(caller: Caller, key: str | None = None) -> dict[str, str]:
    """Write a caller as request headers, percent-encoded so that any text passes."""
    ancestors = ",".join(map(_step, caller.ancestors))
    values = {
        "Session": caller.session_key,
        "Agent": caller.agent,
        "Project": caller.project,
        "Client": caller.client,
        "Directory": caller.directory,
        "Host": caller.host,
        "Process": None if caller.process is None else _step(caller.process),
        "Ancestors": ancestors or None,
    }
    headers = {
        f"X-Warploom-{name}": quote(value[:_LONGEST_VALUE] if name != "Ancestors" else value, safe="/:,@ ._-")
        for name, value in values.items()
        if value
    }
    return headers | ({"Authorization": f"Bearer {_checked(key)}"} if key else {})


def server_url(settings: Settings) -> str:
    """Return the server to speak to: WARPLOOM_URL, else what the home's running server wrote, else the default port."""
    return settings.url or written_url(settings.home) or f"http://127.0.0.1:{settings.port}"


def written_url(home: Path) -> str | None:
    """Read the address that the server of a home wrote down; None when there is none to read."""
    try:
        url = json.loads((home / "run" / "server.json").read_text(encoding="utf-8"))["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url.rstrip("/") if isinstance(url, str) and url else None


def _step(identity: ProcessIdentity) -> str:
    return f"{identity.pid}:{identity.started}"


def _checked(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise MalformedInput(
            "WARPLOOM_KEY holds characters that a key cannot have.", "Copy the key again, without line breaks."
        )
    return key


def _name(command: Sequence[str]) -> str:
    return Path(command[0]).name.removeprefix("-") if command else ""


def _is_one_shot(command: Sequence[str]) -> bool:
    """Say whether this is a shell that runs one given command: its flags, before any script, hold a `c`."""
    if _name(command) not in _SHELLS:
        return False
    for argument in command[1:]:
        if not argument.startswith("-"):
            return False
        if argument in ("-c", "--command") or (not argument.startswith("--") and "c" in argument):
            return True
    return False


def _login() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def _directory() -> str | None:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return None
